/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common path of the stack machine, from the words of a stream (common/trace/trace_format.h).
 * Nearly all events are compact records that call a function from the innermost frame, or end that
 * frame. They are decoded here and change the stack at once: no event is made of them, and no
 * operation of the visitor is called. The caller gets the calls that have ended, many at a time.
 *
 * ip_frames_take_words() is the body of a loop for one kind of view. A view wraps it in a function
 * of its own (ip_trace_visitor.words), so that the compiler makes a loop for that view.
 *
 * Whether the next event is an entry or an exit cannot be predicted. So there is no branch for it:
 * both the new frame and the ended call are written, and then one of them counts. The one branch
 * asks whether the event is on the common path; where it is not, the machine itself takes the event
 * (ip_frames_feed()). What is common:
 *
 *   entry      from the innermost frame, by rules 1 and 2 of frames.c; or no frame is open
 *   exit       rule 3a, of the innermost frame
 *   tail exit  of the innermost frame and of no other
 *
 * and: time does not go back, no event was lost before it, no function was removed since the event
 * before, the function has no part, is no part, is not silent and has exit probes, the frame has
 * not jumped, and no stack and no suspect frame ends with it.
 */
#ifndef IP_FRAMES_WORDS_H
#define IP_FRAMES_WORDS_H

#include <string.h>

#include "analysis/callstack/frames_private.h"
#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"

/* Words that are taken at a time; so many calls may end. */
#define IP_FRAMES_WORDS 512u

/* A call that has ended by its exit (IP_END_EXIT). No time was lost in it. */
struct ip_frames_call {
	uint64_t end, ticks, self; /* self: as in struct ip_frame */
	uint32_t function, flags;
	uint32_t depth, tag;
};

/* Gives the tag of a new frame: above is that of its caller's frame, UINT32_MAX where it has none.
 * is_exit: the frame ends, so what is returned does not count; the function must not make anything
 * then. Returns UINT32_MAX where the machine itself has to take the event. */
typedef uint32_t (*ip_frames_tag)(void *context, uint32_t above, uint32_t function, bool is_exit);

/* Returns function and flags of a frame, the flags in the upper half. */
static inline uint64_t ip_frames_what(const struct ip_frame *f)
{
	uint64_t what;

	memcpy(&what, &f->function, sizeof(what));
	return what;
}

/* frames_words.c. Makes ready for the next words. Returns how many of them can be taken; 0 where
 * the next event must be fed to the machine. */
size_t ip_frames_prepare_words(struct ip_frames *t, const struct ip_stream_words *words);

/* Takes the first of the words, at most IP_FRAMES_WORDS. ret_calls has room for as many. Returns
 * how many words were taken; the other values tell their last time and stack pointer, and how many
 * calls have ended. tag NULL: frames have tag 0, and calls none. brief: calls have no end and no
 * depth. */
