/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of a process in which only the kernel runs: io_uring's workers (PF_IO_WORKER, Linux 5.12)
 * and vhost's (PF_USER_WORKER, Linux 6.4). They are in /proc/PID/task like all others, but never
 * execute an instruction of the program. An INTERRUPT breaks off what they do for it: the program
 * sees a result of -512. So they are left alone: neither SEIZEd, nor stopped, nor borrowed. None of
 * them makes a thread that executes the program.
 *
 * A thread counts as one where three things agree, none of which a program can set: the flag (field
 * 9 of stat; it had another meaning in older kernels, which are not asked), the signals that are
 * blocked (all but SIGKILL and SIGSTOP), and a stack pointer and a program counter of 0 (syscall).
 * Never by name, which the program chooses.
 */
#ifndef IP_KERNEL_WORKER_H
#define IP_KERNEL_WORKER_H

#include <stdbool.h>
#include <sys/types.h>

struct ip_task_look {
	char state;	    /* letter of stat; 'X': it is gone */
	bool kernel_worker; /* false where that is not known */
};

/* task: /proc/PID/task, a directory that is open. known: it was one a moment ago, so that its flags
 * suffice. */
struct ip_task_look ip_task_look(int task, pid_t pid, const char *tid, bool known);

bool ip_is_kernel_worker(pid_t pid, pid_t tid);

/* Threads of the process that are none, those that have ended but are listed included; -1: it is
 * gone. */
long ip_user_threads(pid_t pid);

#endif
