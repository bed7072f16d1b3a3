/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping all threads of a target, and letting them go.
 *
 *   0. See since when threads have been waiting (syscall_wait.h), so that the stop does not make
 *      their system calls last longer (syscall_restart.h).
 *   1. Look: find the processes that share the target's memory without being its threads
 *      (shared_mm.h). List all threads of the target and of these processes, and see what each
 *      does: whether it is running or blocked.
 *
 *   1b. Threads in uninterruptible sleep cannot be stopped at will. While there is one, nothing is
 *      done to any thread: iprobe waits for that thread for as long as the stop may take (max_ns),
 *      but at least for 20 ms, and the other threads run on (stop_asleep.c). After Ctrl-C it waits
 *      for 20 ms only. Such a thread may wait for a lock that another one holds which gets no CPU.
 *      So threads that wait for a CPU get real-time priority by turns meanwhile, if iprobe may
 *      lend it.
 *
 * Gather: nothing of the target is changed (except for priorities that are lent,
 * priority_guard.h), and what each thread needs is only noted.
 *
 *   2. SEIZE every thread (they run on), so that the kernel reports children and exec to iprobe: a
 *      thread or process that is made from now on is iprobe's tracee from its first instruction. A
 *      child with memory of its own is none of iprobe's business and is let go at once.
 *      Threads in which only the kernel runs are left alone (kernel_worker.h).
 *   3. INTERRUPT the blocked threads and wait until they have stopped; then do the same with the
 *      running threads, which so stand for the shortest time. iprobe runs with real-time priority
 *      from before the first INTERRUPT to the last DETACH, if it may. Each thread gets real-time
 *      priority just before its INTERRUPT (priority_guard.h): the length of a stop is mostly the
 *      wait for a CPU. If iprobe may not lend priority, and the last stop failed because threads
 *      got no CPU in time, all threads are INTERRUPTed at once: one such wait is shorter than two.
 *   3b. A blocked thread may fall into uninterruptible sleep before it stops, and wait for a lock
 *      that a running thread holds which gets no CPU. If one is found so, the running threads are
 *      raised and INTERRUPTed at once: they give their locks back on their way to the stop.
 *   4. If as many threads have stopped as the process has, every thread is iprobe's tracee and
 *      none can make another. Otherwise, as with workers of the kernel, which come and go, list
 *      the threads again; if there are new ones, go back to 2. A pass that finds none ends the
 *      gathering.
 *
 * Decide: all threads stand; none can execute a program, change its credentials, or make another
 * thread any more.
 *
 *   5. Each thread answered when it stopped: its registers were read, and it is a thread of its
 *      process. The leaders are asked again, since a thread that executes another program takes
 *      the leader's number. A leader that does not answer is being killed, by that exec or by the
 *      end of the process. Then nothing is changed.
 *   6. The image must be the one that iprobe looked at (image.h): no thread has reported an exec;
 *      the memory that iprobe has open is alive; and it is the memory that the threads have, those
 *      of the target and those of the processes that share its memory. Otherwise nothing is
 *      changed.
 *   7. iprobe asks again whether it may trace each thread (delegation.h). A refusal ends the stop,
 *      except where sites are put back: there, and only there, text and gate may still be written
 *      after a refusal. Then 8 is left out, and the calls begin anew, as told below.
 *
 * Change:
 *
 *   8. System calls that iprobe broke off and that the kernel, left alone, would not start again
 *      go on with what is left of them (syscall_restart.h): this is the first write of the stop.
 *   9. (The caller checks program counters and writes.)
 *  10. Let the running threads go first: give each its own policy back, and DETACH it with the
 *      signal that it was about to get, so that no signal is lost. A group-stop stays a
 *      group-stop.
 *
 * If 5 to 7 say no, or if the deadline passes, all threads are released, and no register is
 * written but one: the result of a system call that iprobe's own INTERRUPT broke off, EINTR,
 * becomes the kernel's request to start that very call again (ERESTARTNOHAND). The program's own
 * instruction executes the call, with the registers and the memory that the thread has: there is
 * nothing in it that anybody could choose. This is not done if the image is another one that
 * iprobe may not trace: such a thread is left as it is. If iprobe is killed between 3 and 8, such
 * a call returns EINTR, as it does after SIGSTOP and SIGCONT.
 *
 * The time is over at the deadline; or after a quarter of the time that is allowed, if a thread is
 * then found in uninterruptible sleep. Then the threads that stand are released at once, and only
 * afterwards iprobe looks after the others. A thread that was INTERRUPTed stays iprobe's tracee
 * and will stop when it wakes up; ip_stop_let_go(), which is called now and then, lets it go on.
 * If iprobe is killed, the kernel detaches every thread, the threads run on, and the guard gives
 * them their policies back.
 */
#ifndef IP_STOP_H
#define IP_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/now.h"
#include "hotpatcher/process/stack_copy.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/priority.h"
#include "hotpatcher/ptrace/stops.h"
#include "hotpatcher/ptrace/syscall_restart.h"

struct ip_stopped_thread {
	pid_t tid;
	pid_t pid;    /* its process: the target, or one that shares its memory */
	int signal;   /* to be delivered at the release; 0: none */
	bool running; /* it was on a CPU, or waited for one, when iprobe looked */
	bool asked;   /* INTERRUPTed */
	bool stopped;
	bool lost;   /* it does not stand any more, or is no thread of the process */
	int status;  /* wait status of the thread */
	bool broken; /* its call may have been broken off, and step 8 is still to come */
	bool by_us;  /* stopped by our own INTERRUPT: by no signal and no group-stop */
	bool gone;
	uint32_t raised; /* its entry in the guard's table; 0: none */
	uint64_t pc;	 /* read in step 5 */
	/* read with pc, before step 8 changed any of them: as in struct ip_stack_copy */
	uint64_t registers[IP_STACK_COPY_REGISTERS];
	bool narrow;
	struct ip_time_left left; /* time left of the system call that starts again */
};

