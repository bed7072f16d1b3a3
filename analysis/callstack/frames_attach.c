/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a thread that were open when its recording began. They are fed as entries at the
 * time of the attach, so all rules of the machine hold for them.
 */
#include "analysis/callstack/frames_private.h"
#include "analysis/callstack/trace.h"
#include "common/elf/probe_list.h"

void ip_frames_begin_kernel(struct ip_frames *t, const struct ip_thread_packets *run)
{
	const struct ip_recording *s = t->session;

	ip_frames_set_kernel(t, run->pid, run->tid,
			     run->stack && run->stack <= s->nstacks ? s->stacks[run->stack - 1].tsc
								    : run->begin);
}

int ip_frames_begin_run(struct ip_frames *t, const struct ip_thread_packets *run)
{
	const struct ip_recording *s = t->session;
	const struct ip_recording_stack *stack;
	int ret = 0;

	ip_frames_begin_kernel(t, run);
	if (!run->stack || run->stack > s->nstacks)
		return 0;
	stack = &s->stacks[run->stack - 1];
	t->earlier = IP_FRAME_EARLIER;
	for (size_t i = 0; ret == 0 && i < stack->n; i++) {
		const struct ip_recording_stack_frame *frame = &s->stack_frames[stack->first + i];
		const struct ip_event entry = {.ts = stack->tsc,
					       .sp = frame->sp,
					       .number = frame->number,
					       .kind = IP_PROBE_ENTRY};

		/* of such a function no end is seen */
		if (!ip_recording_number(s, frame->number).entry_only)
			ret = ip_frames_feed(t, &entry, 1);
	}
	t->earlier = 0;
	return ret;
}
