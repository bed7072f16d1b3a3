/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the threads of the machine did while kernel events were recorded: running, waiting for a
 * CPU, or blocked, and on what.
 *
 * Rules, by the events of the kernel:
 *
 *   - sched_switch ends the span of the thread that had the CPU and begins one of the thread that
 *     gets it. The former is runnable if it could have gone on (state R; preempted, if the kernel
 *     took the CPU away: R+), else blocked.
 *   - Some kernels leave out switches from the idle thread. A thread in which an event is runs on
 *     the event's CPU: if that was idle, since the last event there, or since the thread was woken,
 *     whichever is later; else since that event.
 *   - sched_waking names who wakes a blocked thread, and when. sched_wakeup is when the thread
 *     begins to wait for a CPU. A waking from an interrupt has no thread as its cause.
 *     Where a thread goes on to wait within its call, and what it waits for comes once in a call,
 *     or it was woken for a stop only, that waking was false: the next one of the call counts.
 *   - What a thread is blocked on is what its system call says, or the page fault before it.
 *     restart_syscall(2) goes on with the call before, and so does the same call that comes next
 *     after one that a stop has broken off.
 *   - A thread is unknown before its first event, as far as that does not tell what it did until
 *     then; and before the events of all CPUs are there, where older ones are gone. Of a system
 *     call that returns, and has begun before events of it were there, the number is known alone.
 *     Where events of a CPU were lost, all threads are unknown that did not run on another
 *     CPU, until their next event. Where events of the target's threads were lost, the system calls
 *     are not known that threads are in. Nothing is known behind the end of a CPU's stream, which
 *     damage or a kill may have brought. Unknown is never taken for nothing.
 */
#ifndef IP_THREAD_STATES_H
#define IP_THREAD_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/kernel_reader.h"

enum ip_thread_state {
	IP_THREAD_UNKNOWN,
	IP_THREAD_RUNNING,
	IP_THREAD_RUNNABLE,
	IP_THREAD_BLOCKED,
	IP_THREAD_GONE,
};

#define IP_NO_CALL     UINT16_MAX
#define IP_UNTOLD_CALL (UINT16_MAX - 1) /* one, or none: that was not recorded */

#define IP_THREAD_ARGUMENTS 3u /* of a system call: those that tell what it waits for */

/* A system call, or its begin. There are as many of these as waits: so no more of it is kept. */
struct ip_thread_call {
	uint64_t begin; /* TSC; 0: it began before the recording did */
	uint64_t arguments[IP_THREAD_ARGUMENTS];
	uint16_t number; /* IP_NO_CALL: none */
	/* it, or whether there is one, was not recorded: of number IP_NO_CALL the thread may be in
	 * any call, of another one the arguments are not known */
	bool untold;
};

/* Who woke a thread. */
struct ip_thread_waking {
	uint64_t tsc;	 /* 0: nobody, as far as is known */
	uint64_t word;	 /* of its process, which the waker's futex(2) names; 0: none */
	int32_t waker;	 /* tid */
	uint8_t context; /* IP_KERNEL_IN_*: an interrupt, no thread; 0: waker */
	bool opens;	 /* the waker was in an open(2) */
};

/* Why a thread was blocked, and what ended that. */
struct ip_thread_wait {
	struct ip_thread_call call; /* in which it was blocked */
	int64_t result;		    /* of the call; valid where returned is true */
	uint64_t end;		    /* of the call; valid where returned is true */
	uint64_t fault;		    /* no call: the address of the page fault before it; 0: none */
	struct ip_thread_waking waking;
	bool returned;
	/* after a call that waits for several descriptors: the first one that the thread used
	 * then, -1: none */
	int32_t next_fd;
	/* The index of the wait whose waking ended what this one waits for. That is itself, unless
	 * its own waking was a false one: the call went on to wait for the same. */
	uint32_t last;
	char kind; /* as ps(1) has it: S, D, T, t, I */
};

/* From its begin to that of the thread's next span. */
struct ip_thread_span {
	uint64_t from;
	uint8_t state;	/* enum ip_thread_state */
	bool preempted; /* RUNNABLE: the CPU was taken away */
	/* RUNNING; RUNNABLE: where it waits, at first. IP_KERNEL_CPUS_MAX: not known */
	uint16_t cpu;
	union {
		int32_t other; /* RUNNABLE: who got the CPU; 0: nobody, or it was woken there */
		uint32_t wait; /* BLOCKED: index into waits */
	};
};

