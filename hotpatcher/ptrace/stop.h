/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping all threads of a target, and letting them go.
 *
 *   0. See since when threads have been waiting (syscall_wait.h), so that the stop does not make
 *      their calls last longer (syscall_restart.h).
 *   1. Look: processes that share the target's memory without being its threads (shared_mm.h); all
 *      threads of it and of these, and what each does, running or blocked.
 *
 *   1b. Threads in uninterruptible sleep cannot be stopped at will. While there is one nothing is
 *       done to any thread: it is waited
 *      for, as long as the deadline says, and the others run on (stop_asleep.c).
 *
 * Gather: nothing of the target is changed (but for priorities that are lent, priority_guard.h),
 * and what each thread needs is only noted.
 *
 *   2. SEIZE every thread (they run on), to be told of children and of exec: a thread or process
 *      that is made from now on is ours from its first instruction. A child with memory of its own
 *      is none of our business and is let go at once.
 *      Threads in which only the kernel runs are left alone (kernel_worker.h).
 *   3. INTERRUPT the blocked threads, wait for them; then the running ones: these stand still for
 *      the shortest time. We run with real-time priority from before the first INTERRUPT to the
 *      last DETACH, where we may, and each thread gets it just before its INTERRUPT
 *      (priority_guard.h): the length of a stop is mostly waiting for a CPU. Where we may not, and
 *      the last stop failed because threads got no CPU in time, all are INTERRUPTed at once: one
 *      such wait is shorter than two.
 *   4. As many threads have stopped as the process has: every one is ours and none can make
 *      another. Otherwise, as with workers of the kernel, which come and go, list the threads
 *      again; new ones: back to 2. A pass that finds none ends the gathering.
 *
 * Decide: all threads stand; none can execute a program, change its credentials, or make another
 * thread any more.
 *
 *   5. Each thread answered when it stopped: its registers were read, and it is one of its process.
 *      The leaders are asked again: a thread that executes another program takes the leader's
 *      number. One that does not answer is being killed, by that or by the end of the process.
 *      Nothing is changed then.
 *   6. The image is the one that was looked at (image.h): no thread has told of an exec, the memory
 *      that we have open lives, and is what the threads have, of the target and of its kin. Else
 *      nothing is changed.
 *   7. The right to trace is asked for again, of each thread (delegation.h). Where sites are put
 *      back, and only there, a refusal leaves text and gate as what may be written, and 8 is left
 *      out.
 *
 * Change:
 *
 *   8. Calls that we broke off and that the kernel, left alone, would not start again go on with
 *      what is left (syscall_restart.h): the first write of the stop.
 *   9. (the caller checks program counters, writes)
 *  10. The running threads first: give each its own policy back, and DETACH it with the signal it
 *      was about to get, so that none
 *      is lost. A group-stop stays a group-stop.
 *
 * Where 5 to 7 say no, or the deadline passes, all is released, and no register is written but one:
 * the result of a call that our own INTERRUPT broke off, EINTR, becomes the kernel's request to
 * start that very call again (ERESTARTNOHAND). It is executed by the program's own instruction,
 * with the registers and the memory that it has: there is nothing in it that anybody could choose.
 * Not where the image is another one that is not ours to trace: that is left as it is. If we are
 * killed between 3 and 8, such a call returns EINTR, as it does after SIGSTOP and SIGCONT.
 *
 * Past the deadline, or a quarter of what is allowed where a thread is found in uninterruptible
 * sleep by then, those that stand are released at once, and only then the others looked after: a
 * thread that was INTERRUPTed stays ours, and will stop when it wakes up: ip_stop_let_go(), called
 * now and then, lets it go on. If we are killed the kernel detaches every thread and they run on,
 * and the guard gives them their policies back.
 */
#ifndef IP_STOP_H
#define IP_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/now.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/priority.h"
#include "hotpatcher/ptrace/stops.h"
#include "hotpatcher/ptrace/syscall_restart.h"

struct ip_stopped_thread {
	pid_t tid;
	pid_t pid;    /* its process: the target, or kin of it */
	int signal;   /* to hand on at the release; 0: none */
	bool running; /* was on a CPU, or waited for one, when we looked */
	bool asked;   /* INTERRUPTed */
	bool stopped;
	bool lost;   /* it stands no more, or is not one of the process */
	int status;  /* as wait told */
	bool broken; /* its call may have been broken off, and step 8 has not seen to it yet */
	bool by_us;  /* by our own INTERRUPT: neither a signal nor a stop of the whole process */
	bool gone;
	uint32_t raised;	  /* entry of the guard; 0: none */
	uint64_t pc;		  /* read in step 5 */
	struct ip_time_left left; /* of the system call that starts again */
};

