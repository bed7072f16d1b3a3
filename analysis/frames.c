/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack machine. S is the stack pointer of an event, T.S that of an open frame's entry; stacks grow down.
 *
 * Within one stack
 *
 *   1. Entry of an out-of-line instance at S: its frame is new memory below its caller's, from S up to
 *      S + room. Hence each open T with T.S < S + room is gone. room is the size of the frame at the entry
 *      site, as far as the session file tells, else 8, the least that the return address leaves in between.
 *      (With less than the true size, a frame that longjmp left goes unnoticed by the entry of a larger
 *      one, and is closed by an event after it.)
 *
 *   2. Entry of an inlined instance: it shares the frame of another function, room is 0.
 *
 *   3. Exit of f at S. Frames with T.S < S cannot be open after it. Which frame of f ends?
 *
 *      Exit site inside the frame (S == T.S; lower after alloca):
 *        a. the f with T.S == S;
 *        b. else f with T.S > S by no more than ABOVE, if it is the innermost open frame: it used alloca;
 *        c. else one that was left at exactly S (see below);
 *        d. else the nearest f with T.S > S: it used alloca after frames above it had been unwound;
 *        e. else, of an inlined instance, the f with T.S < S by no more than ABOVE, if it is the innermost open frame: its
 *           host has taken its frame down meanwhile.
 *
 *      Tail exit (the frame has been taken down, S lies above it):
 *        the shallowest f with T.S < S, else the one with T.S == S.
 *
 *      All frames above the one found were unwound. If none is found, the call began before the recording
 *      did.
 *
 *   Between two frames of one stack every S belongs to that stack, so longjmp and exceptions to a frame that
 *   is known are closed exactly, over any distance.
 *
 *   4. A point at S: frames with T.S < S are gone.
 *
 *      The stack pointer suffices, also where nothing runs while a function is unwound (placement fentry). A frame is open as long as
 *      the memory below its caller's stack pointer is its own. Unwinding and longjmp give that memory back and go on in a
 *      frame further up. Its exit has an S above all that is gone (rule 3). So has its next call (rule 1): compilers move the
 *      stack pointer once for a whole function, so the new frame begins where the first of those that are gone began. In that
 *      placement S is that of the first instruction, room is exactly 8 and the exit has the same S (the tail exit 8 more), whatever the
 *      function does with its stack in between: all comparisons are between true values.
 *      What cannot be seen: when in between the frame went, it ends with the event that shows it; and a call that the landing
 *      frame makes through functions without probes (a library's sort), or behind an alloca, is deeper than what is gone and taken for
 *      a call of it, until the first event that is not deeper.
 *
 *   4. Entry of a function that has no exit probes: rules 1 and 2 hold for the frames below, but it is not left open. How long it
 *      lasts is not known, and an event that shows it gone may come any time later: until then it would stand as the caller of
 *      what its caller calls.
 *
 * Several stacks (signal handlers on an alternate stack, coroutines)
 *
 *   Nothing tells where stacks begin and end; distance must do. An event belongs to the nearest stack, if it
 *   is less than BELOW under its innermost frame, which only one function with that much of local variables
 *   could cross, or less than ABOVE over its outermost frame, where calls from functions that are not
 *   recorded come from (an exit: less than ABOVE_EXIT, since exits of calls from before the recording come
 *   from anywhere above). ABOVE is small: a thread's data and start frame, 4 KiB with glibc, and most of the
 *   smallest alternate stack, 8 KiB, lie between a thread's outermost frame and that of a handler on an
 *   alternate stack that was allocated just above.
 *
 *   An entry that belongs to no stack opens a new one on top: the frames below stay open, as under a signal
 *   handler. An event that belongs to a stack further down shows that those on top of it have been left.
 *
 * What was left may come back
 *
 *   Frames that rules 1 to 3 or a change of stacks end without an exit go to limbo. An exit event with the
 *   function and stack pointer of one of them brings it back, with the frames below it. So where the guess
 *   about stacks was wrong, or where coroutines pass control to and fro, each call is still counted once and
 *   with its right time. A frame is given up for good when another one of its function has been left at the
 *   same address, when the thread ends, or when limbo is full.
 *
 * Functions that were removed from the recording
 *
 *   None of their sites was live any more when the removal was noted. The frames they have open by then end there. A hook that was in
 *   flight may be later with its event: an exit that is the thread's next event comes in front of the removal; an entry behind
 *   it opens a frame that ends at once.
 *
 * Lost events
 *
 *   Frames that were open may be gone, and others may stand in their place. Such a frame is marked, since it
 *   may be several calls taken for one, and while any is open exits must match exactly: 3b and 3d would
 *   pick wrong ones.
 */
#include "analysis/frames.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/limbo.h"
#include "common/error.h"
#include "common/probe_list.h"

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
	bool late;	  /* an exit was let in front of the removal */
};

