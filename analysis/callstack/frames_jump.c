/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule 5 of the stack machine: calls that go on in another function, which was jumped to.
 *
 * What the machine knows besides about a frame that has jumped lies in a second array, at the
 * same index. Only the entry of the topmost frame of a chain counts: the call goes on there.
 */
#include "analysis/callstack/frames_private.h"
#include "common/elf/probe_list.h"

/* The most members of a chain, which are all different functions. A jump to a further function
 * is counted, but gets no frame. */
#define CHAIN_MAX 1024u

static struct ip_frame_jump *jump_of(struct ip_frames *t, size_t i)
{
	return &t->jumps[i];
}

/* Moves time from the topmost frame of a chain to the member that ran again: it had been added
 * to the topmost frame. */
static void settle(struct ip_frames *t, size_t i)
{
	struct ip_frame *f = &t->frames[i];
	struct ip_frame_jump *jump = jump_of(t, i);

	if (!(f->flags & IP_FRAME_JUMPED) || f->flags & IP_FRAME_AWAITS || jump->member >= i ||
	    t->frames[jump->member].function != f->other || f->self < jump->self)
		return;
	t->frames[jump->member].self += f->self - jump->self;
	f->self = jump->self;
}

void ip_frames_note_jump(struct ip_frames *t, uint32_t number)
{
	size_t i = t->n - 1;

	settle(t, i);
	t->frames[i].flags |= IP_FRAME_JUMPED | IP_FRAME_AWAITS;
	t->frames[i].other = number;
	jump_of(t, i)->time = t->now;
	jump_of(t, i)->self = t->frames[i].self;
}

bool ip_frames_find_chain(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail,
			  size_t *ret)
{
	struct range r;

	if (!t->n || !ip_frames_find_owner(t, sp, ABOVE_EXIT, &r))
		return false;
	/* a tail exit has the caller's stack pointer, rounded down */
	for (uint64_t size = tail ? 8 : 0;; size -= 8) {
		size_t end = ip_frames_first_deeper(t, r, sp - size);
		const struct ip_frame *f = end > r.start ? &t->frames[end - 1] : NULL;

		if (f && f->sp == sp - size && f->flags & IP_FRAME_JUMPED &&
		    !(f->flags & IP_FRAME_AWAITS) && f->other == function) {
			*ret = end - 1;
			return true;
		}
		if (!size)
			return false;
	}
}

void ip_frames_end_chain(struct ip_frames *t, bool tail)
{
	uint64_t sp = t->frames[t->n - 1].sp;
	bool joined;

	settle(t, t->n - 1);
	do {
		struct ip_frame *top = &t->frames[t->n - 1];

		joined = top->flags & IP_FRAME_JOINED;
		top->flags &= ~IP_FRAME_AWAITS;
		top->flags |= tail ? IP_FRAME_TAIL : 0;
		ip_frames_end_top_as(t, IP_END_EXIT);
		/* the values of the event belong to the last frame of the chain */
		if (t->ops.values && joined)
			t->ops.values(t->context, NULL);
	} while (joined && t->n && t->frames[t->n - 1].sp == sp &&
		 t->frames[t->n - 1].flags & IP_FRAME_JUMPED);
}

void ip_frames_end_awaiting(struct ip_frames *t)
{
	uint64_t sp = t->frames[t->n - 1].sp, end = jump_of(t, t->n - 1)->time, more;
	bool joined;

	/* The time that was added to it since its jump was its caller's time. */
	more = t->frames[t->n - 1].self - jump_of(t, t->n - 1)->self;
	t->frames[t->n - 1].self -= more;
	do {
		struct ip_frame frame;

		t->frames[t->n - 1].flags &= ~IP_FRAME_AWAITS;
		t->frames[t->n - 1].flags |= IP_FRAME_TAIL;
		joined = t->frames[t->n - 1].flags & IP_FRAME_JOINED;
		frame = ip_frames_take_off(t);
		if (t->ops.closed)
			t->ops.closed(t->context, &frame, t->n, end, IP_END_EXIT);
	} while (joined && t->n && t->frames[t->n - 1].sp == sp &&
		 t->frames[t->n - 1].flags & IP_FRAME_JUMPED);
	if (t->n)
		t->frames[t->n - 1].self += more;
}

/* Returns the index of the chain's member that is this function; SIZE_MAX: there is none. */
static size_t find_member(const struct ip_frames *t, size_t top, uint32_t function)
{
	uint64_t sp = t->frames[top].sp;

	if (!t->active[function])
		return SIZE_MAX;
	for (size_t i = top;; i--) {
		if (t->frames[i].function == function)
			return i;
		if (!i || !(t->frames[i].flags & IP_FRAME_JOINED) || t->frames[i - 1].sp != sp)
			return SIZE_MAX;
	}
}

int ip_frames_join(struct ip_frames *t, uint32_t function, uint64_t sp, bool silent)
{
	struct ip_frame_jump *jump;
	struct range r;
	size_t keep, top;
	uint32_t length;

	if (!t->n || !ip_frames_find_owner(t, sp, ABOVE, &r))
		return 0;
	keep = ip_frames_first_deeper(t, r, sp);
	if (keep == r.start)
		return 0;
	top = keep - 1;
	if (t->frames[top].sp != sp || !(t->frames[top].flags & IP_FRAME_AWAITS) ||
	    !ip_recording_leads_to(t->session, t->frames[top].other, function))
		return 0;
	ip_frames_leave(t, keep);
	jump = jump_of(t, top);
	t->frames[top].flags &= ~IP_FRAME_AWAITS;
	t->frames[top].other = function;
	jump->self = t->frames[top].self;
	jump->member = SIZE_MAX;
	if (silent)
		return 1;
	length = t->frames[top].flags & IP_FRAME_JOINED ? jump->length : 1;
	jump->member = find_member(t, top, function);
	if (jump->member != SIZE_MAX || length >= CHAIN_MAX) {
		if (ip_frames_push(t, function, sp, IP_FRAME_AGAIN) < 0)
			return -1;
		ip_frames_end_top_as(t, IP_END_UNKNOWN);
		return 1;
	}
	if (ip_frames_push(t, function, sp, IP_FRAME_JOINED) < 0)
		return -1;
	jump_of(t, t->n - 1)->length = length + 1;
	return 1;
}

/* Handles the entry of a function that is not shown. */
static void enter_silent(struct ip_frames *t, uint32_t function, uint64_t sp, uint32_t room)
{
	struct range r;

	if (ip_frames_join(t, function, sp, true) || !ip_frames_find_owner(t, sp, ABOVE, &r))
		return;
	ip_frames_leave(t, ip_frames_first_deeper(t, r, sp + room < sp ? UINT64_MAX : sp + room));
}

int ip_frames_feed_silent(struct ip_frames *t, const struct ip_event *e,
			  struct ip_recording_number number)
{
	const struct ip_frame *top = t->n ? &t->frames[t->n - 1] : NULL;

	if (!top)
		return 0;
	if (e->kind == IP_PROBE_ENTRY) {
		/* the common case: the function is called, not jumped to */
		if (top->sp < e->sp || top->sp - e->sp < number.room || top->sp - e->sp >= BELOW)
			enter_silent(t, number.function, e->sp, number.room);
		return 0;
	}
	if (e->kind != IP_PROBE_EXIT && e->kind != IP_PROBE_TAIL_EXIT)
		return 0;
	return ip_frames_exit(t, number.function, e->sp, e->kind == IP_PROBE_TAIL_EXIT, false,
			      number.jumps ? e->number : 0, true);
}
