/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call stack of one thread, made from its events. The stack machine uses the stack pointer
 * of each event to close frames where they ended, whatever ended them: exit, tail exit, longjmp,
 * exceptions, switched stacks, lost events.
 *
 * How frames end, and what the visitor sees:
 *   exit        The frame's exit event came: closed() with IP_END_EXIT.
 *   unwound     An event showed that the frame is gone or has been left: left() at once. When it
 *               is certain that the frame does not come back: closed() with IP_END_UNWOUND. The
 *               frame's end is the time of the event that showed it.
 *   resumed     The frame was left but comes back (a coroutine): resumed(). Then it is closed
 *               like any other frame. A frame that has jumped to another function ends when that
 *               function ends. Where it is not known to which function it jumped, it ends at the
 *               jump (IP_FRAME_TAIL).
 *   unknown     The function has no exit probes, or was jumped to again: closed() with
 *               IP_END_UNKNOWN right after opened().
 *   unfinished  The frame is still open at the end, or when its function is removed from the
 *               recording (changes.h): closed() with IP_END_UNFINISHED. In the second case the
 *               frames above it get left() before and resumed() after, at the same time: they
 *               remain open and have one frame less below them.
 *
 * Each opened frame is closed exactly once.
 */
#ifndef IP_FRAMES_H
#define IP_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/session.h"
#include "analysis/read/stream.h"

enum ip_frame_end {
	IP_END_EXIT,
	IP_END_UNWOUND,
	IP_END_UNFINISHED,
	IP_END_UNKNOWN,
};

/* A recursion: another frame of the function was open in the thread at its entry. */
#define IP_FRAME_INNER 0x1
/* Events were lost while the frame was open: it may be several calls taken for one. */
#define IP_FRAME_SUSPECT 0x2
/* The frame's function has no exit probes. */
#define IP_FRAME_ENTRY_ONLY 0x4
/* The call ended by jumping to another function, and how long that function ran is not known:
 * the frame ends at the jump. */
#define IP_FRAME_TAIL 0x8
/* JUMPED: the call ended by jumping to another function, and the frame ends when that function
 * ends. Where that function is shown, its frame lies above this one and is JOINED. */
#define IP_FRAME_JUMPED 0x10
#define IP_FRAME_JOINED 0x20
/* The function was jumped to in a call whose chain has the function already. It gets no frame of
 * its own: it is opened and at once closed() with IP_END_UNKNOWN. */
#define IP_FRAME_AGAIN 0x40
/* The call began before the recording did: start is the time of the attach. */
#define IP_FRAME_EARLIER 0x100
/* Private: the frame has jumped, and no event of the function that it jumped to has come yet. */
#define IP_FRAME_AWAITS 0x80

struct ip_frame {
	uint64_t sp;
	uint64_t start; /* TSC of the entry */
	uint64_t self;	/* ticks during which it was the innermost frame */
	/* Ticks between start and end for which it is not known whether the frame was open:
	 * events were lost. Valid in closed() only. */
	uint64_t lost;
	uint32_t function; /* index into session->functions */
	uint32_t flags;	   /* IP_FRAME_... */
	/* The visitor's own. opened() may set it; the later calls about the frame see it. 0 at
	 * first. */
	uint32_t tag;
	/* Private. JUMPED: the function that the call goes on in. AWAITS: the number that
	 * jumped. */
	uint32_t other;
};

/* depth is the number of frames of the thread below the frame. Any of the functions may be NULL.
 * The frame is valid during the call only. In opened() and resumed() the frames below it lie
 * before it in memory: frame[-1] is its caller's frame where depth is not 0. */
struct ip_frames_ops {
	void (*opened)(void *context, struct ip_frame *frame, size_t depth);
	void (*left)(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts);
	void (*resumed)(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts);
	void (*closed)(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		       enum ip_frame_end how);
	/* An exit whose call began before the recording did and is in no stack of the attach, or
	 * whose entry was lost. */
	void (*orphan)(void *context, uint32_t function, size_t depth, uint64_t ts);
	void (*point)(void *context, uint32_t function, size_t depth, uint64_t ts);
	/* Called with the values of the event that is being fed, where it has some
	 * (common/trace/trace_format.h), and with NULL when the event has been handled. Between the
	 * two the event's own opened(), closed() with IP_END_EXIT, orphan() or point() is
	 * called. */
	void (*values)(void *context, const uint64_t *payload);
};

