/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Since when a thread has been waiting in a system call: seen from outside, before it is stopped.
 *
 * The kernel does not tell when a call began, nor when its time limit ends. It tells when the thread ran last: se.exec_start in
 * /proc/PID/task/TID/sched, in the clock of the CPU it ran on, which stands still while that CPU serves interrupts or belongs to another
 * machine. We read that clock on the same CPU now; so the time found is never before the thread fell asleep, and after it
 * by no more than that CPU has been away since.
 *
 * That the sleep which was seen is the one that our stop breaks off is told by counts: since then the thread came to a CPU
 * once (schedstat), or gave it away once (status).
 */
#ifndef IP_SLEEP_H
#define IP_SLEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_sleep {
	pid_t tid;
	long number;	    /* of the call that is our concern and that it slept in; -1: none */
	uint64_t looked_ns; /* CLOCK_MONOTONIC */
	bool seen;	    /* the rest counts */
	uint64_t since_ns;  /* not before it fell asleep; 0: unknown */
	uint64_t turns, given_away;
	uint64_t time
		[2]; /* what lay where the call has its limit as a struct timespec or timeval, if anywhere */
};

/* All zero to begin with. */
struct ip_sleeps {
	struct ip_sleep *items;
	size_t n, capacity, hint;
	uint64_t looked_ns; /* when the list was made */
	struct ip_cpu_clock {
		long cpu;
		int64_t ahead_ns; /* CLOCK_MONOTONIC less the CPU's */
		bool known;
	} * clocks; /* read at most once each */
	size_t nclocks;
};

/* Looks at one thread of the process, or with tid 0 at all: before anything is done to them. Costs some 5 us a thread, and 50 more where
 * it sleeps in a call that is our concern. Nothing is wrong with a thread that cannot be looked at: it was not seen. */
void ip_sleeps_look(pid_t pid, pid_t tid, bool narrow, struct ip_sleeps *ret);

/* What was seen of the thread. */
struct ip_sleep ip_sleeps_find(struct ip_sleeps *sleeps, pid_t tid);

/* Whether the thread, which has stopped meanwhile, slept from the look until we woke it up. */
bool ip_sleep_was_unbroken(pid_t pid, const struct ip_sleep *sleep);

void ip_sleeps_clear(struct ip_sleeps *sleeps);

#endif