struct ip_thread_states {
	int32_t tid;
	char name[16];
	uint64_t begin, end; /* of its life, as far as is known */
	int32_t parent;	     /* the thread that made it; 0: not known */
	struct ip_thread_span *spans;
	size_t nspans;
	struct ip_thread_wait *waits;
	size_t nwaits;
	/* when it asked for work by a system call (ip_idle_call_asks()), blocked or not; TSC */
	uint64_t *askings;
	size_t naskings;
	/* Private. */
	struct ip_thread_call call,
		broken;	   /* a call that is to be gone on with: restart_syscall(2) */
	size_t first_wait, /* of the call */
		broken_wait;
	uint64_t fault;
	struct ip_thread_waking early; /* the last one while it was not blocked */
	/* indexes of the waits of its last call for several descriptors, if it has not used one
	 * since; polled: behind the last of them */
	size_t polled_wait, polled;
	size_t older; /* index + 1 of the thread that had its tid before */
	size_t born;  /* index + 1 in births of the thread that its call has made */
};

/* A thread that was made, or was there when its process began to be recorded. */
struct ip_thread_birth {
	uint64_t tsc;
	int32_t tid;
	int32_t parent; /* the thread that has made it; 0: it was there */
	int32_t pid;	/* its process, where that is told; 0: it is not */
	/* its id, and that of its process, in the pid namespace of its parent, or its own where it
	 * was there; 0: not told */
	int32_t inner_tid, inner_pid;
	/* whether it is a process of its own: yes (1), no (0), not told (-1) */
	int8_t is_process;
};

/* Descriptors of a process that were closed, or given to something else. */
struct ip_closing {
	uint64_t tsc;
	int32_t tid;
	uint32_t from, to; /* numbers, both included */
	bool executes;	   /* the process executes a program */
};

/* A system call that wakes a thread which waits for a futex, if there is one. */
struct ip_futex_call {
	uint64_t tsc, address;
	int32_t tid;
};

/* A system call that has made descriptors. */
struct ip_descriptor_birth {
	uint64_t tsc; /* of its return */
	int32_t tid;  /* 0: system calls of all threads were lost up to here */
	int32_t fd;   /* -1: the call does not return the number */
	uint16_t number;
};

struct ip_states {
	struct ip_thread_states *threads;
	size_t n;
	uint64_t begin;
	uint64_t end; /* up to which the events of all CPUs are there */
	uint64_t events, lost;
	struct ip_closing *closings; /* in order of time */
	size_t nclosings;
	struct ip_futex_call *wakes; /* in order of time */
	size_t nwakes;
	uint64_t *losses; /* when it was noticed that events were lost, in order of time */
	size_t nlosses;
	struct ip_thread_birth *births; /* in order of time, of all processes */
	size_t nbirths;
	struct ip_descriptor_birth *descriptor_births; /* in order of time */
	size_t ndescriptor_births;
	/* Private: by CPU, its last event, and who had it behind that (-1: not known). */
	struct ip_cpu_state {
		uint64_t last;
		int32_t tid;
	} * cpus;
	size_t ncpus;
	/* Private: the newest thread of each tid (open addressing, index + 1). */
	uint32_t *index;
	size_t index_size;
	uint64_t work;	   /* that losses have made */
	uint64_t naskings; /* of all threads: what comes behind 64 Mi of them does not count */
};

/* Whether a system call by which a thread has made another one has made a process: yes (1), no (0);
 * it does not tell (-1): the flags of clone3(2) are in memory. flags: its first argument. */
int8_t ip_call_makes_process(uint16_t number, uint64_t flags);

/* Reads all events. Returns NULL with an error. */
struct ip_states *ip_states_read(struct ip_kernel_reader *reader);
/* The same. also: takes each event, too, so that a trace is read once. */
struct ip_states *ip_states_read_with(struct ip_kernel_reader *reader,
				      const struct ip_kernel_observer *also);
void ip_states_destroy(struct ip_states *states);

/* The thread that had a tid at a time; NULL: none is known. */
const struct ip_thread_states *ip_states_find(const struct ip_states *states, int32_t tid,
					      uint64_t tsc);

/* Whether events were lost between two times: whatever may have happened then. */
bool ip_states_lost_between(const struct ip_states *states, uint64_t from, uint64_t to);

/* The index of the span that a time lies in; nspans: the time is before the first one. */
size_t ip_states_span_at(const struct ip_thread_states *thread, uint64_t tsc);

#endif
