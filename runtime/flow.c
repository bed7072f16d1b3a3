/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an event lies within a function that was named. The rules are in flow.h.
 */
#include "runtime/flow.h"

#include "common/elf/probe_list.h"
#include "runtime/arch/cpu.h"

/* as in frames.h: what the stack pointers of one call's entry and exit may differ by */
#define ABOVE (8ull << 10)

struct rt_flow rt_flows[IP_AREA_SLOTS];

static int is_exit(const struct rt_event *event)
{
	return event->kind == IP_PROBE_EXIT || event->kind == IP_PROBE_TAIL_EXIT;
}

static int is_far_above(uint64_t place, uint64_t base)
{
	return place > base && place - base >= RT_STACK_NEAR;
}

/* Where an event lies: the place of its function's return address where that is known. */
static uint64_t place_of(const struct rt_event *event, const struct ip_filter_rule *rule)
{
	/* a tail exit has the stack pointer behind the return */
	if (event->kind == IP_PROBE_TAIL_EXIT)
		return event->sp - 8;
	if (event->kind == IP_PROBE_ENTRY && rule->frame && !(rule->flags & IP_RULE_INLINED))
		return event->sp + rule->frame - 8;
	return event->sp;
}

/* Rule 1. */
static int begin(struct rt_flow *flow, const struct rt_event *event,
		 const struct ip_filter_rule *rule, uint64_t place)
{
	/* without an exit nothing would end it */
	if (event->kind != IP_PROBE_ENTRY || !(rule->flags & IP_RULE_WITHIN) ||
	    rule->flags & IP_RULE_NO_EXIT)
		return 0;
	/* A handler that comes in between finds the call open, and ends nothing of it. One on
	 * another stack may still be open. */
	flow->sp = RT_FLOW_NO_SP;
	cpu_store_order();
	flow->base = place;
	cpu_store_order();
	flow->number = event->number;
	flow->state = 0;
	flow->nested = 0;
	flow->others = 0;
	cpu_store_order();
	flow->sp = event->sp;
	return 1;
}

static void end(struct rt_flow *flow)
{
	flow->base = 0;
	cpu_store_order();
	flow->sp = RT_FLOW_NO_SP;
}

/* Rule 3. */
static int is_gone(const struct rt_flow *flow, const struct rt_event *event,
		   const struct ip_filter_rule *rule, uint64_t place)
{
	return place > flow->base ||
	       (place == flow->base && event->kind == IP_PROBE_ENTRY &&
		!(flow->state & RT_FLOW_JUMPED) && !(rule->flags & IP_RULE_INLINED));
}

static struct rt_event exit_of(const struct rt_flow *flow)
{
	return (struct rt_event){.sp = flow->sp, .number = flow->number, .kind = IP_PROBE_EXIT};
}

/* Rule 4. Events of a stack that lies further above. */
static int on_another_stack(struct rt_flow *flow, const struct rt_event *event,
			    const struct ip_filter_rule *rule, uint64_t place,
			    struct rt_event *ret_gone)
{
	/* a handler came before the hook below it had noted where its call began */
	if (flow->sp == RT_FLOW_NO_SP)
		return 1;
	if (!(flow->state & RT_FLOW_AWAY) && is_far_above(flow->last, flow->base) &&
	    !is_far_above(place, flow->last) && !is_far_above(flow->last, place))
		flow->state |= RT_FLOW_AWAY;
	if (flow->state & RT_FLOW_AWAY) {
		const struct rt_event gone = exit_of(flow);
		const int begins = begin(flow, event, rule, place);

		if (begins)
			*ret_gone = gone;
		return begins;
	}
	if (event->kind == IP_PROBE_ENTRY && !(rule->flags & IP_RULE_NO_EXIT)) {
		flow->others += flow->others < UINT16_MAX;
	} else if (is_exit(event) && !flow->others) {
		flow->state |= RT_FLOW_AWAY;
		return 0;
	} else if (is_exit(event) &&
		   !(event->kind == IP_PROBE_TAIL_EXIT && rule->flags & IP_RULE_JUMP)) {
		flow->others--;
	}
	return 1;
}

/* Rule 2. An exit in the call's own frame. */
static void leave(struct rt_flow *flow, const struct rt_event *event,
		  const struct ip_filter_rule *rule, uint64_t place)
{
	if (event->number == flow->number && flow->nested) {
		flow->nested--;
	} else if (event->kind == IP_PROBE_TAIL_EXIT && rule->flags & IP_RULE_JUMP) {
		flow->state |= RT_FLOW_JUMPED;
	} else if (event->number == flow->number || ((place == flow->base || place == flow->sp) &&
						     !(rule->flags & IP_RULE_INLINED))) {
		end(flow);
	}
}

static int is_within(struct rt_flow *flow, const struct rt_event *event,
		     const struct ip_filter_rule *rule, struct rt_event *ret_gone)
{
	const uint64_t place = place_of(event, rule);

	if (!flow->base)
		return begin(flow, event, rule, place);
	if (is_far_above(place, flow->base))
		return on_another_stack(flow, event, rule, place, ret_gone);
	flow->state &= ~RT_FLOW_AWAY;
	flow->others = 0;
	if (is_gone(flow, event, rule, place)) {
		/* an entry site may lie behind the prologue, and the exit's stack pointer above */
		const int ends = is_exit(event) && event->number == flow->number &&
				 !(rule->flags & IP_RULE_EXACT) && place - flow->base < ABOVE;

		/* without it the hook that was left has recorded no entry either */
		if (!ends && flow->sp != RT_FLOW_NO_SP)
			*ret_gone = exit_of(flow);
		end(flow);
		return ends || begin(flow, event, rule, place);
	}
	if (is_exit(event) && place >= flow->sp)
		leave(flow, event, rule, place);
	else if (event->kind == IP_PROBE_ENTRY && event->number == flow->number &&
		 event->sp == flow->sp && rule->flags & IP_RULE_INLINED)
		flow->nested += flow->nested < UINT8_MAX;
	else if (event->kind == IP_PROBE_ENTRY && place == flow->base &&
		 !(rule->flags & IP_RULE_NO_EXIT)) /* an entry of the PLT is on the way */
		flow->state &= ~RT_FLOW_JUMPED;
	return 1;
}

int rt_is_within(struct ip_slot *slot, const struct rt_event *event, struct rt_event *ret_gone)
{
	struct rt_flow *flow = &rt_flows[slot - rt_slots];
	const struct ip_filter_rule rule = rule_of(event->number);
	int within;

	ret_gone->number = 0;
	within = is_within(flow, event, &rule, ret_gone);
	if (!within)
		flow->last = event->sp;
	return within;
}
