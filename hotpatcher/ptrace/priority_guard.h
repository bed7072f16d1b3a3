/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrowed priority: threads of the target run with real-time priority from just before they are
 * interrupted until they are released, so that on a busy machine no stop waits for somebody else's
 * turn on a CPU. And the guard: a process of ours that gives every thread its own policy back
 * should we be killed in between, since SCHED_FIFO would stay with it.
 *
 *   1. Early, while we are small, the guard is forked by the thread that will raise others. It
 *      shares one table with us, closes all files but a pipe from us, blocks all signals, and asks
 *      for one when that thread ends, leaves our session (so that a signal to our group is not one
 *      to it), takes a priority above all that we lend, and sleeps until we close the pipe or end.
 *   2. To raise a thread: write it and its policy into the table; then change its policy. Killed
 *      between the two: step 5 finds nothing to do.
 *   3. To give back: if the thread still has exactly what we gave it (else somebody else has
 *      changed it meanwhile: theirs counts), set the policy that the table names; then clear the
 *      entry. Nice value and time slice of the thread have stayed as they were: the kernel keeps
 *      them beside a real-time priority.
 *   4. Before each stop we look whether the guard still lives, and is ready: it might not have had
 *      a CPU so far. Without it no thread is raised.
 *   5. The pipe is closed, or our thread has ended (not: we have, since others of us may not come
 *      to that for want of a CPU, which is what the raised threads have): for each entry left, if
 *      the thread is not younger than the table's last use (a number that was given to a new thread
 *      since) and has exactly what we gave, the guard does step 3. Then it ends: it outlives us by
 *      no more than that.
 *
 * Only threads of the ordinary policy (SCHED_OTHER) with a nice value of 0 or more are raised. What
 * we give them has
 * SCHED_RESET_ON_FORK: a child that is forked in that moment has SCHED_OTHER and the same nice
 * value then, as it would have had without us. Of a batch, idle or negative-nice thread the child
 * would have another one: they are left alone, as are real-time and deadline threads. It takes
 * CAP_SYS_NICE; without it stops take longer and all else is the same.
 */
#ifndef IP_PRIORITY_GUARD_H
#define IP_PRIORITY_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_PRIORITY_GUARD_THREADS 16384u /* that are raised at a time; more than that are not */

/* What the table holds of a thread that is raised. */
struct ip_priority_guard_entry {
	pid_t tid;  /* 0: none */
	int policy; /* as from sched_getscheduler() */
};

struct ip_priority_guard_table {
	/* when the table was last used, in the unit of a thread's start time */
	uint64_t used_ticks;
	uint32_t ready; /* the guard will hear of our thread's end */
	uint32_t n;
	struct ip_priority_guard_entry entries[IP_PRIORITY_GUARD_THREADS];
};

/* Whether priority can be lent and taken back: needs CAP_SYS_NICE. */
bool ip_priority_guard_may_lend(void);

/* Step 1. Does nothing where we may not lend priority, or a guard is there already. Never fails:
 * without a guard nothing is lent. */
void ip_priority_guard_start(void);

/* Ends the guard and waits for it. */
void ip_priority_guard_stop(void);

/* Step 4; starts a turn with an empty table. Whether threads can be raised. */
bool ip_priority_guard_begin(void);

/* Step 2. The entry + 1; 0: not raised. */
uint32_t ip_priority_guard_raise(pid_t tid);

/* Step 3 for an entry; 0 is none. */
void ip_priority_guard_restore(uint32_t entry);

/* Step 5, on any table: how many threads were put back. */
unsigned ip_priority_guard_restore_all(struct ip_priority_guard_table *table);

/* Steps 2 and 3 on any table, as used by the others. */
uint32_t ip_priority_guard_table_raise(struct ip_priority_guard_table *table, pid_t tid);
bool ip_priority_guard_table_restore(struct ip_priority_guard_table *table, uint32_t entry);

#endif
