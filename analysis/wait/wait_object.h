/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a blocked thread waited for: the kind, by its system call and by what ended the wait, and
 * the object.
 *
 * A call that waits for several descriptors (poll, epoll, select) is charged to what ended it
 * (Dagenais and others, section 4.5.1 of their review): a timer where its time was over, a signal
 * where one broke it off, else the first descriptor that the thread used then.
 *
 * An open(2) that has returned waited for what its descriptor is: a FIFO (fifo(7)), which is a pipe
 * with a path, waits for the other end to be opened. Where the descriptor is not known, and a
 * thread that was in an open(2) itself ended the wait, it was for a FIFO, too.
 */
#ifndef IP_WAIT_OBJECT_H
#define IP_WAIT_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

struct ip_descriptors;
struct ip_thread_call;
struct ip_thread_wait;

enum ip_wait_kind {
	IP_WAIT_FILE,
	IP_WAIT_SOCKET,
	IP_WAIT_PIPE,
	IP_WAIT_FUTEX,
	IP_WAIT_CHILD,
	IP_WAIT_TIMER,
	IP_WAIT_FAULT,
	IP_WAIT_SIGNAL,
	IP_WAIT_IO_URING,
	IP_WAIT_POLL,
	IP_WAIT_OTHER,
	IP_WAIT_KINDS
};

/* The name of a kind, as the JSON has it. */
const char *ip_wait_kind_name(enum ip_wait_kind kind);

/* An object of a kind; what of it is valid tells the kind. */
struct ip_wait_object {
	enum ip_wait_kind kind;
	int32_t fd;	  /* of the process; -1: none */
	uint64_t address; /* futex, fault; 0: none */
	uint16_t call;	  /* the system call; IP_NO_CALL: none; IP_UNTOLD_CALL */
	int32_t pid;	  /* child: the one that was waited for; 0: any */
	const char *text; /* what the descriptor is, or the path; NULL: not known. The descriptors
			     own it */
	uint32_t member;  /* of the recording: whose address it is, or descriptor without text */
};

/* Tells in which member of a recording of several processes a wait was: an address means something
 * else in each. */
static inline void ip_wait_object_in(struct ip_wait_object *object, uint32_t member)
{
	object->member = object->address || (!object->text && object->fd >= 0) ? member : 0;
}

/* What a wait of a thread was for. descriptors: of the trace; NULL: none is known. pid: the
 * thread's process. tid: the thread; 0: the paths that system calls were given are of no interest.
 */
void ip_wait_object_of(const struct ip_thread_wait *wait, const struct ip_descriptors *descriptors,
		       uint32_t pid, int32_t tid, struct ip_wait_object *ret);

/* Whether two are one object. A descriptor that is known is the same object in whatever process and
 * by whatever number. */
bool ip_wait_object_same(const struct ip_wait_object *a, const struct ip_wait_object *b);

/* To whom threads belong. */
struct ip_thread_owners {
	/* the process of a thread at a time; 0: not known */
	uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc);
	/* the member of a recording of several processes; NULL: all are of one */
	uint32_t (*member_of)(const void *context, int32_t tid);
	const void *context;
};

/* What a wait of a thread, which began at a time, was for. */
void ip_wait_object_of_thread(const struct ip_thread_wait *wait,
			      const struct ip_descriptors *descriptors,
			      const struct ip_thread_owners *owners, int32_t tid, uint64_t tsc,
			      struct ip_wait_object *ret);

/* The descriptor that a system call works on; -1: none. */
int32_t ip_wait_call_fd(const struct ip_thread_call *call);
/* Whether a system call waits for a lock, as far as the operation of futex(2) and the value tell
 * that it waits at: then who ends the wait had it. */
bool ip_wait_is_lock(const struct ip_thread_call *call);
/* Whether a thread whose wait for a lock returned with a result may have got it, so that its
 * unlocking is a system call too: the lock of glibc, Rust and Go, or one that the kernel hands over
 * (PI). */
bool ip_wait_tells_owner(const struct ip_thread_call *call, int64_t result);
/* Whether a system call opens a file by its path. */
bool ip_wait_is_open(const struct ip_thread_call *call);
/* Whether a system call wakes threads that wait for a futex. */
bool ip_wait_is_wake(const struct ip_thread_call *call);
/* The word of the caller's process by which such a system call wakes; 0: it is none, or its word
 * may be of memory that processes share. */
uint64_t ip_wait_woken_word(const struct ip_thread_call *call);
/* Whether what a system call waits for comes once: it returns then. Others may wait for one part of
 * their work after the other. */
bool ip_wait_is_for_one(const struct ip_thread_call *call);
/* Whether a system call waits for several descriptors. */
bool ip_wait_is_poll(const struct ip_thread_call *call);

#endif
