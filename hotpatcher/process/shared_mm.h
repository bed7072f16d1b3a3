/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the processes that share a target's memory without being threads of it. Such a process was
 * made by clone(CLONE_VM) without CLONE_THREAD, or by vfork and has not executed another program
 * yet. These processes execute the same text, and are not in /proc/PID/task.
 *
 * Any process may be one: the target need not be its parent (CLONE_PARENT, or the parent has
 * ended), it need not have the same name, and no file tells. So we ask the kernel (kcmp) about each
 * process that exists: that takes one system call for each, less than reading any file of theirs.
 * The kernel does not tell if the process is another user's, if the kernel has no kcmp, or if a
 * filter forbids kcmp. Then we compare sizes: two processes that share their memory have the same
 * sizes of it (/proc/PID/statm, /proc/PID/status) at any time. A process with other sizes does not
 * share the memory. If sizes do not tell two processes apart for a while, they may share their
 * memory: the stop is refused.
 */
#ifndef IP_SHARED_MM_H
#define IP_SHARED_MM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether the kernel tells that the two processes share their memory. */
bool ip_shared_mm_is(pid_t a, pid_t b);
/* Whether the two processes may share their memory. False only if they are known not to: by the
 * kernel or, where the kernel does not tell, by their sizes. */
bool ip_shared_mm_may_be(pid_t a, pid_t b);

/* Finds all processes that share the memory of the process. 0, and an array of pids that the
 * caller frees (NULL if there are none); or -1 with the reason. tid: a thread of the process
 * that lives. */
int ip_shared_mm_find(pid_t pid, pid_t tid, pid_t **ret, size_t *ret_n);

#endif
