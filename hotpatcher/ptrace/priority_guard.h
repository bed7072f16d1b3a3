/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lent priority: threads of the target run with real-time priority from just before they are
 * interrupted until they are released. So on a busy machine no stop waits until another process
 * has used its share of a CPU. And the guard: a process of iprobe that gives every thread its own
 * policy back if iprobe is killed in between, since otherwise the thread would keep SCHED_FIFO.
 *
 *   1. Early, while iprobe is small, the thread that will raise other threads forks the guard. The
 *      guard shares one table with iprobe and closes all files but a pipe from iprobe. It blocks
 *      all signals, and asks the kernel for a signal when the thread that forked it ends. It
 *      leaves iprobe's session, so that a signal to iprobe's process group does not reach it. It
 *      takes a priority above all that iprobe lends, and sleeps until iprobe closes the pipe or
 *      ends.
 *   2. To raise a thread: write the thread and its policy into the table; then change its policy.
 *      If iprobe is killed between the two, step 5 finds nothing to do.
 *   3. To take the priority back: if the thread still has exactly what iprobe gave it, set the
 *      policy that the table names; then clear the entry. (If the thread has anything else, some
 *      other program has changed it meanwhile, and that change stands.) The nice value and the
 *      time slice of the thread have stayed as they were: the kernel keeps them beside a real-time
 *      priority.
 *   4. Before each stop iprobe looks whether the guard still lives and is ready: the guard might
 *      not have had a CPU so far. Without it no thread is raised.
 *   5. The pipe is closed, or the thread that forked the guard has ended. (The guard does not wait
 *      for the end of iprobe's process: other threads of iprobe may not get to their end for want
 *      of a CPU, which the raised threads have.) For each entry left the guard does step 3, if the
 *      thread is not younger than the table's last use (a younger one is a new thread with an old
 *      number) and has exactly what iprobe gave. Then the guard ends: it outlives iprobe by no
 *      more than that.
 *
 * Only threads of the ordinary policy (SCHED_OTHER) with a nice value of 0 or more are raised. The
 * lent policy has SCHED_RESET_ON_FORK: a child that is forked at that moment then has SCHED_OTHER
 * and the same nice value, as it would have had without iprobe. A child of a batch, idle or
 * negative-nice thread would get another policy or nice value, so such threads are left alone, as
 * are real-time and deadline threads. Lending takes CAP_SYS_NICE; without it stops take longer and
 * all else is the same.
 */
#ifndef IP_PRIORITY_GUARD_H
#define IP_PRIORITY_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_PRIORITY_GUARD_THREADS 16384u /* raised at a time; more are not */

/* The entry of a raised thread. */
struct ip_priority_guard_entry {
	pid_t tid;  /* 0: none */
	int policy; /* as sched_getscheduler() returns it */
};

struct ip_priority_guard_table {
	/* when the table was last used, in the unit of a thread's start time */
	uint64_t used_ticks;
	uint32_t ready; /* the guard has asked for the signal of step 1 */
	uint32_t n;
	struct ip_priority_guard_entry entries[IP_PRIORITY_GUARD_THREADS];
};

/* Whether the calling thread can lend priority and take it back: this needs CAP_SYS_NICE. */
bool ip_priority_guard_may_lend(void);

/* Step 1. Does nothing if iprobe may not lend priority, or if a guard was started already. Never
 * fails: without a guard nothing is lent. */
void ip_priority_guard_start(void);

/* Ends the guard and waits for it. */
void ip_priority_guard_stop(void);

/* The same, until the next ip_priority_guard_begin(), which starts it again. */
void ip_priority_guard_rest(void);

/* Step 4; then takes back what is still lent, and empties the table unless that fails for a thread.
 * Returns whether threads can be raised. */
bool ip_priority_guard_begin(void);

/* Step 2. Returns the number of the entry, counted from 1; 0: the thread was not raised. */
uint32_t ip_priority_guard_raise(pid_t tid);

/* Step 3 for an entry; 0 means none. */
void ip_priority_guard_restore(uint32_t entry);

/* Step 5, on any table. Returns how many threads got their policy back. */
unsigned ip_priority_guard_restore_all(struct ip_priority_guard_table *table);

/* Steps 2 and 3 on any table; the functions above use them. */
uint32_t ip_priority_guard_table_raise(struct ip_priority_guard_table *table, pid_t tid);
bool ip_priority_guard_table_restore(struct ip_priority_guard_table *table, uint32_t entry);

#endif
