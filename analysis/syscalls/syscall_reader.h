/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the system calls of threads together from events of the kernel, one event after the other:
 * entry, return, and what the thread did in between. It keeps the calls alone that have not
 * returned, so it serves a recording that is still going on as well as a trace.
 *
 * Rules:
 *
 *   - A return without its entry is a call whose time is not known. It had begun before the
 *     recording did, or its entry was lost. It counts, with its result.
 *   - An entry while another call of the thread is open: the return of that one was lost, and its
 *     result is not known; or it is rt_sigreturn(2), whose return has no event.
 *   - The first event of a child is the return of the call that has made it. That is no call of the
 *     child.
 *   - What the call's thread did is known by the events of the scheduler (thread_states.h has the
 *     rules). Where there are none, or where some were lost, that time is unknown.
 *   - Where events of the target's threads were lost, calls that are open then are taken for
 *     returned calls without a result only when the thread makes another one.
 */
#ifndef IP_SYSCALL_READER_H
#define IP_SYSCALL_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/read/kernel_reader.h"

/* Of a call, in ticks: elapsed = cpu + runqueue + blocked + unknown. */
struct ip_syscall_parts {
	uint64_t cpu, runqueue, blocked, unknown;
};

enum ip_syscall_outcome {
	IP_SYSCALL_RETURNED, /* result is valid */
	IP_SYSCALL_LOST,     /* it has returned; the result is not known */
	IP_SYSCALL_OPEN,     /* it had not returned at the end */
};

struct ip_syscall_call {
	uint64_t arguments[6]; /* 0 where timed is false */
	uint64_t begin, end;   /* TSC */
	int64_t result;
	struct ip_syscall_parts parts;
	int32_t tid;
	int32_t pid;	  /* the thread's process, as far as the reader knows it; 0: it does not */
	uint32_t program; /* that the process had executed; 0: the one it began with */
	uint16_t number;
	uint8_t outcome; /* enum ip_syscall_outcome */
	bool timed;	 /* begin and parts are known; else begin is end */
	bool own;     /* iprobe's code in the process has made it, as far as its entry was seen */
	bool earlier; /* it had begun before the recording did, which is where begin is */
};

struct ip_syscall_reader;

/* take: is told each call when it has returned, or at the end; a negative value ends the reading.
 * Returns NULL with an error where memory ran out. */
struct ip_syscall_reader *ip_syscall_reader_create(int (*take)(void *context,
							       const struct ip_syscall_call *call),
						   void *context);
void ip_syscall_reader_destroy(struct ip_syscall_reader *reader);

/* Asks for the processes of threads of which the events do not tell: process_of returns the process
 * of a thread; 0: it is gone. Without an answer a child belongs to its parent's process. */
void ip_syscall_reader_ask_process(struct ip_syscall_reader *reader,
				   int32_t (*process_of)(void *context, int32_t tid));

/* Tells that events of the scheduler are recorded: where none comes, nothing has changed. */
void ip_syscall_reader_expect_scheduler(struct ip_syscall_reader *reader);

/* Takes the next event. Returns 0, or -1 with an error, or what take() has returned. */
int ip_syscall_reader_feed(struct ip_syscall_reader *reader, const struct ip_kernel_record *record);

/* There are no more events: what is open is told, with tsc as its end. Returns as above. */
int ip_syscall_reader_end(struct ip_syscall_reader *reader, uint64_t tsc);

/* Calls visit for each call that is open, as it is at a time. */
void ip_syscall_reader_each_open(const struct ip_syscall_reader *reader, uint64_t tsc,
				 void (*visit)(void *context, const struct ip_syscall_call *call),
				 void *context);

/* What was read. */
struct ip_syscall_reader_sums {
	uint64_t begin, end; /* TSC of the first and of the last event */
	uint64_t events, lost;
	bool scheduled; /* there are events of the scheduler: the parts of calls are known */
};
struct ip_syscall_reader_sums ip_syscall_reader_read(const struct ip_syscall_reader *reader);

/* The name that a thread had last; "": not known. */
const char *ip_syscall_reader_thread(const struct ip_syscall_reader *reader, int32_t tid);

/* What a process was called last while it was a program; "": not known. */
const char *ip_syscall_reader_process(const struct ip_syscall_reader *reader, int32_t pid,
				      uint32_t program);

/* The name of the thread that made a call: of a main thread, that of the program it was then. */
const char *ip_syscall_reader_caller(const struct ip_syscall_reader *reader,
				     const struct ip_syscall_call *call);

/* Whether a result is an error; *ret_number: its number. */
bool ip_syscall_is_error(int64_t result, unsigned *ret_number);

#endif
