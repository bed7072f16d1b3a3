/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of the stack machine share. frames.c states its rules.
 */
#ifndef IP_FRAMES_PRIVATE_H
#define IP_FRAMES_PRIVATE_H

#include "analysis/callstack/abandoned_frames.h"
#include "analysis/callstack/frames.h"
#include "analysis/read/kernel_calls.h"

#define BELOW	   (1ull << 20)
#define ABOVE	   (8ull << 10)
#define ABOVE_EXIT (1ull << 20)

/* Bounds for traces that were made to harm the reader. */
#define DEPTH_MAX    (1u << 22)
#define SEGMENTS_MAX 256u
#define SEARCH_MAX   1024u

/* The largest frame of a function that ends in a tail exit and whose frame was left before it. */
#define TAIL_FRAME_MAX 2048u

#define NOT_FOUND SIZE_MAX

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* What is known about a frame that has jumped. */
struct ip_frame_jump {
	uint64_t time,
		/* time: of the jump. self: the frame's self time at the jump. While a member of
		 * the chain runs again, self is the frame's self time when that began. */
		self;
	size_t member;	 /* index of the member that runs */
	uint32_t length; /* frames of the chain up to this one, where it is JOINED */
};

/* What the common path knows of a number (frames_words.h). */
struct ip_frames_number {
	uint32_t function; /* IP_FRAMES_NO_NUMBER: its events are not common */
	/* BELOW less the room of a new frame (struct ip_recording_number); 0: entries of it are not
	 * common */
	uint32_t reach : 30;
	/* its tail exits may be common, and are returns */
	uint32_t tail_common : 1, tail_returns : 1;
};

#define IP_FRAMES_NO_NUMBER UINT32_MAX
/* the function of a frame that no exit on the common path ends */
#define IP_FRAMES_NO_FUNCTION (UINT32_MAX - 1)

/* The frames of all open stacks, one stack (segment) above the other. Only the first segment may
 * be empty, and only where it is the only one. Within a segment sp never grows with the index. */
struct ip_frames {
	const struct ip_recording *session;
	const struct ip_changes *changes; /* of the functions of the thread's process */
	struct ip_frames_ops ops;
	void *context;
	/* before the first one there is a frame without a function, for the common path */
	struct ip_frame *frames;
	struct ip_frame_jump *jumps; /* by index of frames */
	size_t n, capacity;
	size_t starts[SEGMENTS_MAX]; /* index of the first frame of each segment; starts[0] is 0 */
	size_t top;		     /* index of the topmost segment */
	uint64_t now;
	size_t suspect;	  /* events were lost while the frames below this index were open */
	uint32_t *active; /* by function: number of its open frames */
	uint64_t group;
	struct ip_abandoned_frames abandoned;
	const uint64_t *payloads;
	struct ip_frames_number *numbers;    /* by number in words; NULL: none was taken yet */
	uint32_t numbers_base, numbers_most; /* of struct ip_stream_renumber */
	uint32_t *hosts; /* by function: the function it is a part of; NULL: there are no parts */
	bool *has_parts; /* by function: whether it has parts */
	/* holds: a tail exit of held_function at held_sp waits, since it may lead to a part */
	uint64_t held_sp;
	uint32_t held_function;
	bool holds, joins; /* joins: it leads to the part whose entry comes now */
	/* the parts in which open calls go on, those of outer frames before those of inner ones */
	struct ip_frames_part *parts;
	size_t nparts;
	uint64_t removal; /* when functions are removed next; UINT64_MAX: never again */
	size_t nremovals; /* removals that have been passed */
	/* An event with a later time cannot take the common path. It is removal or kernel_next, or
	 * 0 after a loss. */
	uint64_t notice;
	/* frames_kernel.c. The calls of the kernel's functions by the thread, in the order of their
	 * beginnings; NULL: there are none. next: when the next one begins or ends; UINT64_MAX:
	 * none does any more. */
	const struct ip_kernel_thread *kernel;
	size_t kernel_at, kernel_open;
	uint64_t kernel_ends[IP_KERNEL_DEPTH], kernel_next;
	uint64_t gaps;	  /* ticks so far in which events were lost */
	uint32_t earlier; /* IP_FRAME_EARLIER while frames of an attach are opened, else 0 */
	bool lossy;	  /* events were lost before the next one */
	bool late;	  /* an exit was handled before the removal, though it came after */
};

