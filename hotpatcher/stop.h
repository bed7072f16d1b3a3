/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping all threads of a target, and letting them go.
 *
 *   0. See since when threads have been waiting (sleep.h), so that the stop does not make their calls last longer (restart.h).
 *   1. Look: processes that share the target's memory without being its threads (kin.h); all threads of it and of these, and what each
 *      does, running or blocked.
 *   2. SEIZE every thread (they run on), to be told of children: a thread or process that is made from now on is ours from its first
 *      instruction. A child with memory of its own is none of our business and is let go at once.
 *   3. INTERRUPT the blocked threads, wait for them; then the running ones: these stand still for the shortest time. We run with
 *      real-time priority from before the first INTERRUPT to the last DETACH, where we may, and each thread gets it just before
 *      its INTERRUPT (guard.h): the length of a stop is mostly waiting for a CPU.
 *   4. As many threads have stopped as the process has: every one is ours and none can make another. Otherwise list
 *      the threads again; new ones: back to 2. A pass that finds none ends the gathering.
 *   5. (the caller checks program counters, writes)
 *   6. The running threads first: give each its own policy back, and DETACH it with the signal it was about to get, so that none
 *      is lost. A group-stop stays a group-stop.
 *
 * Past the deadline everything gathered so far is released and nothing has been changed: a thread in
 * uninterruptible sleep (vfork parent, frozen, D state) cannot be stopped at will. Such a thread stays ours, and will stop when it
 * wakes up: ip_stop_let_go(), called now and then, lets it go on. If we are killed the kernel detaches every thread and they run on,
 * and the guard gives them their policies back.
 */
#ifndef IP_STOP_H
#define IP_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/boost.h"
#include "hotpatcher/restart.h"
#include "hotpatcher/target.h"

struct ip_stopped_thread {
	pid_t tid;
	pid_t pid;    /* its process: the target, or kin of it */
	int signal;   /* to hand on at the release; 0: none */
	bool running; /* was on a CPU, or waited for one, when we looked */
	bool asked;   /* INTERRUPTed */
	bool stopped;
	bool by_us; /* by our own INTERRUPT: neither a signal nor a stop of the whole process */
	bool gone;
	uint32_t raised;	  /* entry of the guard; 0: none */
	uint64_t pc;		  /* read when it stopped */
	struct ip_time_left left; /* of the system call that starts again */
};

struct ip_stop {
	struct ip_target *target;
	struct ip_stopped_thread *threads;
	size_t n, capacity;
	pid_t *kin;
	size_t nkin;
	struct ip_sleeps sleeps; /* of threads that were waiting before */
	uint64_t began_ns;	 /* CLOCK_MONOTONIC at the first INTERRUPT */
	uint64_t began_tsc;
	uint64_t running_began_ns; /* at the first INTERRUPT of a running thread; 0: there was none */
	uint64_t running_ns;	   /* from there to the release of the last of them; set by ip_stop_end() */
	uint64_t deadline_ns;
	bool late; /* the deadline passed */
	bool lend; /* threads may be raised */
	struct ip_boost boost;
};

/* Stops all threads within deadline_ns. 0; or -1 with the reason, everything released: already traced, gone,
 * deadline. */
int ip_stop_begin(struct ip_target *target, uint64_t deadline_ns, struct ip_stop *ret);

/* Lets all go. Returns the length of the stop in nanoseconds: first INTERRUPT to last DETACH. */
uint64_t ip_stop_end(struct ip_stop *stop);

/* Stops one thread; ip_stop_end() lets it go. 0, or -1 (errno says why) where it cannot be traced, is gone, or is late. */
int ip_stop_one(struct ip_target *target, pid_t tid, uint64_t deadline_ns, struct ip_stop *ret);

/* Lets threads and children go on that a stop had to leave behind, as far as they have stopped since. To be called when nothing is
 * stopped on purpose: soon after each stop, and now and then. */
void ip_stop_let_go(struct ip_target *target);

/* Where the one thread stands; 0 and *ret_pc, or -1 where it is gone. It is stopped for a moment. */
int ip_stop_peek(struct ip_target *target, pid_t tid, uint64_t deadline_ns, uint64_t *ret_pc);

/* The order in which threads are stopped: blocked ones first, running ones last; else as they were. They are released from the end. */
void ip_stop_order(struct ip_stopped_thread *threads, size_t n);

uint64_t ip_now_ns(void);

#endif