/* Returns how long a frame that ends at end was open, without the time that events were lost in. */
static inline uint64_t ip_frame_ticks(const struct ip_frame *frame, uint64_t end)
{
	uint64_t ticks = end - frame->start;

	return ticks > frame->lost ? ticks - frame->lost : 0;
}

/* Returns whether the values that closed() finds (values()) are the result of the frame. An event
 * that shows that a function had jumped away ends its frame, too, but its values are those of
 * another function. */
static inline bool ip_frame_has_result(const struct ip_frame *frame, enum ip_frame_end how)
{
	return how == IP_END_EXIT && !(frame->flags & IP_FRAME_TAIL);
}

/* Functions of the kernel (analysis/read/kernel_calls.h) get frames as all others do, above that of
 * the user's function that was innermost. When the thread has its next event, all of them have
 * ended: it is in user mode then. Of a call whose end is unknown the frame is ENTRY_ONLY. */
struct ip_frames;

/* session and ops are borrowed. Returns NULL with an error where memory ran out. */
struct ip_frames *ip_frames_create(const struct ip_recording *session,
				   const struct ip_frames_ops *ops, void *context);
void ip_frames_destroy(struct ip_frames *frames); /* closes no frame */
/* Returns how many bytes a machine of the recording takes, about, without what grows with the depth
 * of the stack. */
size_t ip_frames_size(const struct ip_recording *session);

/* Feeds n events of the thread, in their order. Returns 0, or -1 with an error where memory ran
 * out. */
int ip_frames_feed(struct ip_frames *frames, const struct ip_event *events, size_t n);

/* Tells to which member of the recording (analysis/read/members.h) the next threads belong; at
 * first it is 0. To be called between threads only. */
void ip_frames_set_member(struct ip_frames *frames, uint32_t member);

/* Sets where the values of the events that are fed from now on lie (ip_stream_payloads());
 * borrowed. */
void ip_frames_set_payloads(struct ip_frames *frames, const uint64_t *payloads);

/* Tells which thread's calls of the kernel's functions are to be shown between the events that
 * follow: from since (TSC) on. To be called before the first event of the thread, or after
 * ip_frames_restore(). */
void ip_frames_set_kernel(struct ip_frames *frames, uint32_t pid, uint32_t tid, uint64_t since);
/* Returns when the next call of the kernel's functions begins or ends; UINT64_MAX: none does. */
uint64_t ip_frames_kernel_next(const struct ip_frames *frames);
/* Shows what of them begins and ends before until. event: the time of the thread's next event;
 * UINT64_MAX: there is none. ip_frames_feed() does so by itself; a caller that merges threads by
 * time does it before. Returns 0, or -1 with an error where memory ran out. */
int ip_frames_feed_kernel(struct ip_frames *frames, uint64_t until, uint64_t event);

/* Tells that events of the thread were lost at this point. */
void ip_frames_loss(struct ip_frames *frames);

/* Tells that the thread has ended: closes all open frames and resets the machine for the next
 * thread. end is the TSC time up to which open frames ran; it is taken as no earlier than the
 * thread's last event. */
void ip_frames_finish(struct ip_frames *frames, uint64_t end);

/* Sets *ret to the open frames, the outermost first. They are valid until the next event is fed.
 * Returns their number. */
size_t ip_frames_open(const struct ip_frames *frames, const struct ip_frame **ret);
/* How many of them, from the outermost one on, will be SUSPECT when they are closed. */
size_t ip_frames_suspect(const struct ip_frames *frames);

/* What a machine knows between two packets of a thread: from there another machine of the same
 * recording can go on. */
struct ip_frames_state;

/* ip_frames_save() returns the state; NULL with an error where memory ran out. ip_frames_restore()
 * gives it to a machine that has no open frames; the visitor is told nothing. It returns 0, or -1
 * with an error where memory ran out. ip_frames_state_size() returns the bytes that a state
 * takes. */
struct ip_frames_state *ip_frames_save(const struct ip_frames *frames);
int ip_frames_restore(struct ip_frames *frames, const struct ip_frames_state *state);
size_t ip_frames_state_size(const struct ip_frames_state *state);
void ip_frames_state_destroy(struct ip_frames_state *state);

/* Returns the TSC of the last event; 0: there was none since the creation or ip_frames_finish(). */
uint64_t ip_frames_now(const struct ip_frames *frames);

#endif