struct ip_stop {
	struct ip_target *target;
	struct ip_stopped_thread *threads;
	size_t n, capacity;
	pid_t *shared_mm;
	size_t nkin;
	pid_t *workers; /* threads that are the kernel's own (kernel_worker.h) */
	size_t nworkers;
	struct ip_syscall_waits waits; /* of threads that were waiting before */
	uint64_t began_ns;	       /* CLOCK_MONOTONIC at the first INTERRUPT */
	uint64_t began_tsc;
	/* at the first INTERRUPT of a running thread; 0: there was none */
	uint64_t running_began_ns;
	/* from there to the release of the last of them; set by ip_stop_end() */
	uint64_t running_ns;
	uint64_t max_ns, reserve_ns; /* as asked for */
	uint64_t deadline_ns;	     /* of gathering; it counts from the first INTERRUPT on */
	bool late;		     /* the deadline passed */
	bool failed;		     /* nothing is to be changed */
	size_t stood;		     /* threads that had stopped when they were let go */
	bool lend;		     /* threads may be raised */
	bool whole;		     /* of all threads */
	bool executed;		     /* a thread of the target has told of an exec */
	bool same_image;	     /* step 6 said so */
	bool text_only;		     /* step 7: nothing but text may be put back */
	struct ip_priority priority;
};

/* Steps 0 to 8, within max_ns from the first INTERRUPT to the last DETACH, of which the caller
 * is expected to take reserve_ns: so gathering has less. 0; or -1 with the reason, everything
 * released: already traced, gone, deadline, another image, not ours to trace. Where threads
 * stood, that is in ip_stops_of(target)->log. */
int ip_stop_begin(struct ip_target *target, uint64_t max_ns, uint64_t reserve_ns,
		  struct ip_stop *ret);

/* Lets all go. Returns the length of the stop in nanoseconds: first INTERRUPT to last DETACH. */
uint64_t ip_stop_end(struct ip_stop *stop);

/* The same for a stop that was but a look at one thread: it is counted as such. */
void ip_stop_end_look(struct ip_stop *stop);

/* Stops one thread; ip_stop_end() lets it go. 0, or -1 (errno says why) where it cannot be traced,
 * is gone, or is late. */
int ip_stop_one(struct ip_target *target, pid_t tid, uint64_t deadline_ns, struct ip_stop *ret);

/* Lets a thread go that has stopped, with a signal or 0. 0; -1: it has been killed meanwhile,
 * and is to be reaped; 1: the kernel refused again and again (nothing but a filter around us
 * does), and it runs on as our tracee, which the next stop can stop: one that is left standing
 * nobody can. */
int ip_stop_detach(pid_t tid, int signal_number);

/* Lets threads and children go on that a stop had to leave behind, as far as they have stopped
 * since. To be called when nothing is stopped on purpose: soon after each stop, and now and
 * then. */
void ip_stop_let_go(struct ip_target *target);

/* A stop that has changed nothing: it is told of (ip_stops_of(target)->log), and the next one fails
 * at once until the target has run for a while: of the time 5 % at most are ours where a thread is
 * in uninterruptible sleep, which may last; else five times what is allowed for one a second, and a
 * quarter of the time. kind: static text, or NULL. */
void ip_stop_was_in_vain(struct ip_target *target, const struct ip_stop_record *record);

/* For how long the target is to run on before the next try. The 5 % end when the thread that slept
 * is awake. */
uint64_t ip_stop_rest_ns(const struct ip_target *target);

/* Whether it is worth trying again after a failure: a thread sleeps, or threads get no CPU. Says
 * once which, where it takes long. began_ns: of the first try. */
bool ip_stop_go_on(const struct ip_target *target, uint64_t began_ns, bool *said);

/* Naps; what a stop had to leave behind is let go meanwhile. */
void ip_stop_nap(struct ip_target *target, uint64_t ns);

/* Naps for as long as the target is to run on, least_ns at least. -1: *end (NULL: none) was set
 * meanwhile. */
int ip_stop_rest(struct ip_target *target, uint64_t least_ns, const volatile int *end);

/* Where the one thread stands; 0 and *ret_pc, or -1 where it is gone. It is stopped for a
 * moment. */
int ip_stop_peek(struct ip_target *target, pid_t tid, uint64_t deadline_ns, uint64_t *ret_pc);

/* The order in which threads are stopped: blocked ones first, running ones last; else as they were.
 * They are released from the end. */
void ip_stop_order(struct ip_stopped_thread *threads, size_t n);

#endif
