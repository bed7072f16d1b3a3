/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes into the trace which calls were open when the recording began, so that call trees begin at
 * the threads' first functions.
 *
 *   1. Before the first stop: note where the functions of the plan lie, by address, and make room
 *      for copies of the threads.
 *   2. In the stop: the threads are copied (hotpatcher/ptrace/stack_copies.h).
 *   3. While the session runs: the copies are walked one by one, in slices of a millisecond
 *      (hotpatcher/process/stack_unwind.h). The rest is walked at the end, in at most
 *      LAST_NS (stacks.c).
 *
 * A frame is told if its function logs, begins where the unwind table says, has exit probes (else
 * nothing would end it), and has passed its entry site (else the entry is recorded). The stack
 * pointer of its entry follows from the caller's and the probe list's frame size; without that the
 * frame is left out. Frames of other functions are passed over, and so are inlined instances.
 *
 * A thread that ends before its copy is walked may have its number taken by another one: readers
 * then see calls that end at the first event of that thread which does not lie deeper.
 */
#ifndef IP_SESSION_STACKS_H
#define IP_SESSION_STACKS_H

#include "hotpatcher/plan/plan.h"
#include "trace_writer/writer.h"

struct ip_stacks;

/* Step 1. The stop that is next takes the copies, until ip_stacks_taken(). The caller destroys
 * *ret. 0, or -1: out of memory. */
int ip_stacks_create(struct ip_target *target, const struct ip_plan *plan, struct ip_stacks **ret);
/* The stop is over: opens the modules for step 3. Returns whether there is anything to walk. */
bool ip_stacks_taken(struct ip_stacks *stacks, struct ip_target *target,
		     const struct ip_modules *modules);
void ip_stacks_destroy(struct ip_stacks *stacks);

/* Step 3. last: there will be no further step. Returns whether another step is to follow. */
bool ip_stacks_step(struct ip_stacks *stacks, const struct ip_target *target,
		    struct ip_trace *trace, bool last);

#endif
