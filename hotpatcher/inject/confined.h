/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that our code makes in a borrowed thread that is under seccomp.
 *
 * The thread's filter may forbid these calls, and may kill the thread for them. The kernel suspends
 * the filters of a tracee if its tracer asks for that (PTRACE_O_SUSPEND_SECCOMP). But the other
 * threads of the process run meanwhile, and they may write over the stack, the code and the data of
 * the borrowed thread: they can choose what it executes. So the filters of the thread are never
 * suspended while it executes instructions:
 *
 *   1. The thread runs under PTRACE_SYSCALL, with its filters in force. It stops inside of the
 *      kernel at the entry of each system call, before the kernel asks the filters. The number and
 *      the arguments of the call are the kernel's own copy then: no thread can change them any
 *      more.
 *   2. iprobe compares them with the calls that our code makes, argument by argument. The pointers
 *      that remain only name what the call reads or writes in the process's own memory. If the call
 *      is one of ours, the filters are suspended, for this call alone.
 *   3. Any other call is not made: it returns EPERM. If our code makes no call of that number at
 *      all, the thread has left our code, and iprobe takes it back. iprobe makes ftruncate() and
 *      fchmod() itself, on a descriptor of its own, of a file that is proved to be a memfd: the
 *      number of a descriptor in the process may mean another file at any time. No memory that was
 *      ever writable is made executable.
 *   4. The thread stops again at the exit of the call. The filters are in force again before it
 *      executes its next instruction.
 *
 * If iprobe is killed, the kernel detaches the thread, and the filters of the thread are in force
 * at once.
 */
#ifndef IP_CONFINED_H
#define IP_CONFINED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_CONFINED_FDS 4u

/* What one borrowed thread may do for one task: an injection (inject.h) or the wake of a runtime
 * (runtime_wake.h). The caller sets the members that differ from zero, as told below. All other
 * members belong to confined.c. */
struct ip_confined {
	int pidfd; /* of the process */
	/* bytes of the memory that inject.S makes; 0: the task is no injection, but a wake */
	uint64_t size;
	uint64_t data;		  /* where its writable part begins, in bytes */
	uint64_t data_size;	  /* bytes of its writable part */
	uint64_t memory;	  /* address of that memory; 0: not made yet */
	uint64_t area, area_size; /* address and size of the area */
	unsigned calls;		  /* system calls made so far */
	int fds[IP_CONFINED_FDS]; /* descriptors that calls returned, + 1; 0: none */
	uint64_t number;	  /* number of the call that the thread is in */
	uint64_t first, second;	  /* its first two arguments */
	bool granted;		  /* that call is made */
	bool maps_fd;		  /* that call maps a file */
	bool strayed;		  /* the thread made a call that our code does not make */
};

/* Whether a stopped thread can run confined: iprobe has the privilege, and the kernel tells what is
 * needed. The filters of the thread are in force afterwards. */
bool ip_confined_may(pid_t tid);

/* Does steps 2 to 4 for a thread that has stopped at the entry or the exit of a system call. 0; -1:
 * the thread is gone. */
int ip_confined_judge(struct ip_confined *c, pid_t tid);

#endif