static uint64_t next_removal(const struct ip_frames *t)
{
	const struct ip_changes *c = &t->session->changes;

	return t->nremovals < c->nremovals ? c->removals[t->nremovals] : UINT64_MAX;
}

static void begin_thread(struct ip_frames *t)
{
	t->now = 0;
	t->nremovals = 0;
	t->removal = next_removal(t);
	t->late = false;
}

struct ip_frames *ip_frames_create(const struct ip_recording *session, const struct ip_frames_ops *ops,
				   void *context)
{
	struct ip_frames *t = calloc(1, sizeof(*t));

	if (t)
		t->active = calloc(session->nfunctions, sizeof(*t->active));
	if (!t || !t->active) {
		ip_frames_destroy(t);
		ip_error("out of memory");
		return NULL;
	}
	t->session = session;
	t->ops = *ops;
	t->context = context;
	begin_thread(t);
	return t;
}

void ip_frames_destroy(struct ip_frames *t)
{
	if (!t)
		return;
	ip_limbo_deinit(&t->limbo);
	free(t->frames);
	free(t->active);
	free(t);
}

uint64_t ip_frames_now(const struct ip_frames *t)
{
	return t->now;
}

static void give_up(struct ip_frames *t, const struct ip_limbo_entry *e)
{
	if (t->ops.closed)
		t->ops.closed(t->context, &e->frame, t->n, e->left, IP_END_UNWOUND);
}

static void give_up_all(struct ip_frames *t)
{
	struct ip_limbo_entry e;

	while (ip_limbo_take_any(&t->limbo, &e))
		give_up(t, &e);
}

/* Takes the topmost frame off, whatever becomes of it. */
static inline struct ip_frame take_off(struct ip_frames *t)
{
	struct ip_frame frame = t->frames[--t->n];

	t->active[frame.function]--;
	if (unlikely(t->n < t->suspect)) {
		frame.flags |= IP_FRAME_SUSPECT;
		t->suspect = t->n;
	}
	if (unlikely(t->n == t->starts[t->top] && t->top))
		t->top--;
	return frame;
}

static inline void end_top_as(struct ip_frames *t, enum ip_frame_end how)
{
	struct ip_frame frame = take_off(t);

	if (likely(t->ops.closed))
		t->ops.closed(t->context, &frame, t->n, t->now, how);
}

static inline void end_top(struct ip_frames *t, bool tail)
{
	if (tail)
		t->frames[t->n - 1].flags |= IP_FRAME_TAIL;
	end_top_as(t, IP_END_EXIT);
}

/* Leaves the frames from index keep on. */
static void leave(struct ip_frames *t, size_t keep)
{
	size_t last = SIZE_MAX;

	while (t->n > keep) {
		struct ip_limbo_entry e = {.left = t->now}, old;
		bool lowest = t->n - 1 == keep || t->n - 1 == t->starts[t->top];
		int added;

		if (last != t->top) {
			last = t->top;
			t->group++;
		}
		e.group = t->group;
		e.frame = take_off(t);
		if (!lowest) {
			e.parent_sp = t->frames[t->n - 1].sp;
			e.parent_function = t->frames[t->n - 1].function;
			e.has_parent = true;
		}
		if (t->ops.left)
			t->ops.left(t->context, &e.frame, t->n, t->now);
		added = ip_limbo_add(&t->limbo, &e, &old);
		if (added < 0) {
			give_up_all(t);
			added = ip_limbo_add(&t->limbo, &e, &old);
		}
		if (added)
			give_up(t, added > 0 ? &old : &e);
	}
}

static int reserve(struct ip_frames *t)
{
	size_t capacity = t->capacity ? 2 * t->capacity : 64;
	struct ip_frame *grown;

	if (t->n < t->capacity)
		return 0;
	if (t->n >= DEPTH_MAX) {
		leave(t, 0);
		return 0;
	}
	grown = reallocarray(t->frames, capacity, sizeof(*grown));
	if (!grown)
		return ip_error("out of memory");
	t->frames = grown;
	t->capacity = capacity;
	return 0;
}

static int push(struct ip_frames *t, uint32_t function, uint64_t sp, uint32_t flags)
{
	struct ip_frame *frame;

	if (unlikely(t->n == t->capacity) && reserve(t) < 0)
		return -1;
	frame = &t->frames[t->n++];
	*frame = (struct ip_frame){sp, t->now, 0, function,
				   flags | (t->active[function]++ ? IP_FRAME_INNER : 0)};
	if (t->ops.opened)
		t->ops.opened(t->context, frame, t->n - 1);
	return 0;
}

