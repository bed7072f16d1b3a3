/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that share a target's memory without being threads of it: made by clone(CLONE_VM)
 * without CLONE_THREAD, or by vfork and not yet gone over to another program. They execute the same
 * text, and are not in /proc/PID/task.
 *
 * Any process may be one: such a child need not have the target for its parent (CLONE_PARENT, or
 * its parent has ended), nor the same name, and no file tells. So the kernel is asked (kcmp) about
 * each process that there is: one system call each, less than reading any file of theirs. Where it
 * does not tell (another user's process, a kernel without kcmp, a filter that forbids it), two that
 * share their memory have the same sizes of it (/proc/PID/statm, /proc/PID/status) at any time; who
 * has others is none. One that cannot be told apart so for a while is not taken for a stranger: the
 * stop is refused.
 */
#ifndef IP_SHARED_MM_H
#define IP_SHARED_MM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether the two share their memory. */
bool ip_shared_mm_is(pid_t a, pid_t b);
/* Whether it is not known that they do not: asked, or where the kernel does not tell, seen by their
 * sizes. */
bool ip_shared_mm_may_be(pid_t a, pid_t b);

/* All processes that share the memory of the process: 0 and an array of pids that the caller
 * frees (NULL where there are none), or -1. tid: a thread of it that lives. */
int ip_shared_mm_find(pid_t pid, pid_t tid, pid_t **ret, size_t *ret_n);

#endif