static inline __attribute__((always_inline)) size_t
ip_frames_take_words(struct ip_frames *t, const struct ip_stream_words *words, bool brief,
		     ip_frames_tag tag, void *context, struct ip_frames_call *ret_calls,
		     size_t *ret_ncalls, uint64_t *ret_ts, uint64_t *ret_sp)
{
	/* a suspect frame that has come back has its flag, and events were lost in it */
	const uint64_t uncommon =
		(uint64_t)(IP_FRAME_JUMPED | IP_FRAME_JOINED | IP_FRAME_SUSPECT) << 32 | UINT32_MAX;
	size_t max = ip_frames_prepare_words(t, words), floor = t->suspect;
	const uint64_t *w = words->words, *end = w + max;
	struct ip_frames_call *call = ret_calls;
	struct ip_frame *top, *lowest;
	uint32_t *active = t->active, function;
	const uint64_t gaps = t->gaps, period = words->ts & ~IP_TIME_MASK;
	uint64_t sp = words->sp, now = words->ts & IP_TIME_MASK;
	const struct ip_frames_number *numbers = t->numbers;
	/* by kind: bounds of the distance in the stack; 0 where the kind is not common */
	static const uint32_t entry_most[8] = {[IP_PROBE_ENTRY] = UINT32_MAX},
			      exit_most[8] = {[IP_PROBE_EXIT] = 1};

	*ret_ncalls = 0;
	if (!max)
		return 0;
	/* the frame that a stack begins with ends together with its stack */
	if (t->top && t->starts[t->top] + 1 > floor)
		floor = t->starts[t->top] + 1;
	/* no exit is that of the highest frame that may not end here */
	lowest = t->frames + floor;
	function = lowest[-1].function;
	lowest[-1].function = IP_FRAMES_NO_FUNCTION;
	top = t->frames + t->n - 1;
	for (; w < end; w++) {
		uint64_t word = *w, kind = word & 7, time = (uint32_t)word >> 3;
		/* the signed 11-bit difference to the sp before, in units of 8 */
		uint64_t at = sp + ((int64_t)(word - (sp << (64 - IP_SP_BITS - IP_SP_SHIFT))) >>
				    (64 - IP_SP_BITS)) *
					   (1 << IP_SP_SHIFT);
		struct ip_frames_number f = numbers[(word >> 32) & IP_NUMBER_MAX];
		uint64_t below = top->sp - at, what = ip_frames_what(top), ticks = time - now;
		uint64_t distance = below | ((what ^ f.function) & uncommon);
		uint64_t most = (f.reach & entry_most[kind]) | exit_most[kind];
		uint64_t exits = -(kind >> 1 & 1);
		uint32_t new_tag = 0, open;

		/* all ones or 0, which the compiler must not know, or it makes a branch for it */
		__asm__("" : "+r"(exits));
		/* One comparison for both kinds. Where time goes back, ticks are above all bounds.
		 */
		distance ^= ((BELOW - 1 - below) ^ distance) & ~exits;
		if (unlikely((distance | ticks >> 32) >= most)) {
			if (ticks >> 32 || f.function == IP_FRAMES_NO_NUMBER)
				break;
			if (kind == IP_PROBE_ENTRY && f.reach && top < t->frames) {
				/* No frame is open: any distance will do. The next such entry is
				 * common. */
				top->sp = at + BELOW / 2;
			} else if (kind == IP_PROBE_TAIL_EXIT && f.tail_common &&
				   ((what ^ f.function) & uncommon) == 0 && top->sp < at &&
				   at - top->sp < ABOVE_EXIT &&
				   (top == t->frames + t->starts[t->top] || top[-1].sp >= at)) {
				top->flags |= f.tail_returns ? 0 : IP_FRAME_TAIL;
				what = ip_frames_what(top);
			} else {
				break;
			}
		}
		if (tag) {
			new_tag = tag(context, top->tag, f.function, exits & 1);
			if (unlikely((new_tag == UINT32_MAX) & !exits))
				break;
		}
		top->self += ticks;
		call->ticks = (period | time) - top->start;
		call->self = top->self;
		memcpy(&call->function, &what, sizeof(what));
		if (tag)
			call->tag = top->tag;
		if (!brief) {
			call->end = period | time;
			call->depth = top - t->frames;
		}
		open = active[f.function];
		active[f.function] = open + (uint32_t)(1 | exits);
		top[1].sp = at;
		top[1].start = period | time;
		top[1].self = 0;
		top[1].lost = gaps;
		what = f.function | (uint64_t)(open ? IP_FRAME_INNER : 0) << 32;
		memcpy(&top[1].function, &what, sizeof(what));
		what = new_tag; /* with other, which is 0 */
		memcpy(&top[1].tag, &what, sizeof(what));
		call = (void *)((char *)call + (sizeof(*call) & exits));
		top = (void *)((char *)top + sizeof(*top) - (2 * sizeof(*top) & exits));
		now = time;
		sp = at;
	}
	lowest[-1].function = function;
	t->n = top + 1 - t->frames;
	t->now = period | now;
	*ret_ts = t->now;
	*ret_sp = sp;
	*ret_ncalls = call - ret_calls;
	return w - words->words;
}

#endif
