/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Since when a thread has been waiting in a system call: seen from outside, before it is stopped.
 *
 * The kernel does not tell when a call began, nor when its time limit ends. It tells when the
 * thread ran last: se.exec_start in /proc/PID/task/TID/sched, in the clock of the CPU it ran on,
 * which stands still while that CPU serves interrupts or belongs to another machine. What that
 * clock says now is learnt without going there, since a CPU may be busy with real-time threads, or
 * be isolated. Each thread that has run on that CPU after the sleep began shows a reading that is
 * not after now:
 *   - the sleeping thread itself, once it is stopped: it wakes up where it slept, as a rule;
 *   - we, where it slept on the CPU that we run on;
 *   - other threads that were stopped with it;
 *   - anybody who runs there when we look, where we may see that: while a CPU is busy who slept on
 *     it wakes up elsewhere.
 * So the time found is never before the thread fell asleep, and after it by no more than that CPU
 * has been away since, and by what passed between its stop and our question. Where no reading is to
 * be had, it is unknown.
 *
 * That the sleep which was seen is the one that our stop breaks off is told by counts: since then
 * the thread came to a CPU once (schedstat), or gave it away once (status).
 */
#ifndef IP_SYSCALL_WAIT_H
#define IP_SYSCALL_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_syscall_wait {
	pid_t tid;
	long number;	    /* of the call that is our concern and that it slept in; -1: none */
	uint64_t looked_ns; /* CLOCK_MONOTONIC */
	bool seen;	    /* the rest counts */
	long cpu;	    /* that it slept on */
	uint64_t ran;	    /* in the clock of that CPU: when it ran last */
	/* not before it fell asleep; 0: unknown. Set by ip_syscall_waits_find() */
	uint64_t since_ns;
	uint64_t turns, given_away;
	/* what lay where the call has its limit as a struct timespec or timeval, if anywhere */
	uint64_t time[2];
};

/* All zero to begin with. */
struct ip_syscall_waits {
	pid_t pid;
	struct ip_syscall_wait *items;
	size_t n, capacity, hint;
	unsigned asked;	    /* other threads, for readings of clocks */
	uint64_t looked_ns; /* when the list was made */
	struct ip_cpu_clock {
		long cpu;
		uint64_t said;	  /* when it was read */
		int64_t ahead_ns; /* CLOCK_MONOTONIC less the CPU's, or more */
	} * clocks;		  /* of the CPUs that a reading is known of */
	size_t nclocks;
};

/* Looks at one thread of the process, or with tid 0 at all: before anything is done to them.
 * Costs some 5 us a thread, and 50 more where it sleeps in a call that is our concern; where
 * others run on the machine some milliseconds more, mostly of waiting. Nothing is wrong with a
 * thread that cannot be looked at: it was not seen. */
void ip_syscall_waits_look(pid_t pid, pid_t tid, bool narrow, struct ip_syscall_waits *ret);

/* What was seen of the thread, which has stopped meanwhile. */
struct ip_syscall_wait ip_syscall_waits_find(struct ip_syscall_waits *waits, pid_t tid);

/* Whether the thread, which has stopped meanwhile, slept from the look until we woke it up. */
bool ip_syscall_wait_was_unbroken(pid_t pid, const struct ip_syscall_wait *wait);

void ip_syscall_waits_clear(struct ip_syscall_waits *waits);

#endif