struct ip_stop {
	struct ip_target *target;
	struct ip_stopped_thread *threads;
	size_t n, capacity;
	pid_t *shared_mm;
	size_t nshared_mm;
	pid_t *workers; /* threads in which only the kernel runs (kernel_worker.h) */
	size_t nworkers;
	struct ip_syscall_waits waits; /* of threads that waited in a call before the stop */
	uint64_t began_ns;	       /* CLOCK_MONOTONIC at the first INTERRUPT */
	uint64_t began_tsc;
	/* CLOCK_MONOTONIC at the first INTERRUPT of a running thread; 0: there was none */
	uint64_t running_began_ns;
	/* from there to the release of the last running thread; ip_stop_end() sets it */
	uint64_t running_ns;
	uint64_t max_ns, reserve_ns; /* arguments of ip_stop_begin() */
	uint64_t deadline_ns;	     /* end of the time for gathering; set at the first INTERRUPT */
	bool late;		     /* the deadline passed */
	bool failed;		     /* nothing is to be changed */
	size_t stood;		     /* threads that had stopped when they were let go */
	bool lend;		     /* threads may be raised */
	bool whole;		     /* the stop is one of all threads */
	bool executed;		     /* a thread of the target has reported an exec */
	bool same_image;	     /* step 6 said so */
	bool text_only;		     /* step 7: only text and gate may be written */
	struct ip_priority priority;
};

/* Steps 0 to 8. max_ns: the time allowed from the first INTERRUPT to the last DETACH. reserve_ns:
 * the part of it that the caller is expected to take, so that less is left for gathering. 0; or -1
 * with the reason, and everything is released: the target is already traced or gone, the deadline
 * has passed, the image is another one, or iprobe may not trace it. If threads stood,
 * ip_stops_of(target)->log tells for how long. */
int ip_stop_begin(struct ip_target *target, uint64_t max_ns, uint64_t reserve_ns,
		  struct ip_stop *ret);

/* Lets all threads go. Returns the length of the stop in nanoseconds: from the first INTERRUPT to
 * the last DETACH. */
uint64_t ip_stop_end(struct ip_stop *stop);

/* As ip_stop_end(), for a stop that was only a look at one thread: it is counted as a look. */
void ip_stop_end_look(struct ip_stop *stop);

/* Stops one thread; ip_stop_end() lets it go. deadline_ns: the time allowed. 0, or -1 (errno says
 * why): the thread cannot be traced, is gone, or does not stop in time. */
int ip_stop_one(struct ip_target *target, pid_t tid, uint64_t deadline_ns, struct ip_stop *ret);

/* Lets a thread go that has stopped, with a signal or with 0. 0; -1: the thread has been killed
 * meanwhile, and is to be reaped; 1: the kernel refused the DETACH again and again (only a system
 * call filter on iprobe itself does that). In the last case the thread runs on as a tracee of
 * iprobe, and the next stop can stop it: a thread that was left standing could not be stopped. */
int ip_stop_detach(pid_t tid, int signal_number);

/* Lets threads and children go on that a stop had to leave behind, if they have stopped since. To
 * be called when no thread is stopped on purpose: soon after each stop, and now and then. */
void ip_stop_let_go(struct ip_target *target);

/* Notes a stop that has changed nothing. The stop goes into ip_stops_of(target)->log. The next stop
 * fails at once until the target has run for a while. If a thread is in uninterruptible sleep,
 * which may last, stops may take at most 5 % of the time. Otherwise they may take, each second, at
 * most five times what is allowed for one stop, and a quarter of the time. record->kind: static
 * text, or NULL. */
void ip_stop_was_in_vain(struct ip_target *target, const struct ip_stop_record *record);

/* For how many nanoseconds the target is to run on before the next try. The limit of 5 % ends when
 * the thread that slept is awake. */
uint64_t ip_stop_rest_ns(const struct ip_target *target);

/* Whether to try again after a failure. began_ns: time of the first try. Tries go on for 60 s if
 * a thread is in uninterruptible sleep, threads got no CPU in time, or the target is to run on
 * because of that, and for 5 s otherwise. In the first two cases a notice tells the user, once and
 * after a second, what iprobe waits for (*said). */
bool ip_stop_go_on(const struct ip_target *target, uint64_t began_ns, bool *said);

/* Sleeps for ns nanoseconds, and lets go meanwhile what a stop had to leave behind. */
void ip_stop_nap(struct ip_target *target, uint64_t ns);

/* Sleeps for as long as the target is to run on, but at least for least_ns. 0; -1: *end (NULL:
 * none) was set meanwhile. */
int ip_stop_rest(struct ip_target *target, uint64_t least_ns, const volatile int *end);

/* Finds where one thread stands; to do so it stops the thread for a moment. 0 and *ret_pc, or -1:
 * the thread is gone, or cannot be stopped. */
int ip_stop_peek(struct ip_target *target, pid_t tid, uint64_t deadline_ns, uint64_t *ret_pc);

/* Puts threads into the order in which they are stopped: blocked ones first, running ones last, and
 * otherwise as they were. The running ones are released first. */
void ip_stop_order(struct ip_stopped_thread *threads, size_t n);

#endif
