/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths that system calls of the targets were given. The kernel's events have the address of a path
 * only, and its text is gone when they are read.
 *
 * Protocol:
 *
 *   1. When a system call returns, a program of BPF copies its paths from the caller's memory into
 *      a ring, if the caller's thread is in a set that grows and shrinks by itself
 *      (thread_filter.h). It is the caller's memory as the kernel reads it: what is not there makes
 *      no text, and no fault. Of a call that has made a descriptor there is nothing: the
 *      descriptor is looked at (descriptor_log.h).
 *   2. A thread of ours empties the ring, more often than it fills up. What had no room is told as
 *      a gap: readers must not take a path of the next call for that of one which has none.
 *   3. Whose path it is, readers find by the thread, the number of the call, the address and the
 *      time (analysis/wait/descriptors/call_paths.h). A thread that changes the text of a path
 *      which another one passes just then is told by what it made of it.
 *
 * All is gone when its descriptors are closed, whatever becomes of us.
 */
#ifndef IP_PATH_RING_H
#define IP_PATH_RING_H

#include <sys/types.h>

#include "common/trace/call_path.h"

struct ip_event_layout;
struct ip_path_ring;
struct ip_thread_filter;

/* Step 1 begins. threads: the set, which is borrowed; NULL: one of its own, which is empty. Returns
 * NULL with an error: among others, the kernel lets us load no programs. */
struct ip_path_ring *ip_path_ring_create(const struct ip_event_layout *layout,
					 struct ip_thread_filter *threads);
/* NULL is allowed. */
void ip_path_ring_destroy(struct ip_path_ring *ring);
/* In a process that was forked meanwhile: closes what would keep the program in being. NULL is
 * allowed. */
void ip_path_ring_leave(const struct ip_path_ring *ring);

/* The process' threads join a set of its own. Returns 0, or -1 with an error. */
int ip_path_ring_add(struct ip_path_ring *ring, pid_t pid);

/* Step 2: passes what is in the ring to take(), of which a negative value ends it. Returns 0, or -1
 * with an error. */
int ip_path_ring_drain(struct ip_path_ring *ring,
		       int (*take)(void *context, const struct ip_call_path *path), void *context);

#endif
