/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of a process in which only the kernel runs: the workers of io_uring (PF_IO_WORKER, Linux
 * 5.12) and of vhost (PF_USER_WORKER, Linux 6.4). /proc/PID/task lists them like all other
 * threads, but they never execute an instruction of the program. An INTERRUPT breaks off the work
 * that they do for the program, which then sees a result of -512. So iprobe leaves them alone: it
 * does not SEIZE, stop or borrow them. None of them can make a thread that executes the program.
 *
 * A thread counts as such a worker if three facts agree, none of which a program can set:
 *   - its flag (field 9 of stat; in older kernels the bit had another meaning, and it is not
 *     looked at there);
 *   - its blocked signals (all but SIGKILL and SIGSTOP);
 *   - a stack pointer and a program counter of 0 (syscall).
 * The name of a thread never counts, since the program chooses it.
 */
#ifndef IP_KERNEL_WORKER_H
#define IP_KERNEL_WORKER_H

#include <stdbool.h>
#include <sys/types.h>

struct ip_task_look {
	char state;	    /* state letter of stat; 'X': the thread is gone */
	bool kernel_worker; /* false also if it is not known */
};

/* Looks at one thread. task: /proc/PID/task, an open directory. known: the thread was a worker a
 * moment ago, so that its flags suffice. */
struct ip_task_look ip_task_look(int task, pid_t pid, const char *tid, bool known);

bool ip_is_kernel_worker(pid_t pid, pid_t tid);

/* The number of threads of the process that are no kernel workers. It includes threads that have
 * ended but are still listed. -1: the process is gone. */
long ip_user_threads(pid_t pid);

#endif
