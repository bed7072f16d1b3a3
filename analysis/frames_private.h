/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the stack machine share (frames.c tells its rules).
 */
#ifndef IP_FRAMES_PRIVATE_H
#define IP_FRAMES_PRIVATE_H

#include "analysis/frames.h"
#include "analysis/limbo.h"

#define BELOW	   (1ull << 20)
#define ABOVE	   (8ull << 10)
#define ABOVE_EXIT (1ull << 20)

/* Bounds for hostile traces. */
#define DEPTH_MAX    (1u << 22)
#define SEGMENTS_MAX 256u
#define SEARCH_MAX   1024u

/* Of a function that ends in a tail exit and was left meanwhile. */
#define TAIL_FRAME_MAX 2048u

#define NOT_FOUND SIZE_MAX

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The frames of all stacks that are open, one stack (segment) on top of the other. Only the first segment may
 * be empty, where it is the only one. Within a segment sp never grows with the index. */
struct ip_frames {
	const struct ip_recording *session;
	struct ip_frames_ops ops;
	void *context;
	struct ip_frame *frames;
	size_t n, capacity;
	size_t starts[SEGMENTS_MAX]; /* first frames of the segments; starts[0] is 0 */
	size_t top;		     /* index of the topmost segment */
	uint64_t now;
	size_t suspect;	  /* frames below this index saw a loss */
	uint32_t *active; /* open frames by function */
	uint64_t group;
	struct ip_limbo limbo;
	const uint64_t *payloads;
	uint64_t removal; /* when functions are removed next; UINT64_MAX: never again */
	size_t nremovals; /* that have been passed */
	uint64_t notice;  /* an event behind it cannot go the common way: removal, or 0 behind a loss */
	uint64_t gaps;	  /* ticks so far during which events were lost */
	bool lossy;	  /* events were lost in front of the next one */
	bool late;	  /* an exit was let in front of the removal */
};

/* The frames of segment k. */
struct range {
	size_t start, end;
};

/* frames_stacks.c */

void ip_frames_give_up_all(struct ip_frames *t);
void ip_frames_leave(struct ip_frames *t, size_t keep);
int ip_frames_reserve(struct ip_frames *t);
void ip_frames_begin_segment(struct ip_frames *t);
struct range ip_frames_segment(const struct ip_frames *t, size_t k);
uint64_t ip_frames_distance(const struct ip_frames *t, struct range r, uint64_t sp, uint64_t above);
bool ip_frames_find_owner(const struct ip_frames *t, uint64_t sp, uint64_t above, struct range *ret);
size_t ip_frames_first_deeper(const struct ip_frames *t, struct range r, uint64_t sp);
int ip_frames_enter(struct ip_frames *t, uint32_t function, uint64_t sp, uint32_t room, uint32_t flags);
int ip_frames_resume(struct ip_frames *t, const struct ip_limbo_entry *ended, bool tail);

/* frames_exit.c */

int ip_frames_exit(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail, bool inlined);
void ip_frames_pass_point(struct ip_frames *t, uint64_t sp);

/* frames_removed.c */

uint64_t ip_frames_next_removal(const struct ip_frames *t);
void ip_frames_pass_removals(struct ip_frames *t, uint64_t ts);
bool ip_frames_is_late_exit(struct ip_frames *t, const struct ip_event *e, struct ip_recording_number number);

/* The common path. */

/* Takes the topmost frame off, whatever becomes of it. */
static inline struct ip_frame ip_frames_take_off(struct ip_frames *t)
{
	struct ip_frame frame = t->frames[--t->n];

	t->active[frame.function]--;
	frame.lost = t->gaps - frame.lost;
	if (unlikely(t->n < t->suspect)) {
		frame.flags |= IP_FRAME_SUSPECT;
		t->suspect = t->n;
	}
	if (unlikely(t->n == t->starts[t->top] && t->top))
		t->top--;
	return frame;
}

static inline void ip_frames_end_top_as(struct ip_frames *t, enum ip_frame_end how)
{
	struct ip_frame frame = ip_frames_take_off(t);

	if (likely(t->ops.closed))
		t->ops.closed(t->context, &frame, t->n, t->now, how);
}

static inline void ip_frames_end_top(struct ip_frames *t, bool tail)
{
	if (tail)
		t->frames[t->n - 1].flags |= IP_FRAME_TAIL;
	ip_frames_end_top_as(t, IP_END_EXIT);
}

static inline int ip_frames_push(struct ip_frames *t, uint32_t function, uint64_t sp, uint32_t flags)
{
	struct ip_frame *frame;

	if (unlikely(t->n == t->capacity) && ip_frames_reserve(t) < 0)
		return -1;
	frame = &t->frames[t->n++];
	*frame = (struct ip_frame){sp, t->now, 0, t->gaps, function,
				   flags | (t->active[function]++ ? IP_FRAME_INNER : 0)};
	if (t->ops.opened)
		t->ops.opened(t->context, frame, t->n - 1);
	return 0;
}

#endif