/* The next frame begins a stack of its own. */
static void begin_segment(struct ip_frames *t)
{
	if (!t->n)
		return;
	if (t->top + 1 == SEGMENTS_MAX) {
		leave(t, 0);
		return;
	}
	t->starts[++t->top] = t->n;
}

/* The frames of segment k. */
struct range {
	size_t start, end;
};

static struct range segment(const struct ip_frames *t, size_t k)
{
	return (struct range){t->starts[k], k == t->top ? t->n : t->starts[k + 1]};
}

/* How far sp is from a stack; UINT64_MAX: too far. */
static uint64_t distance(const struct ip_frames *t, struct range r, uint64_t sp, uint64_t above)
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

/* The stack that sp belongs to: the nearest; among several the innermost. */
static bool find_owner(const struct ip_frames *t, uint64_t sp, uint64_t above, struct range *ret)
{
	uint64_t nearest = UINT64_MAX;

	for (size_t k = t->top + 1; k-- > 0 && nearest;) {
		struct range r = segment(t, k);
		uint64_t d = distance(t, r, sp, above);

		if (d < nearest) {
			nearest = d;
			*ret = r;
		}
	}
	return nearest != UINT64_MAX;
}

/* First frame of r with T.S < sp; its end where there is none. */
static size_t first_deeper(const struct ip_frames *t, struct range r, uint64_t sp)
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

/* Rules 1 and 2, and the choice of the stack. */
static int enter(struct ip_frames *t, uint32_t function, uint64_t sp, uint32_t room, uint32_t flags)
{
	struct range r;

	if (find_owner(t, sp, ABOVE, &r)) {
		size_t keep = first_deeper(t, r, sp + room < sp ? UINT64_MAX : sp + room);

		leave(t, keep);
		if (keep == r.start)
			begin_segment(t);
	} else {
		begin_segment(t);
	}
	return push(t, function, sp, flags);
}

/* Rule 3 within one stack. */
static size_t find_exact(const struct ip_frames *t, struct range r, uint32_t function, uint64_t sp)
{
	size_t deeper = first_deeper(t, r, sp);

	for (size_t i = deeper; i > r.start && t->frames[i - 1].sp == sp && deeper - i < SEARCH_MAX; i--)
		if (t->frames[i - 1].function == function)
			return i - 1;
	return NOT_FOUND;
}

static size_t find_tail(const struct ip_frames *t, struct range r, uint32_t function, uint64_t sp)
{
	size_t deeper = first_deeper(t, r, sp);

	for (size_t i = deeper; i < r.end && i - deeper < SEARCH_MAX; i++)
		if (t->frames[i].function == function)
			return i;
	return find_exact(t, r, function, sp);
}

static size_t find_near_alloca(const struct ip_frames *t, struct range r, uint32_t function, uint64_t sp)
{
	size_t deeper = first_deeper(t, r, sp);
	const struct ip_frame *f;

	if (deeper == r.start)
		return NOT_FOUND;
	f = &t->frames[deeper - 1];
	return f->function == function && f->sp - sp <= ABOVE ? deeper - 1 : NOT_FOUND;
}

static size_t find_alloca(const struct ip_frames *t, struct range r, uint32_t function, uint64_t sp)
{
	size_t deeper = first_deeper(t, r, sp);

	for (size_t i = deeper; i > r.start && deeper - i < SEARCH_MAX; i--)
		if (t->frames[i - 1].function == function)
			return i - 1;
	return NOT_FOUND;
}

/* The same over all stacks that sp is not far from, the innermost first. */
static size_t find_frame(const struct ip_frames *t, uint32_t function, uint64_t sp,
			 size_t (*find)(const struct ip_frames *t, struct range r, uint32_t function,
					uint64_t sp))
{
	if (!t->active[function])
		return NOT_FOUND;
	for (size_t k = t->top + 1; k-- > 0;) {
		struct range r = segment(t, k);
		size_t found = NOT_FOUND;

		if (distance(t, r, sp, ABOVE_EXIT) != UINT64_MAX)
			found = find(t, r, function, sp);
		if (found != NOT_FOUND)
			return found;
	}
	return NOT_FOUND;
}

/* Rule 3c. The size of the frame that a tail exit has taken down is not known. */
static bool find_left(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail,
		      struct ip_limbo_entry *ret)
{
	uint64_t size_max = tail && t->limbo.n ? TAIL_FRAME_MAX : 0;

