/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks in the session file: which calls of a thread were open when its recording began.
 */
#include <errno.h>
#include <stdlib.h>

#include "analysis/read/session_parser.h"
#include "common/array.h"
#include "common/trace/trace_format.h"

/* Reads a number that ends at end, and sets *at behind it. Returns false where there is none. */
static bool take_number(const char **at, char end, uint64_t max, uint64_t *ret)
{
	char *behind;

	if (**at < '0' || **at > '9')
		return false;
	errno = 0;
	*ret = strtoull(*at, &behind, 10);
	if (errno || *ret > max || (*behind != end && (end != ',' || *behind)))
		return false;
	*at = *behind ? behind + 1 : behind;
	return true;
}

int ip_session_parse_stack(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	struct ip_recording_stack stack = {.first = s->nstack_frames};
	const char *frames = p->nfields > 4 ? p->fields[4] : "";
	uint64_t pid = 0, tid = 0, number, sp;

	if (ip_session_number(p, 1, UINT32_MAX, &pid) < 0 ||
	    ip_session_number(p, 2, UINT32_MAX, &tid) < 0 ||
	    ip_session_number(p, 3, UINT64_MAX, &stack.tsc) < 0)
		return -1;
	stack.pid = pid;
	stack.tid = tid;
	while (*frames) {
		if (stack.n == IP_STACK_FRAMES_MAX ||
		    !take_number(&frames, ':', IP_NUMBER_MAX, &number) ||
		    !take_number(&frames, ',', UINT64_MAX, &sp))
			return ip_session_bad(p, "not a list of frames");
		if (ip_array_grow(&s->stack_frames, s->nstack_frames, sizeof(*s->stack_frames)) < 0)
			return -1;
		s->stack_frames[s->nstack_frames++] =
			(struct ip_recording_stack_frame){.number = number, .sp = sp};
		stack.n++;
	}
	if (ip_array_grow(&s->stacks, s->nstacks, sizeof(*s->stacks)) < 0)
		return -1;
	s->stacks[s->nstacks++] = stack;
	return 0;
}

static int by_thread(const void *a, const void *b)
{
	const struct ip_recording_stack *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->tsc < y->tsc ? -1 : x->tsc > y->tsc;
}

void ip_session_index_stacks(struct ip_recording *s)
{
	if (s->nstacks)
		qsort(s->stacks, s->nstacks, sizeof(*s->stacks), by_thread);
}

size_t ip_recording_find_stack(const struct ip_recording *s, uint32_t pid, uint32_t tid)
{
	size_t low = 0, high = s->nstacks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct ip_recording_stack *stack = &s->stacks[middle];

		if (stack->pid < pid || (stack->pid == pid && stack->tid < tid))
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->nstacks && s->stacks[low].pid == pid && s->stacks[low].tid == tid ? low + 1
											  : 0;
}
