/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call stack of one thread, from its events. Told by the stack pointer of each event, it closes
 * frames where they ended, whatever ended them: exit, tail exit, longjmp, exceptions, switched
 * stacks, lost events.
 *
 * How frames end, and what a user of this sees:
 *   exit        its exit event came. closed() with IP_END_EXIT.
 *   unwound     an event showed that the frame is gone or has been left: left() at once; closed()
 *               with IP_END_UNWOUND later, when it is certain that it does not come back. The
 *               frame's end is the time of the event that showed it.
 *   resumed     it was left, but comes back: a coroutine. resumed(); then closed() like any other.
 *               A frame that has jumped to another function ends when that one does; one that has
 *               jumped nobody knows where ends there (IP_FRAME_TAIL).
 *   unknown     the function has no exit probes, or was jumped to again: closed() with
 *               IP_END_UNKNOWN right behind opened().
 *   unfinished  still open at the end, or when its function was removed from the recording
 *               (changes.h). closed() with IP_END_UNFINISHED. In the second case the frames on top
 *               of it are left() before and resumed() behind, at the same time: they stay open and
 *               have one less below them.
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
/* Events were lost while it was open: it may be several calls taken for one. */
#define IP_FRAME_SUSPECT 0x2
/* Its function has no exit probes. */
#define IP_FRAME_ENTRY_ONLY 0x4
/* It ended by jumping to another function, and how long that one ran is not known: the frame ends
 * at the jump. */
#define IP_FRAME_TAIL 0x8
/* It ended by jumping to another function, whose end is its own. Where that one is shown its frame
 * stands on top, JOINED. */
#define IP_FRAME_JUMPED 0x10
#define IP_FRAME_JOINED 0x20
/* The function was jumped to in a call that it is part of already: no frame of its own, closed()
 * with IP_END_UNKNOWN. */
#define IP_FRAME_AGAIN 0x40
/* private: it has jumped, and no event has come from there */
#define IP_FRAME_AWAITS 0x80

struct ip_frame {
	uint64_t sp;
	uint64_t start; /* TSC of the entry */
	uint64_t self;	/* ticks during which it was the innermost frame */
	/* ticks between start and end of which nobody knows whether it was open: events were lost.
	 * In closed() only */
	uint64_t lost;
	uint32_t function; /* index into session->functions */
	uint32_t flags;	   /* IP_FRAME_... */
	/* the visitor's own: opened() may set it, what comes later about the frame has it; 0 at
	 * first */
	uint32_t tag;
	/* private. JUMPED: the function that the call goes on in; with AWAITS: the number that
	 * jumped */
	uint32_t other;
};

/* depth: frames of the thread below it. Any of them may be NULL. The frame is valid during the
 * call only. In opened() and resumed() the frames below it lie in front of it: frame[-1] is its
 * caller's where depth is not 0. */
struct ip_frames_ops {
	void (*opened)(void *context, struct ip_frame *frame, size_t depth);
	void (*left)(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts);
	void (*resumed)(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts);
	void (*closed)(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		       enum ip_frame_end how);
	/* An exit whose call began before the recording did, or whose entry was lost. */
	void (*orphan)(void *context, uint32_t function, size_t depth, uint64_t ts);
	void (*point)(void *context, uint32_t function, size_t depth, uint64_t ts);
	/* Values came with the event that is being fed (common/trace_format.h); then, when it
	 * has been dealt with, NULL. In between its own opened(), closed() with IP_END_EXIT,
	 * orphan() or point() is called. */
	void (*values)(void *context, const uint64_t *payload);
};

/* How long a frame that ends at end was open, as far as that is known. */
static inline uint64_t ip_frame_ticks(const struct ip_frame *frame, uint64_t end)
{
	uint64_t ticks = end - frame->start;

	return ticks > frame->lost ? ticks - frame->lost : 0;
}

struct ip_frames;

/* session and ops are borrowed. NULL, with an error, where memory ran out. */
struct ip_frames *ip_frames_create(const struct ip_recording *session,
				   const struct ip_frames_ops *ops, void *context);
void ip_frames_destroy(struct ip_frames *frames); /* closes nothing */

/* n events of the thread, in their order. 0, or -1 with an error where memory ran out. */
int ip_frames_feed(struct ip_frames *frames, const struct ip_event *events, size_t n);

/* Where the values of events that are fed from now on lie (ip_stream_payloads()); borrowed. */
void ip_frames_set_payloads(struct ip_frames *frames, const uint64_t *payloads);

/* Events of the thread were lost at this point. */
void ip_frames_loss(struct ip_frames *frames);

/* The thread has ended: closes all that is open, and leaves the machine as new, for the next
 * thread. end: TSC up to which open frames ran; never before the thread's last event. */
void ip_frames_finish(struct ip_frames *frames, uint64_t end);

/* TSC of the last event; 0: there was none since the creation or ip_frames_finish(). */
uint64_t ip_frames_now(const struct ip_frames *frames);

#endif
