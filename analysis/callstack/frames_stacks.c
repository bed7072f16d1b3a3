/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of the stack machine: which stack a stack pointer belongs to, and frames that are
 * left and that come back.
 */
#include "analysis/callstack/frames_private.h"

#include <stdlib.h>

#include "common/error.h"

static void ip_frames_give_up(struct ip_frames *t, const struct ip_abandoned_frames_entry *e)
{
	if (t->ops.closed)
		t->ops.closed(t->context, &e->frame, t->n, e->left, IP_END_UNWOUND);
}

void ip_frames_give_up_all(struct ip_frames *t)
{
	struct ip_abandoned_frames_entry e;

	while (ip_abandoned_frames_take_any(&t->abandoned, &e))
		ip_frames_give_up(t, &e);
}

/* Returns the function whose exit tells that a frame which was left has come back. */
static uint32_t key_of(const struct ip_frame *f)
{
	return f->flags & IP_FRAME_JUMPED && !(f->flags & IP_FRAME_AWAITS) ? f->other : f->function;
}

/* Leaves the frames from index keep on. */
void ip_frames_leave(struct ip_frames *t, size_t keep)
{
	size_t last = SIZE_MAX;

	while (t->n > keep) {
		struct ip_abandoned_frames_entry e = {.left = t->now}, old;
		bool lowest = t->n - 1 == keep || t->n - 1 == t->starts[t->top];
		int added;

		if (unlikely(t->frames[t->n - 1].flags & IP_FRAME_AWAITS)) {
			ip_frames_end_awaiting(t);
			continue;
		}
		if (last != t->top) {
			last = t->top;
			t->group++;
		}
		e.group = t->group;
		e.frame = ip_frames_take_off(t);
		if (!lowest) {
			e.parent_sp = t->frames[t->n - 1].sp;
			e.parent_function = key_of(&t->frames[t->n - 1]);
			e.has_parent = true;
		}
		e.function = key_of(&e.frame);
		if (t->ops.left)
			t->ops.left(t->context, &e.frame, t->n, t->now);
		added = ip_abandoned_frames_add(&t->abandoned, &e, &old);
		if (added < 0) {
			ip_frames_give_up_all(t);
			added = ip_abandoned_frames_add(&t->abandoned, &e, &old);
		}
		if (added)
			ip_frames_give_up(t, added > 0 ? &old : &e);
	}
}

int ip_frames_reserve(struct ip_frames *t)
{
	size_t capacity = t->capacity ? 2 * t->capacity : 64;
	struct ip_frame_jump *jumps;
	struct ip_frame *grown, *old = t->frames ? t->frames - 1 : NULL;

	if (t->n < t->capacity)
		return 0;
	if (t->n >= DEPTH_MAX) {
		ip_frames_leave(t, 0);
		return 0;
	}
	grown = reallocarray(old, capacity + 1, sizeof(*grown));
	if (!grown)
		return ip_error("out of memory");
	/* no entry is near it, and no exit is its */
	grown[0] = (struct ip_frame){.function = IP_FRAMES_NO_FUNCTION, .tag = UINT32_MAX};
	t->frames = grown + 1;
	jumps = reallocarray(t->jumps, capacity, sizeof(*jumps));
	if (!jumps)
		return ip_error("out of memory");
	t->jumps = jumps;
	t->capacity = capacity;
	return 0;
}

void ip_frames_free_frames(struct ip_frames *t)
{
	if (t->frames)
		free(t->frames - 1);
	t->frames = NULL;
}

/* Lets the next frame begin a new stack. */
void ip_frames_begin_segment(struct ip_frames *t)
{
	if (!t->n)
		return;
	if (t->top + 1 == SEGMENTS_MAX) {
		ip_frames_leave(t, 0);
		return;
	}
	t->starts[++t->top] = t->n;
}

struct range ip_frames_segment(const struct ip_frames *t, size_t k)
{
	return (struct range){t->starts[k], k == t->top ? t->n : t->starts[k + 1]};
}

