/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of our code in a borrowed thread that is under seccomp.
 *
 * Its filter may forbid them, and kill for them. The kernel suspends filters for a tracer
 * (PTRACE_O_SUSPEND_SECCOMP), but other threads of the process run meanwhile, and may write over
 * the stack, the code and the data of the borrowed one: what it executes is theirs to choose. So
 * its filters are never suspended while it executes instructions:
 *
 *   1. It runs under PTRACE_SYSCALL, its filters in force. It stops inside of the kernel at the
 *      entry of each system call, before the filters are asked. Number and arguments are the
 *      kernel's own copy then: no thread can change them any more.
 *   2. They are compared with the calls that our code makes, argument by argument; pointers that
 *      remain only name what is read or written in the process's own memory. A call of ours: the
 *      filters are suspended, for this call alone.
 *   3. Another one is not made: it returns EPERM. Where our code makes no call of that number at
 *      all the thread has left it, and is taken back. ftruncate() and fchmod() are made by us, on
 *      our own descriptor of what is proved to be a memfd: a descriptor's number may mean another
 *      file at any time. No memory that was ever writable is made executable.
 *   4. At the exit of the call it stops again: the filters are in force before it executes its next
 *      instruction.
 *
 * If we are killed, the kernel detaches the thread, and its filters are in force at once.
 */
#ifndef IP_CONFINED_H
#define IP_CONFINED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_CONFINED_FDS 4u

/* What one errand may do. Zeros, and what is said here; the rest is confined.c's. */
struct ip_confined {
	int pidfd; /* of the process */
	/* of the memory that inject.S makes; 0: the errand is no injection, but a waking */
	uint64_t size;
	uint64_t data; /* distance and size of its writable part */
	uint64_t data_size;
	uint64_t memory;	  /* where it is; 0: not made yet */
	uint64_t area, area_size; /* the same of the area */
	unsigned calls;		  /* so far */
	int fds[IP_CONFINED_FDS]; /* that calls of the errand have returned, + 1; 0: none */
	uint64_t number;	  /* of the call that the thread is in */
	uint64_t first, second;	  /* its arguments */
	bool granted;		  /* it is made */
	bool maps_fd;		  /* it maps a file */
	bool strayed;		  /* the thread made a call that our code does not know */
};

/* Whether a thread, which is stopped, can run confined: the privilege, and what the kernel tells.
 * Leaves its filters in force. */
bool ip_confined_may(pid_t tid);

/* The thread has stopped at the entry or the exit of a system call. 0; -1: it is gone. */
int ip_confined_judge(struct ip_confined *c, pid_t tid);

#endif
