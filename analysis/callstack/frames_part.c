/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of functions. A compiler splits a function f into a small head, which it inlines
 * wherever f is called, and the rest, f.part.0, which the head calls (gcc: -fpartial-inlining;
 * clang: cold parts). Where the head was not inlined, both have probes.
 *
 *   Entry of a part at S: the innermost call of f goes on in the part under two conditions. f's
 *   frame is the innermost frame of all once the frames with T.S <= S are gone, and the call
 *   does not go on in another part already. The part then has no frame, and its time is f's
 *   time. Any other caller of the part has inlined the head: another function, or f itself in a
 *   recursion, where the innermost f goes on in a part already. Then the call is a call of its
 *   own: the part gets a frame.
 *
 *   A function may also leave by a jump to its part (at -O2 gcc makes this jump of the call).
 *   The function's tail exit is held back until the next event. If the next event is the entry
 *   of a part of the function, at exactly the S of the function's own entry, the call goes on,
 *   and the part's exit is the function's exit.
 *
 *   Exit of a part: it ends the frame of the part, where that is the innermost frame with that
 *   S. Else it ends the part with that S in which a call goes on. Frames above f were unwound.
 *
 * A note about a part counts only while its f is open: each use checks that again.
 */
#include "analysis/callstack/frames_private.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

int ip_frames_find_hosts(struct ip_frames *t)
{
	size_t n = t->session->nfunctions;

	for (size_t i = 1; i < n; i++) {
		uint32_t host = ip_recording_host(t->session, i);

		if (!host)
			continue;
		if (!t->hosts)
			t->hosts = calloc(n, sizeof(*t->hosts));
		if (!t->has_parts)
			t->has_parts = calloc(n, sizeof(*t->has_parts));
		if (!t->hosts || !t->has_parts)
			return ip_error("out of memory");
		t->hosts[i] = host;
		t->has_parts[host] = true;
	}
	return 0;
}

static bool is_current(const struct ip_frames *t, const struct ip_frames_part *p)
{
	return p->frame < t->n && t->frames[p->frame].start == p->start &&
	       t->frames[p->frame].function == t->hosts[p->function];
}

static void forget_gone(struct ip_frames *t)
{
	while (t->nparts && !is_current(t, &t->parts[t->nparts - 1]))
		t->nparts--;
}

static int enter(struct ip_frames *t, uint32_t function, uint64_t sp)
{
	struct ip_frames_part *last;
	struct range r;
	size_t keep;

	if (!t->n || !ip_frames_find_owner(t, sp, ABOVE, &r))
		return 0;
	/* A call takes at least the return address: no frame at or below S is open. */
	keep = ip_frames_first_deeper(t, r, sp + 1);
	if (keep == r.start || t->frames[keep - 1].function != t->hosts[function])
		return 0;
	forget_gone(t);
	last = t->nparts ? &t->parts[t->nparts - 1] : NULL;
	if (last && last->frame == keep - 1 && last->sp > sp)
		return 0;
	ip_frames_leave(t, keep);
	forget_gone(t);
	if (t->nparts && t->parts[t->nparts - 1].frame == keep - 1)
		t->nparts--; /* the part ended without an exit */
	if (ip_array_grow(&t->parts, t->nparts, sizeof(*t->parts)) < 0)
		return -1;
	t->parts[t->nparts++] = (struct ip_frames_part){.frame = keep - 1,
							.start = t->frames[keep - 1].start,
							.sp = sp,
							.function = function};
	return 1;
}

bool ip_frames_hold_jump(struct ip_frames *t, const struct ip_event *e, uint32_t function)
{
	const struct ip_frame *top = t->n ? &t->frames[t->n - 1] : NULL;

	if (!top || top->function != function || top->sp >= e->sp ||
	    e->sp - top->sp > TAIL_FRAME_MAX)
		return false;
	t->held_function = function;
	t->held_sp = e->sp;
	t->holds = true;
	return true;
}

int ip_frames_settle_jump(struct ip_frames *t, const struct ip_event *next)
{
	const struct ip_frame *top = t->n ? &t->frames[t->n - 1] : NULL;
	struct ip_recording_number number = next ? ip_recording_number(t->session, next->number)
						 : (struct ip_recording_number){0};

	t->holds = false;
	forget_gone(t);
	if (!next || next->kind != IP_PROBE_ENTRY || number.entry_only || !top ||
	    t->hosts[number.function] != top->function || top->sp != next->sp)
		return ip_frames_exit(t, t->held_function, t->held_sp, true, false, 0, false);
	if (ip_array_grow(&t->parts, t->nparts, sizeof(*t->parts)) < 0)
		return -1;
	t->parts[t->nparts++] = (struct ip_frames_part){.frame = t->n - 1,
							.start = top->start,
							.sp = next->sp,
							.function = number.function,
							.jumped = true};
	t->joins = true;
	return 0;
}

/* Returns whether an exit is that of the part. A tail exit has the caller's stack pointer, rounded
 * down: 8 more than the part's, or more where the frame was larger. */
static bool is_end_of(const struct ip_frames_part *p, uint32_t function, uint64_t sp, bool tail)
{
	if (p->function != function)
		return false;
	return p->sp == sp || (tail && p->sp < sp && sp - p->sp <= TAIL_FRAME_MAX);
}

/* Returns whether the part has a frame that this exit ends. Then the part does not go on with a
 * call. */
static bool has_frame(const struct ip_frames *t, const struct ip_frames_part *p, uint32_t function)
{
	for (size_t i = t->n; t->active[function] && i > p->frame + 1; i--)
		if (t->frames[i - 1].function == function)
			return true;
	return false;
}

static int leave(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail)
{
	bool jumped;

	forget_gone(t);
	for (size_t i = t->nparts; i > 0 && t->nparts - i < SEARCH_MAX; i--) {
		const struct ip_frames_part *p = &t->parts[i - 1];

		if (!is_current(t, p) || !is_end_of(p, function, sp, tail))
			continue;
		if (tail && has_frame(t, p, function))
			return 0;
		jumped = p->jumped;
		ip_frames_leave(t, p->frame + 1);
		t->nparts = i - 1;
		return jumped ? 2 : 1;
	}
	return 0;
}

int ip_frames_take_part(struct ip_frames *t, const struct ip_event *e, uint32_t function)
{
	if (t->joins) { /* its entry was handled when the jump was settled */
		t->joins = false;
		return 1;
	}
	if (e->kind == IP_PROBE_ENTRY)
		return ip_recording_number(t->session, e->number).entry_only
			       ? 0
			       : enter(t, function, e->sp);
	if (e->kind == IP_PROBE_EXIT || e->kind == IP_PROBE_TAIL_EXIT)
		return leave(t, function, e->sp, e->kind == IP_PROBE_TAIL_EXIT);
	return 0;
}