/* Returns how far sp is from a stack; UINT64_MAX: too far. */
uint64_t ip_frames_distance(const struct ip_frames *t, struct range r, uint64_t sp, uint64_t above)
{
	uint64_t high, low;

	if (r.start == r.end)
		return UINT64_MAX;
	high = t->frames[r.start].sp;
	low = t->frames[r.end - 1].sp;
	if (sp > high)
		return sp - high < above ? sp - high : UINT64_MAX;
	if (sp < low)
		return low - sp < BELOW ? low - sp : UINT64_MAX;
	return 0;
}

/* Finds the stack that sp belongs to: the nearest one; of several equally near ones the
 * innermost. */
bool ip_frames_find_owner(const struct ip_frames *t, uint64_t sp, uint64_t above, struct range *ret)
{
	uint64_t nearest = UINT64_MAX;

	for (size_t k = t->top + 1; k-- > 0 && nearest;) {
		struct range r = ip_frames_segment(t, k);
		uint64_t d = ip_frames_distance(t, r, sp, above);

		if (d < nearest) {
			nearest = d;
			*ret = r;
		}
	}
	return nearest != UINT64_MAX;
}

/* Returns the first frame of r with T.S < sp; the end of r where there is none. */
size_t ip_frames_first_deeper(const struct ip_frames *t, struct range r, uint64_t sp)
{
	while (r.start < r.end) {
		size_t middle = r.start + (r.end - r.start) / 2;

		if (t->frames[middle].sp < sp)
			r.end = middle;
		else
			r.start = middle + 1;
	}
	return r.end;
}

/* Applies rules 1 and 2 after it has chosen the stack. */
int ip_frames_enter(struct ip_frames *t, uint32_t function, uint64_t sp, uint32_t room,
		    uint32_t flags)
{
	struct range r;

	if (ip_frames_find_owner(t, sp, ABOVE, &r)) {
		size_t keep = ip_frames_first_deeper(t, r, sp + room < sp ? UINT64_MAX : sp + room);

		ip_frames_leave(t, keep);
		if (keep == r.start)
			ip_frames_begin_segment(t);
	} else {
		ip_frames_begin_segment(t);
	}
	return ip_frames_push(t, function, sp, flags);
}

static int push_kept(struct ip_frames *t, const struct ip_frame *frame)
{
	if (ip_frames_reserve(t) < 0)
		return -1;
	t->frames[t->n] = *frame;
	t->jumps[t->n] =
		(struct ip_frame_jump){.self = frame->self, .member = SIZE_MAX, .length = 1};
	t->frames[t->n++].lost = t->gaps - frame->lost;
	t->active[frame->function]++;
	return 0;
}

/* Handles the exit of a frame that was left: the frames below it in its stack are open again,
 * above the present frames. */
int ip_frames_resume(struct ip_frames *t, const struct ip_abandoned_frames_entry *ended, bool tail,
		     uint32_t jump)
{
	struct ip_abandoned_frames_entry e = *ended;
	size_t first;

	ip_frames_begin_segment(t);
	first = t->n;
	if (push_kept(t, &e.frame) < 0)
		return -1;
	while (e.has_parent &&
	       ip_abandoned_frames_take(&t->abandoned, e.parent_function, e.parent_sp, e.group, &e))
		if (push_kept(t, &e.frame) < 0)
			return -1;
	for (size_t i = first, j = t->n - 1; i < j; i++, j--) {
		struct ip_frame frame = t->frames[i];

		t->frames[i] = t->frames[j];
		t->frames[j] = frame;
	}
	for (size_t i = first; t->ops.resumed && i < t->n; i++)
		t->ops.resumed(t->context, &t->frames[i], i, t->now);
	if (jump)
		ip_frames_note_jump(t, jump);
	else
		ip_frames_end_top(t, tail);
	return 0;
}