	for (uint64_t size = 0; size <= size_max && size <= sp; size += 8)
		if (ip_limbo_take(&t->limbo, function, sp - size, 0, ret))
			return true;
	return false;
}

static int push_again(struct ip_frames *t, const struct ip_frame *frame)
{
	if (reserve(t) < 0)
		return -1;
	t->frames[t->n++] = *frame;
	t->active[frame->function]++;
	return 0;
}

/* An exit of a frame that was left: the frames below it in its stack are open again, on top of the present
 * ones. */
static int resume(struct ip_frames *t, const struct ip_limbo_entry *ended, bool tail)
{
	struct ip_limbo_entry e = *ended;
	size_t first;

	begin_segment(t);
	first = t->n;
	if (push_again(t, &e.frame) < 0)
		return -1;
	while (e.has_parent && ip_limbo_take(&t->limbo, e.parent_function, e.parent_sp, e.group, &e))
		if (push_again(t, &e.frame) < 0)
			return -1;
	for (size_t i = first, j = t->n - 1; i < j; i++, j--) {
		struct ip_frame frame = t->frames[i];

		t->frames[i] = t->frames[j];
		t->frames[j] = frame;
	}
	for (size_t i = first; t->ops.resumed && i < t->n; i++)
		t->ops.resumed(t->context, &t->frames[i], i, t->now);
	end_top(t, tail);
	return 0;
}

/* Rule 3e. */
static bool is_inlined_top(const struct ip_frames *t, uint32_t function, uint64_t sp)
{
	const struct ip_frame *top = t->n ? &t->frames[t->n - 1] : NULL;

	return top && top->function == function && top->sp < sp && sp - top->sp <= ABOVE;
}

/* Rule 4. */
static void pass_point(struct ip_frames *t, uint64_t sp)
{
	struct range r;

	if (find_owner(t, sp, ABOVE, &r))
		leave(t, first_deeper(t, r, sp));
}

static int leave_by_exit(struct ip_frames *t, uint32_t function, uint64_t sp, bool tail, bool inlined)
{
	size_t found = find_frame(t, function, sp, tail ? find_tail : find_exact);
	struct ip_limbo_entry e;
	struct range r;

	if (found == NOT_FOUND && !tail && !t->suspect)
		found = find_frame(t, function, sp, find_near_alloca);
	if (found == NOT_FOUND && find_left(t, function, sp, tail, &e))
		return resume(t, &e, tail);
	if (found == NOT_FOUND && !tail && !t->suspect)
		found = find_frame(t, function, sp, find_alloca);
	if (found != NOT_FOUND || (inlined && !t->suspect && is_inlined_top(t, function, sp))) {
		if (found != NOT_FOUND)
			leave(t, found + 1);
		end_top(t, tail);
		return 0;
	}
	if (find_owner(t, sp, ABOVE_EXIT, &r))
		leave(t, first_deeper(t, r, sp));
	if (t->ops.orphan)
		t->ops.orphan(t->context, function, t->n, t->now);
	return 0;
}

/* Whether a tail exit at sp ends the topmost frame and that alone: the common case. */
static inline bool is_tail_of_top(const struct ip_frames *t, const struct ip_frame *top, uint64_t sp)
{
	if (top->sp >= sp || sp - top->sp >= ABOVE_EXIT)
		return false;
	return t->n - 1 == t->starts[t->top] || top[-1].sp >= sp;
}

static bool is_removed(const struct ip_frames *t, const struct ip_frame *f, uint64_t ts)
{
	return ip_changes_is_off(&t->session->changes, f->function, ts);
}

/* Ends the open frames of removed functions; the others move together. */
static void end_removed(struct ip_frames *t, uint64_t ts)
{
	size_t first = 0, kept, segment = 0, top = 0, suspect = 0;

	while (first < t->n && !is_removed(t, &t->frames[first], ts))
		first++;
	if (first == t->n)
		return;
	for (size_t i = t->n; i-- > first;) {
		struct ip_frame *f = &t->frames[i];

		if (!is_removed(t, f, ts)) {
			if (t->ops.left)
				t->ops.left(t->context, f, i, t->now);
			continue;
		}
		t->active[f->function]--;
		f->flags |= i < t->suspect ? IP_FRAME_SUSPECT : 0;
		if (t->ops.closed)
			t->ops.closed(t->context, f, i, f->start > ts ? f->start : ts, IP_END_UNFINISHED);
	}
	kept = 0;
	for (size_t i = 0; i < t->n; i++) {
		if (segment < t->top && i == t->starts[segment + 1]) {
			segment++;
			/* unless all that was in the one before it is gone */
			if (t->starts[top] != kept)
				t->starts[++top] = kept;
		}
		if (i >= first && is_removed(t, &t->frames[i], ts))
			continue;
		suspect += i < t->suspect;
		t->frames[kept++] = t->frames[i];
	}
	if (top && t->starts[top] == kept)
		top--;
	t->n = kept;
	t->top = top;
	t->suspect = suspect;
	for (size_t i = first; t->ops.resumed && i < t->n; i++)
		t->ops.resumed(t->context, &t->frames[i], i, t->now);
}