/* A part of a function in which a call of it goes on. */
struct ip_frames_part {
	size_t frame; /* index of the call's frame; start shows that it is still the same frame */
	uint64_t start;
	uint64_t sp;
	uint32_t function; /* the part */
	bool jumped;	   /* the part was jumped to: its exit is the exit of the call */
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
/* jump: the number of the tail exit where the call goes on in another function; 0: the call ends */
int ip_frames_resume(struct ip_frames *t, const struct ip_abandoned_frames_entry *ended, bool tail,
		     uint32_t jump);

/* Frees the array of frames. */
void ip_frames_free_frames(struct ip_frames *t);

/* frames_exit.c */

/* jump: as for ip_frames_resume() */
int ip_frames_exit(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail, bool inlined,
		   uint32_t jump, bool silent);
void ip_frames_pass_point(struct ip_frames *t, uint64_t sp);

/* frames_part.c */

int ip_frames_find_hosts(struct ip_frames *t);
/* Handles an event of a part. Returns 1: the event belongs to an open call of the function. 2:
 * it ends that call, whose frame is the topmost now. 0: it is to be handled as any other event.
 * -1: an error. */
int ip_frames_take_part(struct ip_frames *t, const struct ip_event *e, uint32_t function);
/* Handles a tail exit of a function that has parts. Returns true where it waits for the next
 * event. */
bool ip_frames_hold_jump(struct ip_frames *t, const struct ip_event *e, uint32_t function);
/* Settles the tail exit that waits. Must be called when the next event has come, before that
 * event is handled (NULL: there is none). Returns 0, or -1 with an error. */
int ip_frames_settle_jump(struct ip_frames *t, const struct ip_event *next);

/* frames_removed.c */

uint64_t ip_frames_next_removal(const struct ip_frames *t);
void ip_frames_pass_removals(struct ip_frames *t, uint64_t ts);
bool ip_frames_is_late_exit(struct ip_frames *t, const struct ip_event *e,
			    struct ip_recording_number number);

/* frames_kernel.c */

/* Shows what begins and ends before until. event: when the thread's next event is; none of the
 * kernel's functions is open then. Returns 0, or -1 with an error where memory ran out. */
int ip_frames_pass_kernel(struct ip_frames *t, uint64_t until, uint64_t event);

static inline void ip_frames_set_notice(struct ip_frames *t)
{
	t->notice = t->removal < t->kernel_next ? t->removal : t->kernel_next;
	if (t->lossy)
		t->notice = 0;
}

/* frames_jump.c */

/* Notes that the topmost frame has jumped. */
void ip_frames_note_jump(struct ip_frames *t, uint32_t number);
/* Finds the frame whose call goes on in the function, from the stack pointer of the function's
 * exit. */
bool ip_frames_find_chain(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail,
			  size_t *ret);
/* Ends the topmost frame and the frames that have jumped to it. */
void ip_frames_end_chain(struct ip_frames *t, bool tail);
/* Ends the topmost frame and those that have jumped to it, where it has jumped to a function
 * without events: they ended at the time of the jump. */
void ip_frames_end_awaiting(struct ip_frames *t);
/* Handles an entry that may be the function that a frame has jumped to. Returns 1 where it is, 0
 * where it is not, -1 with an error. */
int ip_frames_join(struct ip_frames *t, uint32_t function, uint64_t sp, bool silent);
/* Handles an event of a function that is not shown. Returns 0, or -1 with an error. */
int ip_frames_feed_silent(struct ip_frames *t, const struct ip_event *e,
			  struct ip_recording_number number);

/* The common path. */

/* Takes the topmost frame off. The caller closes it or keeps it. */
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
	/* The exit is a return where ColdPatch found a return in the place of the call of the
	 * exit hook (placement instrument). */
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
	*frame = (struct ip_frame){
		sp,	  t->now,
		0,	  t->gaps,
		function, flags | t->earlier | (t->active[function]++ ? IP_FRAME_INNER : 0),
		0,	  0};
	if (t->ops.opened)
		t->ops.opened(t->context, frame, t->n - 1);
	return 0;
}

#endif
