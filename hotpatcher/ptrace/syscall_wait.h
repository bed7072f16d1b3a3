/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Since when a thread has been waiting in a system call, as seen from outside before the thread is
 * stopped.
 *
 * The kernel does not tell when a call began, nor when its time limit ends. It tells when the
 * thread last ran: se.exec_start in /proc/PID/task/TID/sched, in the clock of the CPU on which the
 * thread ran. That clock stands still while the CPU serves interrupts or belongs to another
 * virtual machine. iprobe learns the present value of that clock without running on that CPU,
 * since the CPU may be busy with real-time threads, or be isolated. Each thread that has run on
 * that CPU after the sleep began shows a reading that is not later than now:
 *   - the sleeping thread itself, once it is stopped: as a rule it wakes up on the CPU on which it
 *     slept;
 *   - iprobe's own thread, if the sleep began on the CPU on which iprobe runs;
 *   - other threads that were stopped with it;
 *   - any thread that runs on that CPU when iprobe looks, if iprobe may see it: while a CPU is
 *     busy, a thread that slept on it wakes up on another CPU.
 * So the time found is never before the thread fell asleep. It is later by no more than the time
 * for which that CPU has been away since, and the time between the thread's stop and the reading.
 * If no reading is to be had, the time is unknown.
 *
 * Counts tell whether the sleep that iprobe saw is the one that its stop breaks off: since then
 * the thread came to a CPU once (schedstat), or gave its CPU away once (status).
 */
#ifndef IP_SYSCALL_WAIT_H
#define IP_SYSCALL_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_syscall_wait {
	pid_t tid;
	long number;	    /* the call it slept in, if it is one that is looked after; -1: none */
	uint64_t looked_ns; /* CLOCK_MONOTONIC */
	bool seen;	    /* the members below are valid */
	long cpu;	    /* on which it slept */
	uint64_t ran;	    /* when it last ran, in the clock of that CPU */
	/* CLOCK_MONOTONIC, not before it fell asleep; 0: unknown. Set by ip_syscall_waits_find() */
	uint64_t since_ns;
	uint64_t turns, given_away;
	/* the time limit of the call, if it is a struct timespec or timeval in memory: what lay
	 * there */
	uint64_t time[2];
};

/* All zero at first. */
struct ip_syscall_waits {
	pid_t pid;
	struct ip_syscall_wait *items;
	size_t n, capacity, hint;
	unsigned asked;	    /* other threads of which a reading was tried */
	uint64_t looked_ns; /* when the list was made */
	struct ip_cpu_clock {
		long cpu;
		uint64_t said;	  /* when it was read */
		int64_t ahead_ns; /* CLOCK_MONOTONIC minus the CPU's clock, or more */
	} * clocks;		  /* one for each CPU of which there is a reading */
	size_t nclocks;
};

/* Looks at one thread of the process, or at all if tid is 0, before anything is done to them.
 * narrow: they run 32-bit code. This costs some 5 us a thread, and 50 us more if the thread sleeps
 * in a call that iprobe looks after. If other threads run on the machine, it costs some
 * milliseconds more, mostly of waiting. A thread that cannot be looked at is no error: it counts as
 * not seen. */
void ip_syscall_waits_look(pid_t pid, pid_t tid, bool narrow, struct ip_syscall_waits *ret);

/* Returns what was seen of the thread, which has stopped meanwhile. */
struct ip_syscall_wait ip_syscall_waits_find(struct ip_syscall_waits *waits, pid_t tid);

/* Whether the thread, which has stopped meanwhile, slept from the look until iprobe's stop woke it
 * up. */
bool ip_syscall_wait_was_unbroken(pid_t pid, const struct ip_syscall_wait *wait);

void ip_syscall_waits_clear(struct ip_syscall_waits *waits);

#endif