/* Passes the removals in front of ts. */
static void pass_removals(struct ip_frames *t, uint64_t ts)
{
	while (t->removal < ts) {
		if (t->n) {
			if (t->removal > t->now) {
				t->frames[t->n - 1].self += t->removal - t->now;
				t->now = t->removal;
			}
			end_removed(t, t->removal);
		}
		t->nremovals++;
		t->removal = next_removal(t);
	}
	t->late = false;
}

/* Whether an event behind a removal is the exit of a frame that the removal would end. */
static bool is_late_exit(struct ip_frames *t, const struct ip_event *e, struct ip_recording_number number)
{
	if (t->late || (e->kind != IP_PROBE_EXIT && e->kind != IP_PROBE_TAIL_EXIT) || !number.changes ||
	    !t->active[number.function] || !ip_changes_is_off(&t->session->changes, number.function, e->ts))
		return false;
	t->late = true;
	return true;
}

void ip_frames_set_payloads(struct ip_frames *t, const uint64_t *payloads)
{
	t->payloads = payloads;
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

		if (unlikely(e->ts > t->removal) && !is_late_exit(t, e, number))
			pass_removals(t, e->ts);
		top = t->n ? &t->frames[t->n - 1] : NULL;
		/* time does not run back in a thread */
		if (likely(e->ts > t->now)) {
			if (likely(top))
				top->self += e->ts - t->now;
			t->now = e->ts;
		}
		if (unlikely(e->payload) && t->ops.values)
			t->ops.values(t->context, ip_event_payload(e, t->payloads));
		if (unlikely(e->kind == IP_PROBE_ENTRY && number.entry_only)) {
			ret = enter(t, function, e->sp, number.room, IP_FRAME_ENTRY_ONLY);
			if (ret == 0)
				end_top_as(t, IP_END_UNKNOWN);
		} else if (e->kind == IP_PROBE_ENTRY && unlikely(number.changes) &&
			   ip_changes_is_off(&session->changes, function, e->ts)) {
			ret = enter(t, function, e->sp, number.room, 0);
			if (ret == 0)
				end_top_as(t, IP_END_UNFINISHED);
		} else if (e->kind == IP_PROBE_ENTRY) {
			/* the common case of rules 1 and 2: a call from the innermost frame */
			if (likely(top && top->sp >= e->sp && top->sp - e->sp >= number.room &&
				   top->sp - e->sp < BELOW))
				ret = push(t, function, e->sp, 0);
			else
				ret = enter(t, function, e->sp, number.room, 0);
		} else if (e->kind == IP_PROBE_EXIT) {
			/* the common case of 3a */
			if (likely(top && top->function == function && top->sp == e->sp))
				end_top(t, false);
			else
				ret = leave_by_exit(t, function, e->sp, false, !number.room);
		} else if (e->kind == IP_PROBE_TAIL_EXIT) {
			if (likely(top && top->function == function && is_tail_of_top(t, top, e->sp)))
				end_top(t, true);
			else
				ret = leave_by_exit(t, function, e->sp, true, false);
		} else if (e->kind == IP_PROBE_POINT) {
			if (unlikely(top && top->sp < e->sp))
				pass_point(t, e->sp);
			if (t->ops.point)
				t->ops.point(t->context, function, t->n, t->now);
		}
		if (unlikely(e->payload) && t->ops.values)
			t->ops.values(t->context, NULL);
	}
	return ret;
}

void ip_frames_loss(struct ip_frames *t)
{
	/* what was left before may have come back and gone unseen */
	give_up_all(t);
	t->suspect = t->n;
}

void ip_frames_finish(struct ip_frames *t, uint64_t end)
{
	if (end < t->now)
		end = t->now;
	pass_removals(t, end);
	if (t->n)
		t->frames[t->n - 1].self += end - t->now;
	while (t->n) {
		struct ip_frame frame = take_off(t);

		if (t->ops.closed)
			t->ops.closed(t->context, &frame, t->n, end, IP_END_UNFINISHED);
	}
	give_up_all(t);
	begin_thread(t);
}
