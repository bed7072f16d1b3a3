/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules 3 and 4 of the stack machine: which frame an exit ends, where it is not simply the
 * innermost one.
 */
#include "analysis/callstack/frames_private.h"

/* Applies rule 3 within one stack. */
static size_t find_exact(const struct ip_frames *t, struct range r, uint32_t function, uint64_t sp)
{
	size_t deeper = ip_frames_first_deeper(t, r, sp);

	for (size_t i = deeper; i > r.start && t->frames[i - 1].sp == sp && deeper - i < SEARCH_MAX;
	     i--)
		if (t->frames[i - 1].function == function)
			return i - 1;
	return NOT_FOUND;
}

static size_t find_tail(const struct ip_frames *t, struct range r, uint32_t function, uint64_t sp)
{
	size_t deeper = ip_frames_first_deeper(t, r, sp);

	for (size_t i = deeper; i < r.end && i - deeper < SEARCH_MAX; i++)
		if (t->frames[i].function == function)
			return i;
	return find_exact(t, r, function, sp);
}

static size_t find_near_alloca(const struct ip_frames *t, struct range r, uint32_t function,
			       uint64_t sp)
{
	size_t deeper = ip_frames_first_deeper(t, r, sp);
	const struct ip_frame *f;

	if (deeper == r.start)
		return NOT_FOUND;
	f = &t->frames[deeper - 1];
	return f->function == function && f->sp - sp <= ABOVE ? deeper - 1 : NOT_FOUND;
}

static size_t find_alloca(const struct ip_frames *t, struct range r, uint32_t function, uint64_t sp)
{
	size_t deeper = ip_frames_first_deeper(t, r, sp);

	for (size_t i = deeper; i > r.start && deeper - i < SEARCH_MAX; i--)
		if (t->frames[i - 1].function == function)
			return i - 1;
	return NOT_FOUND;
}

/* Applies find to all stacks that sp is near, the innermost first. */
static size_t find_frame(const struct ip_frames *t, uint32_t function, uint64_t sp,
			 size_t (*find)(const struct ip_frames *t, struct range r,
					uint32_t function, uint64_t sp))
{
	if (!t->active[function])
		return NOT_FOUND;
	for (size_t k = t->top + 1; k-- > 0;) {
		struct range r = ip_frames_segment(t, k);
		size_t found = NOT_FOUND;

		if (ip_frames_distance(t, r, sp, ABOVE_EXIT) != UINT64_MAX)
			found = find(t, r, function, sp);
		if (found != NOT_FOUND)
			return found;
	}
	return NOT_FOUND;
}

/* Applies rule 3c. A tail exit comes when the frame has been taken down; the size of that frame
 * is not known. */
static bool find_left(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail,
		      struct ip_abandoned_frames_entry *ret)
{
	uint64_t size_max = tail && t->abandoned.n ? TAIL_FRAME_MAX : 0;

	for (uint64_t size = 0; size <= size_max && size <= sp; size += 8)
		if (ip_abandoned_frames_take(&t->abandoned, function, sp - size, 0, ret))
			return true;
	return false;
}

/* Applies rule 3e. */
static bool is_inlined_top(const struct ip_frames *t, uint32_t function, uint64_t sp)
{
	const struct ip_frame *top = t->n ? &t->frames[t->n - 1] : NULL;

	return top && top->function == function && top->sp < sp && sp - top->sp <= ABOVE;
}

/* Applies rule 4 to a point. */
void ip_frames_pass_point(struct ip_frames *t, uint64_t sp)
{
	struct range r;

	if (ip_frames_find_owner(t, sp, ABOVE, &r))
		ip_frames_leave(t, ip_frames_first_deeper(t, r, sp));
}

/* Ends the topmost frame at its exit, or notes that it has jumped. */
static void end_or_jump(struct ip_frames *t, bool tail, uint32_t jump)
{
	if (jump)
		ip_frames_note_jump(t, jump);
	else
		ip_frames_end_top(t, tail);
}

int ip_frames_exit(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail, bool inlined,
		   uint32_t jump, bool silent)
{
	size_t found = NOT_FOUND;
	struct ip_abandoned_frames_entry e;
	struct range r;

	if (!ip_frames_find_chain(t, function, sp, tail, &found))
		found = find_frame(t, function, sp, tail ? find_tail : find_exact);
	if (found == NOT_FOUND && !tail && !t->suspect)
		found = find_frame(t, function, sp, find_near_alloca);
	if (found == NOT_FOUND && find_left(t, function, sp, tail, &e))
		return ip_frames_resume(t, &e, tail, jump);
	if (found == NOT_FOUND && !tail && !t->suspect)
		found = find_frame(t, function, sp, find_alloca);
	if (found != NOT_FOUND || (inlined && !t->suspect && is_inlined_top(t, function, sp))) {
		if (found != NOT_FOUND)
			ip_frames_leave(t, found + 1);
		/* Otherwise the frame has ended together with the frame that it had jumped to. */
		if (found == NOT_FOUND || t->n > found)
			end_or_jump(t, tail, jump);
		return 0;
	}
	if (ip_frames_find_owner(t, sp, ABOVE_EXIT, &r))
		ip_frames_leave(t, ip_frames_first_deeper(t, r, sp));
	if (t->ops.orphan && !silent)
		t->ops.orphan(t->context, function, t->n, t->now);
	return 0;
}
