/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack machine. S is the stack pointer of an event, T.S the stack pointer of an open
 * frame's entry. Stacks grow down.
 *
 * Within one stack
 *
 *   1. Entry of an out-of-line instance at S: its frame is new memory below its caller's frame,
 *      from S up to S + room. Hence each open T with T.S < S + room is gone. room is the size of
 *      the frame at the entry site where the session file tells it, else 8, the least that the
 *      return address takes. (Where room is less than the true size, the entry of a larger frame
 *      does not notice that longjmp has left a frame. An event after the entry closes that
 *      frame.)
 *
 *   2. Entry of an inlined instance: it shares the frame of another function, room is 0.
 *
 *   3. Exit of f at S. Frames with T.S < S cannot be open after it. Which frame of f ends?
 *
 *      Exit site inside the frame (S == T.S; lower after alloca):
 *        a. the f with T.S == S;
 *        b. else f with T.S > S by no more than ABOVE, if it is the innermost open frame: it
 *           used alloca;
 *        c. else a frame that was left at exactly S (see below);
 *        d. else the nearest f with T.S > S: it used alloca after frames above it had been
 *           unwound;
 *        e. else, for an inlined instance, the f with T.S < S by no more than ABOVE, if it is
 *           the innermost open frame: the function that it was inlined into has taken its frame
 *           down since then.
 *
 *      Tail exit (the frame has been taken down, S lies above it):
 *        the shallowest f with T.S < S, else the f with T.S == S.
 *
 *      All frames above the one found were unwound. If none is found, the call began before the
 *      recording did.
 *
 *   Between two frames of one stack every S belongs to that stack. So where longjmp and
 *   exceptions go to a known frame, the frames above it are closed exactly, over any distance.
 *
 *   4. A point at S: frames with T.S < S are gone.
 *
 *      The stack pointer suffices, even where no code runs while a function is unwound
 *      (placement fentry). A frame is open as long as the memory below its caller's stack
 *      pointer is its own. Unwinding and longjmp give that memory back and go on in a frame
 *      further up. The exit of that frame has an S above all frames that are gone (rule 3). So
 *      has its next call (rule 1): compilers move the stack pointer once for a whole function,
 *      so the new frame begins where the first of the gone frames began. In placement fentry S
 *      is that of the first instruction, room is exactly 8, and the exit has the same S (the
 *      tail exit 8 more), whatever the function does with its stack in between: all comparisons
 *      are between true values.
 *
 *      Two things cannot be seen. One is the moment at which a frame went: it ends with the
 *      event that shows it. The other is a call that the landing frame makes through functions
 *      without probes (a library's sort), or after an alloca: it is deeper than what is gone,
 *      and the machine takes it for a call of the gone frame until the first event that is not
 *      deeper.
 *
 *   4. Entry of a function that has no exit probes: rules 1 and 2 hold for the frames below it,
 *      but the function is not left open. How long it lasts is not known, and an event that
 *      shows it gone may come any time later. Until then it would stand as the caller of the
 *      functions that its caller calls. A frame that has jumped and waits (rule 5) at exactly S
 *      stays: the function, a PLT entry, was on its way.
 *
 * A part of a function (.part of gcc) that goes on with a call of the function has no frame:
 * frames_part.c.
 *
 *   5. Calls that go on in another function. A function that leaves by a jump (tail exit) has
 *      not returned: its call lasts until the function that it has jumped to returns. Where that
 *      function is recorded, the tail exit has a number of its own (session.h, jumps), which
 *      tells where the jump may lead, and the frame remains open. The next event at its level
 *      must be the entry of such a function, at exactly S: the jump leaves the return address in
 *      place. The new frame lies above the frame that jumped, and may jump on: a chain of frames
 *      with one S. They end together, by the exit of the last one, or by a tail exit of the last
 *      one that leads to an unknown function (they are marked then).
 *      If another event shows that the frame is gone before such an entry came, the frame ended
 *      at its jump, and is marked.
 *      A function that was not selected (silent) has no frame. Its events tell that the call
 *      goes on in it, and where it ends.
 *      A function may be jumped to in a chain that it is a member of (mutual recursion by jumps:
 *      a loop). It gets no second frame: the call is counted, its time is part of the open
 *      frame, and the chain has each function once, however long it runs.
 *
 * Several stacks (signal handlers on an alternate stack, coroutines)
 *
 *   Nothing tells where stacks begin and end, so the machine decides by distance. An event
 *   belongs to the nearest stack under one of two conditions. It lies less than BELOW under the
 *   stack's innermost frame: only a function with that much of local variables could cross this
 *   distance. Or it lies less than ABOVE over the stack's outermost frame: calls from functions
 *   that are not recorded come from there. (For an exit the second limit is ABOVE_EXIT, since
 *   exits of calls from before the recording come from anywhere above.) ABOVE is small. Between
 *   a thread's outermost frame and the frame of a handler on an alternate stack that was
 *   allocated just above lie the thread's data and start frame, 4 KiB with glibc, and most of
 *   the smallest alternate stack, 8 KiB.
 *
 *   An entry that belongs to no stack opens a new stack on top. The frames below remain open, as
 *   under a signal handler. An event that belongs to a stack further down shows that the stacks
 *   on top of it have been left.
 *
 * Frames that were left may come back
 *
 *   Frames that rules 1 to 3 or a change of stacks end without an exit become abandoned frames
 *   (abandoned_frames.h). An exit event with the function and stack pointer of one of them
 *   brings that frame back, with the frames below it. So each call is still counted once and
 *   with its right time where the guess about stacks was wrong, or where coroutines pass control
 *   to and fro. A frame is given up for good when another frame of its function has been left at
 *   the same address, when the thread ends, or when the table of abandoned frames is full.
 *
 * Functions that were removed from the recording
 *
 *   None of their sites was live any more when the removal was noted. The frames of these
 *   functions that are open then end there. A hook that was running at the removal may record
 *   its event later. An exit that is the thread's next event counts as before the removal. An
 *   entry after the removal opens a frame that ends at once.
 *
 * Lost events
 *
 *   Frames that were open may be gone, and others may be in their place. Such a frame is marked,
 *   since it may be several calls taken for one. While any marked frame is open, exits must
 *   match exactly: 3b and 3d would choose wrong frames. The time between the two events around
 *   the loss is counted for no frame.
 */
#include "analysis/callstack/frames.h"

#include <stdlib.h>

#include "analysis/callstack/frames_private.h"
#include "analysis/read/members.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

static void begin_thread(struct ip_frames *t)
{
	t->now = 0;
	t->nremovals = 0;
	t->removal = ip_frames_next_removal(t);
	t->lossy = false;
	t->late = false;
	t->kernel = NULL;
	t->kernel_open = 0;
	t->kernel_next = UINT64_MAX;
	ip_frames_set_notice(t);
}

struct ip_frames *ip_frames_create(const struct ip_recording *session,
				   const struct ip_frames_ops *ops, void *context)
{
	struct ip_frames *t = calloc(1, sizeof(*t));

	if (t) {
		t->session = session;
		t->changes = ip_recording_changes(session, 0);
	}
	if (t && ip_frames_find_hosts(t) == 0)
		t->active = calloc(session->nfunctions, sizeof(*t->active));
	if (!t || !t->active) {
		ip_frames_destroy(t);
		ip_error("out of memory");
		return NULL;
	}
	t->ops = *ops;
	t->context = context;
	begin_thread(t);
	return t;
}

size_t ip_frames_size(const struct ip_recording *session)
{
	const struct ip_frames *t;
	size_t by_function = sizeof(*t->active) + sizeof(*t->hosts) + sizeof(*t->has_parts);

	/* of the array of numbers, those of the recording: the rest is never touched */
	return sizeof(*t) + session->nfunctions * by_function +
	       session->nnumbers * sizeof(*t->numbers);
}

void ip_frames_destroy(struct ip_frames *t)
{
	if (!t)
		return;
	ip_abandoned_frames_deinit(&t->abandoned);
	ip_frames_free_frames(t);
	free(t->numbers);
	free(t->parts);
	free(t->hosts);
	free(t->has_parts);
	free(t->jumps);
	free(t->active);
	free(t);
}

uint64_t ip_frames_now(const struct ip_frames *t)
{
	return t->now;
}

/* Returns whether a tail exit at sp ends the topmost frame and no other: the common case. */
static inline bool is_tail_of_top(const struct ip_frames *t, const struct ip_frame *top,
				  uint64_t sp)
{
	if (top->sp >= sp || sp - top->sp >= ABOVE_EXIT)
		return false;
	return t->n - 1 == t->starts[t->top] || top[-1].sp >= sp;
}

void ip_frames_set_member(struct ip_frames *t, uint32_t member)
{
	t->changes = ip_recording_changes(t->session, member);
	begin_thread(t);
}

void ip_frames_set_payloads(struct ip_frames *t, const uint64_t *payloads)
{
	t->payloads = payloads;
}

static int enter_or_join(struct ip_frames *t, uint32_t function, uint64_t sp, uint32_t room)
{
	int joined = room ? ip_frames_join(t, function, sp, false) : 0;

	if (joined)
		return joined < 0 ? -1 : 0;
	return ip_frames_enter(t, function, sp, room, 0);
}

/* The entry of a function that has no exit probes. On the way of a jump there may be one: a PLT
 * entry, behind which the call goes on in the function that was jumped to. */
static int enter_alone(struct ip_frames *t, uint32_t function, uint64_t sp, uint32_t room)
{
	const struct ip_frame *top = t->n ? &t->frames[t->n - 1] : NULL;
	const bool passes = top && top->flags & IP_FRAME_AWAITS && top->sp == sp;

	if ((passes ? ip_frames_push(t, function, sp, IP_FRAME_ENTRY_ONLY)
		    : ip_frames_enter(t, function, sp, room, IP_FRAME_ENTRY_ONLY)) < 0)
		return -1;
	ip_frames_end_top_as(t, IP_END_UNKNOWN);
	return 0;
}

/* Handles what comes before an event: calls of the kernel's functions, removals and a loss. Between
 * the last event before a loss and the first one after it, open frames may have ended and begun
 * again. So that time is counted for no frame. */
static int take_notice(struct ip_frames *t, const struct ip_event *e,
		       struct ip_recording_number number)
{
	if (ip_frames_pass_kernel(t, e->ts, e->ts) < 0)
		return -1;
	if (e->ts > t->removal && !ip_frames_is_late_exit(t, e, number))
		ip_frames_pass_removals(t, e->ts);
	if (t->lossy) {
		t->lossy = false;
		if (t->n && e->ts > t->now) {
			t->gaps += e->ts - t->now;
			t->now = e->ts;
		}
	}
	ip_frames_set_notice(t);
	return 0;
}

int ip_frames_feed(struct ip_frames *t, const struct ip_event *events, size_t n)
{
	const struct ip_recording *session = t->session;
	int ret = 0;

	for (size_t i = 0; i < n && ret == 0; i++) {
		const struct ip_event *e = &events[i];
		struct ip_recording_number number = ip_recording_number(session, e->number);
		uint32_t function = number.function;
		struct ip_frame *top;

		if (unlikely(t->holds))
			ret = ip_frames_settle_jump(t, e);
		if (unlikely(e->ts > t->notice) && take_notice(t, e, number) < 0)
			return -1;
		top = t->n ? &t->frames[t->n - 1] : NULL;
		/* time does not go back within a thread */
		if (likely(e->ts > t->now)) {
			if (likely(top))
				top->self += e->ts - t->now;
			t->now = e->ts;
		}
		if (unlikely(t->hosts && t->hosts[function] && !number.silent)) {
			int taken = ip_frames_take_part(t, e, function);

			if (taken < 0)
				ret = -1;
			if (taken == 1 || ret < 0)
				continue;
			if (taken == 2) {
				function = t->hosts[function];
				top = &t->frames[t->n - 1];
			}
		}
		if (unlikely(e->payload) && t->ops.values)
			t->ops.values(t->context, ip_event_payload(e, t->payloads));
		if (unlikely(number.silent)) {
			ret = ip_frames_feed_silent(t, e, number);
		} else if (unlikely(e->kind == IP_PROBE_ENTRY && number.entry_only)) {
			ret = enter_alone(t, function, e->sp, number.room);
		} else if (e->kind == IP_PROBE_ENTRY && unlikely(number.changes) &&
			   ip_changes_is_off(t->changes, function, e->ts)) {
			ret = ip_frames_enter(t, function, e->sp, number.room, 0);
			if (ret == 0)
				ip_frames_end_top_as(t, IP_END_UNFINISHED);
		} else if (e->kind == IP_PROBE_ENTRY) {
			/* the common case of rules 1 and 2: a call from the innermost frame */
			if (likely(top && top->sp >= e->sp && top->sp - e->sp >= number.room &&
				   top->sp - e->sp < BELOW))
				ret = ip_frames_push(t, function, e->sp, 0);
			else
				ret = enter_or_join(t, function, e->sp, number.room);
		} else if (e->kind == IP_PROBE_EXIT) {
			/* the common case of 3a */
			if (likely(top && top->function == function && top->sp == e->sp))
				ip_frames_end_top(t, false);
			else
				ret = ip_frames_exit(t, function, e->sp, false, !number.room, 0,
						     false);
		} else if (e->kind == IP_PROBE_TAIL_EXIT) {
			if (unlikely(number.jumps))
				ret = ip_frames_exit(t, function, e->sp, true, false, e->number,
						     false);
			else if (unlikely(t->hosts && t->has_parts[function] && !e->payload) &&
				 ip_frames_hold_jump(t, e, function))
				continue;
			else if (likely(top && top->function == function &&
					is_tail_of_top(t, top, e->sp)))
				ip_frames_end_top(t, true);
			else
				ret = ip_frames_exit(t, function, e->sp, true, false, 0, false);
		} else if (e->kind == IP_PROBE_POINT) {
			if (unlikely(top && top->sp < e->sp))
				ip_frames_pass_point(t, e->sp);
			if (t->ops.point)
				t->ops.point(t->context, function, t->n, t->now);
		}
		if (unlikely(e->payload) && t->ops.values)
			t->ops.values(t->context, NULL);
	}
	return ret;
}

size_t ip_frames_suspect(const struct ip_frames *t)
{
	return t->suspect < t->n ? t->suspect : t->n;
}

void ip_frames_loss(struct ip_frames *t)
{
	if (t->holds)
		ip_frames_settle_jump(t, NULL);
	/* Frames that were left before the loss may have come back and ended during it. */
	ip_frames_give_up_all(t);
	t->nparts = 0;
	t->suspect = t->n;
	t->lossy = true;
	t->notice = 0;
}

void ip_frames_finish(struct ip_frames *t, uint64_t end)
{
	if (end < t->now)
		end = t->now;
	if (t->holds)
		ip_frames_settle_jump(t, NULL);
	ip_frames_pass_kernel(t, end, UINT64_MAX);
	ip_frames_pass_removals(t, end);
	if (end < t->now)
		end = t->now;
	if (t->n)
		t->frames[t->n - 1].self += end - t->now;
	while (t->n) {
		struct ip_frame frame = ip_frames_take_off(t);

		if (t->ops.closed)
			t->ops.closed(t->context, &frame, t->n, end, IP_END_UNFINISHED);
	}
	ip_frames_give_up_all(t);
	t->nparts = 0;
	begin_thread(t);
}
