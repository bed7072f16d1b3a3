/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls lie within a function that was named (IP_MODE_WITHIN): a thread records from the
 * entry of such a function to its exit, and nothing outside of it. Part of the careful path.
 *
 * The state of a thread is where the outermost such call lies that is open. What lies deeper in the
 * same stack is within it.
 *
 *   1. The entry of a named function outside of it begins it.
 *   2. The return of that call ends it, whatever function returns, for a function that ends in a
 *      jump has left its frame to the one that it jumps to. An inlined instance in that frame is
 *      part of it, and ends nothing but itself. A call that continues in a function whose exits are
 *      not live (no IP_RULE_JUMP) ends at its jump.
 *   3. An exception, or longjmp(3), may leave the call without an exit. Then the next event of the
 *      same stack that lies above it ends it, and is outside; so is an entry that lies where its
 *      own was, unless it has jumped there. An exit of the call is recorded then: what would tell
 *      readers that the call is gone is left out.
 *   4. Another stack (a handler's own one, a coroutine's) while the call is open is within it: the
 *      thread has not returned. It is outside where the thread was there before the call began, as
 *      in a handler on a stack of its own that siglongjmp(3) leaves; and from where a function
 *      returns there that has not been entered there since. The thread may have left the call for
 *      good, or may come back to its stack. A stack is another one where it lies further above than
 *      RT_STACK_NEAR; one further below cannot be told apart, and is within it in any case.
 *
 * Handlers. The state is read and written by its thread and the handlers on top of it alone. A
 * handler that begins a call of its own has ended it when it returns; one that leaves by longjmp
 * leaves a state that rule 3 ends. One that comes while a call begins finds its place, and no stack
 * pointer yet: so it is within it, and no exit of its own ends it.
 *
 * The state is the process's own, and not in shared memory: nothing from outside decides what a
 * thread does here. The hooks do in line what begins and ends nothing (arch/ARCH/record_paths.S).
 */
#ifndef RT_FLOW_H
#define RT_FLOW_H

#include "runtime/filter.h"

#define RT_STACK_NEAR (1ull << 20)
#define RT_FLOW_NO_SP (~0ull) /* of no call */

enum rt_flow_state {
	RT_FLOW_JUMPED = 1, /* it has ended in a jump: an entry in its place goes on with it */
	RT_FLOW_AWAY = 2,   /* the thread is on another stack, and outside */
};

struct rt_flow {
	/* where its return address lies, or its entry site's stack pointer, where that is not
	 * known; 0: no such call is open. sp: its entry site's stack pointer; RT_FLOW_NO_SP as
	 * long as base is 0 */
	uint64_t base, sp;
	uint64_t last;	 /* stack pointer of the last event that was outside */
	uint32_t number; /* of its function */
	uint8_t state;	 /* bits: enum rt_flow_state */
	uint8_t nested;	 /* inlined instances of it that are open in its own frame */
	uint16_t others; /* calls that are open on other stacks */
};

/* By slot. */
extern struct rt_flow rt_flows[IP_AREA_SLOTS] __attribute__((visibility("hidden")));

/* Whether an event is to be recorded, in a session with IP_MODE_WITHIN. The slot is the thread's
 * own. *ret_gone: the exit that is to be recorded before it (rule 3); its number is 0 where there
 * is none. */
int rt_is_within(struct ip_slot *slot, const struct rt_event *event, struct rt_event *ret_gone);

#endif
