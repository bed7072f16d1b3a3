/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the stack machine share (frames.c tells its rules).
 */
#ifndef IP_FRAMES_PRIVATE_H
#define IP_FRAMES_PRIVATE_H

#include "analysis/callstack/abandoned_frames.h"
#include "analysis/callstack/frames.h"

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

/* Of a frame that has jumped. */
struct ip_frame_jump {
	uint64_t time,
		/* of the jump, and what its self time was then; while a member is at work again:
		 * when that began */
		self;
	size_t member;	 /* that one's index */
	uint32_t length; /* frames of the chain up to here, of one that is JOINED */
};

/* The frames of all stacks that are open, one stack (segment) on top of the other. Only the
 * first segment may be empty, where it is the only one. Within a segment sp never grows with the
 * index. */
struct ip_frames {
	const struct ip_recording *session;
	struct ip_frames_ops ops;
	void *context;
	struct ip_frame *frames;
	struct ip_frame_jump *jumps; /* as frames */
	size_t n, capacity;
	size_t starts[SEGMENTS_MAX]; /* first frames of the segments; starts[0] is 0 */
	size_t top;		     /* index of the topmost segment */
	uint64_t now;
	size_t suspect;	  /* frames below this index saw a loss */
	uint32_t *active; /* open frames by function */
	uint64_t group;
	struct ip_abandoned_frames abandoned;
	const uint64_t *payloads;
	uint32_t *hosts;  /* by function: what it is a part of; NULL: there are no parts */
	bool *has_parts;  /* by function */
	uint64_t held_sp; /* of a tail exit that may lead to a part: holds */
	uint32_t held_function;
	bool holds, joins; /* joins: it does, to the one whose entry comes now */
	/* that are at work for a frame, those of inner frames behind those of outer ones */
	struct ip_frames_part *parts;
	size_t nparts;
	uint64_t removal; /* when functions are removed next; UINT64_MAX: never again */
	size_t nremovals; /* that have been passed */
	/* an event behind it cannot go the common way: removal, or 0 behind a loss */
	uint64_t notice;
	uint64_t gaps; /* ticks so far during which events were lost */
	bool lossy;    /* events were lost in front of the next one */
	bool late;     /* an exit was let in front of the removal */
};

/* A part of a function in which a call of it goes on. */
struct ip_frames_part {
	size_t frame; /* the call: index, and what shows that it is still this one */
	uint64_t start;
	uint64_t sp;
	uint32_t function; /* the part */
	bool jumped;	   /* its exit is that of the call */
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
bool ip_frames_find_owner(const struct ip_frames *t, uint64_t sp, uint64_t above,
			  struct range *ret);
size_t ip_frames_first_deeper(const struct ip_frames *t, struct range r, uint64_t sp);
int ip_frames_enter(struct ip_frames *t, uint32_t function, uint64_t sp, uint32_t room,
		    uint32_t flags);
/* jump: the number whose tail exit it is, where the call goes on elsewhere; 0: it ends */
int ip_frames_resume(struct ip_frames *t, const struct ip_abandoned_frames_entry *ended, bool tail,
		     uint32_t jump);

/* frames_exit.c */

/* jump: as above */
int ip_frames_exit(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail, bool inlined,
		   uint32_t jump, bool silent);
void ip_frames_pass_point(struct ip_frames *t, uint64_t sp);

/* frames_part.c */

int ip_frames_find_hosts(struct ip_frames *t);
/* An event of a part: 1: it belongs to an open call of the function; 2: it ends that, the
 * innermost one now; 0: it is to be taken as any other; -1: with an error. */
int ip_frames_take_part(struct ip_frames *t, const struct ip_event *e, uint32_t function);
/* A tail exit of a function that has parts. true: it waits for the next event. */
bool ip_frames_hold_jump(struct ip_frames *t, const struct ip_event *e, uint32_t function);
/* The next event has come, before anything is made of it (NULL: there is none). 0, or -1 with an
 * error. */
int ip_frames_settle_jump(struct ip_frames *t, const struct ip_event *next);

/* frames_removed.c */

uint64_t ip_frames_next_removal(const struct ip_frames *t);
void ip_frames_pass_removals(struct ip_frames *t, uint64_t ts);
bool ip_frames_is_late_exit(struct ip_frames *t, const struct ip_event *e,
			    struct ip_recording_number number);

/* frames_jump.c */

/* The topmost frame has jumped. */
void ip_frames_note_jump(struct ip_frames *t, uint32_t number);
/* The frame whose call goes on in the function, at the stack pointer of its exit. */
bool ip_frames_find_chain(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail,
			  size_t *ret);
/* Ends the topmost frame, and those that have jumped to it. */
void ip_frames_end_chain(struct ip_frames *t, bool tail);
/* The same where it has jumped to where no events come from: they ended then. */
void ip_frames_end_awaiting(struct ip_frames *t);
/* An entry that may be where a frame has jumped to. 1: it is; 0; -1: an error. */
int ip_frames_join(struct ip_frames *t, uint32_t function, uint64_t sp, bool silent);
/* An event of a function that is not shown. 0 or -1. */
int ip_frames_feed_silent(struct ip_frames *t, const struct ip_event *e,
			  struct ip_recording_number number);

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
	/* a return that was found in the place of a call of the exit's hook: placement
	 * instrument */
	if (tail)
		tail = !t->session->functions[t->frames[t->n - 1].function].returns;
	if (unlikely(t->frames[t->n - 1].flags & (IP_FRAME_JUMPED | IP_FRAME_JOINED))) {
		ip_frames_end_chain(t, tail);
		return;
	}
	if (tail)
		t->frames[t->n - 1].flags |= IP_FRAME_TAIL;
	ip_frames_end_top_as(t, IP_END_EXIT);
}

static inline int ip_frames_push(struct ip_frames *t, uint32_t function, uint64_t sp,
				 uint32_t flags)
{
	struct ip_frame *frame;

	if (unlikely(t->n == t->capacity) && ip_frames_reserve(t) < 0)
		return -1;
	frame = &t->frames[t->n++];
	*frame = (struct ip_frame){sp,	     t->now,
				   0,	     t->gaps,
				   function, flags | (t->active[function]++ ? IP_FRAME_INNER : 0),
				   0,	     0};
	if (t->ops.opened)
		t->ops.opened(t->context, frame, t->n - 1);
	return 0;
}

#endif
