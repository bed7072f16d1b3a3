/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking the stack of a thread from a copy of it, while the thread runs on. libdwfl does it, by
 * the unwind tables of the modules, and by frame pointers where there are none.
 *
 *   - Memory is read from the copy only. Modules are the files that iprobe has open: no path is
 *     looked up, and no separate debug information is read.
 *   - A walk ends at what the tables do not explain, at the end of the copy, where the stack
 *     pointer does not grow (so no copy can lead in a circle), and after IP_STACK_UNWIND_MAX
 *     frames.
 */
#ifndef IP_STACK_UNWIND_H
#define IP_STACK_UNWIND_H

#include "hotpatcher/process/modules.h"
#include "hotpatcher/process/stack_copy.h"

#define IP_STACK_UNWIND_MAX 1024

struct ip_unwind_frame {
	uint64_t start;	 /* where the function's code begins, by its unwind table; 0: unknown */
	uint64_t pc;	 /* where the function goes on */
	uint64_t caller; /* the caller's stack pointer before its call */
	bool exact;	 /* the thread stands, or was interrupted by a signal, at pc */
};

struct ip_stack_unwind;

/* Opens the modules of the target; their files are duplicated. The caller destroys *ret. 0, or -1
 * with an error. */
int ip_stack_unwind_create(const struct ip_target *target, const struct ip_modules *modules,
			   struct ip_stack_unwind **ret);
void ip_stack_unwind_destroy(struct ip_stack_unwind *unwind);

/* Walks the stack. frames has room for IP_STACK_UNWIND_MAX of them, the innermost first. Returns
 * their number; *ret_whole: the walk came to the thread's first frame. */
size_t ip_stack_unwind_walk(struct ip_stack_unwind *unwind, const struct ip_stack_copy *copy,
			    struct ip_unwind_frame *frames, bool *ret_whole);

#endif
