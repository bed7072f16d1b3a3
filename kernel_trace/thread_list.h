/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All threads of a process, while it makes others.
 */
#ifndef IP_THREAD_LIST_H
#define IP_THREAD_LIST_H

#include <stddef.h>
#include <sys/types.h>

/* Passes the threads of a process to choose(), until a listing has nobody new. From then on, all
 * are chosen, if what a chosen thread makes is chosen with it: a thread can be missing only if its
 * parent was not chosen yet. choose() may be given a thread again; a negative value ends it.
 * Returns 0, or -1 with an error. */
int ip_thread_list_choose(pid_t pid, int (*choose)(void *context, const pid_t *tids, size_t n),
			  void *context);

#endif
