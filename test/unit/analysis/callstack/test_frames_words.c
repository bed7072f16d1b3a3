/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common path of the stack machine against the machine: both get the same events, and tell the
 * same calls. The events are those of a program that calls at random and now and then does what is
 * not common: longjmp, other stacks, events that are lost, exits without calls, time that goes
 * back.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/callstack/frames_words.h"
#include "common/elf/probe_list.h"
#include "test/unit/test.h"

#define BASE   0x7ffd00100000ull
#define EVENTS 100000u
#define DEPTH  200u

/* 1 to 3: common; 4 an inlined instance of the first; 5 without exit probes; 6 silent; 7 is
 * removed half way; 8 a part of 9; 10: its tail exits are returns; 11: jumps to 1 */
static const char session_text[] =
	"iprobe-session\t1\ntsc_hz\t1000000000\nmodule\t0\tm\tff\t0\t1\tinstrument\n"
	"function\t1\t0\ta\t\t0\t-\t64\nfunction\t2\t0\tb\t\t0\t-\t64\n"
	"function\t3\t0\tc\t\t0\t-\nfunction\t4\t0\ta\t\t0\ti\nfunction\t5\t0\td\t\t0\te\t8\n"
	"function\t6\t0\te\t\t0\t-\t8\nfunction\t7\t0\tf\t\t0\t-\t8\n"
	"function\t8\t0\tg.part.0\t\t0\t-\t8\nfunction\t9\t0\tg\t\t0\t-\t8\n"
	"function\t10\t0\th\t\t0\tr\t8\nfunction\t11\t0\ti\t\t0\tj\t8\njump\t11\t1\nsilent\t6\n"
	"removed\t4294967296\t7\n";

static struct ip_recording *session;
static struct ip_event events[EVENTS];
static uint64_t words[EVENTS];
static bool lost[EVENTS];
static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % below;
}

/* One event in rare is an uncommon one. */
static void make_events(uint64_t seed, unsigned rare)
{
	static struct {
		uint64_t sp;
		uint32_t number;
	} stack[DEPTH];
	size_t depth = 0;

	random_state = seed;
	for (size_t i = 0; i < EVENTS; i++) {
		struct ip_event *e = &events[i];
		uint64_t last = depth ? stack[depth - 1].sp : BASE;

		lost[i] = false;
		*e = (struct ip_event){.ts = (i + draw(2)) << 16,
				       .sp = last - 64,
				       .kind = IP_PROBE_ENTRY,
				       .number = 1};
		e->number = 1 + draw(draw(8) ? 3 : 12);
		if (depth && (depth == DEPTH || draw(2))) {
			e->kind = draw(6) ? IP_PROBE_EXIT : IP_PROBE_TAIL_EXIT;
			e->sp = last + (e->kind == IP_PROBE_EXIT ? 0 : 8);
			e->number = stack[--depth].number;
		} else {
			stack[depth].sp = e->sp;
			stack[depth++].number = e->number;
		}
		if (draw(rare))
			continue;
		switch (draw(8)) {
		case 0:
			e->sp += 8 * draw(1000);
			break;
		case 1:
			e->sp += draw(2) ? 4ull << 20 : -(4ull << 20); /* another stack */
			break;
		case 2:
			e->number = draw(14);
			break;
		case 3:
			e->kind = 1 + draw(5);
			break;
		case 4:
			lost[i] = true;
			break;
		case 5:
			e->ts -= draw(i + 1) << 16;
			break;
		case 6:
			depth = draw(depth + 1); /* longjmp */
			break;
		case 7:
			depth += depth < DEPTH && stack[depth].number; /* a frame is back */
			break;
		}
	}
	for (size_t i = 0; i < EVENTS; i++)
		words[i] = events[i].kind | (events[i].ts & IP_TIME_MASK) << 3 |
			   (uint64_t)events[i].number << 32 |
			   (events[i].sp >> IP_SP_SHIFT) << (64 - IP_SP_BITS);
}

/* Sums by function that do not depend on the order of the calls. */
struct sums {
	uint64_t calls, self, ticks, inner, ends, depths, starts, flags, how[4];
};

static void add(struct sums *s, const struct ip_frames_call *c, enum ip_frame_end how)
{
	s[c->function].calls++;
	s[c->function].self += c->self;
	s[c->function].ticks += c->ticks;
	s[c->function].inner += c->flags & IP_FRAME_INNER ? c->ticks : 0;
	s[c->function].ends += c->end * (c->depth + 1);
	s[c->function].depths += c->depth;
	s[c->function].starts += c->tag;
	s[c->function].flags += c->flags;
	s[c->function].how[how]++;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	frame->tag = 3 * (depth ? frame[-1].tag : 0) + frame->function;
}

static uint32_t tag_of(void *context, uint32_t above, uint32_t function, bool is_exit)
{
	/* the machine takes some by itself */
	return function == 3 ? UINT32_MAX : 3 * (above == UINT32_MAX ? 0 : above) + function;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	const struct ip_frames_call call = {end,	  ip_frame_ticks(frame, end),
					    frame->self,  frame->function,
					    frame->flags, depth,
					    frame->tag};

	add(context, &call, how);
}

/* The machine takes the first event of each compact sequence: a word tells its time and stack
 * pointer by those of the event before. Returns how many were taken as words. */
static size_t feed(struct sums *sums, bool by_words)
{
	static const struct ip_frames_ops ops = {.opened = on_opened, .closed = on_closed};
	static const struct ip_stream_renumber shift = {.most = UINT32_MAX - 1};
	struct ip_frames_call calls[IP_FRAMES_WORDS];
	struct ip_frames *t = ip_frames_create(session, &ops, sums);
	size_t taken = 0;

	for (size_t i = 0; i < EVENTS; i++) {
		size_t n = 1, ncalls;

		if (lost[i])
			ip_frames_loss(t);
		/* what the stream would have as compact records, up to the next loss */
		while (by_words && i && n && !lost[i]) {
			struct ip_stream_words w = {words + i, 0, events[i - 1].ts,
						    events[i - 1].sp, &shift};
			uint64_t ts, sp;

			while (w.n < 700 && i + w.n < EVENTS && !lost[i + w.n] &&
			       events[i + w.n].number &&
			       (events[i + w.n].ts ^ w.ts) <= IP_TIME_MASK &&
			       llabs((int64_t)(events[i + w.n].sp - events[i + w.n - 1].sp)) < 8192)
				w.n++;
			n = ip_frames_take_words(t, &w, false, tag_of, NULL, calls, &ncalls, &ts,
						 &sp);
			assert_true(n <= w.n && ncalls <= n);
			for (size_t k = 0; k < ncalls; k++)
				add(sums, &calls[k], IP_END_EXIT);
			i += n;
			taken += n;
			if (n)
				assert_true(ts == events[i - 1].ts && sp == events[i - 1].sp);
			if (i == EVENTS)
				break;
			if (n && lost[i])
				ip_frames_loss(t);
		}
		if (i < EVENTS)
			assert_int_equal(ip_frames_feed(t, &events[i], 1), 0);
	}
	ip_frames_finish(t, (EVENTS + 1ull) << 16);
	ip_frames_destroy(t);
	return taken;
}

static void test_same(void **state)
{
	static const unsigned rare[] = {1000000, 1000, 50, 10, 3};
	struct sums sums[2][16];

	assert_int_equal(ip_recording_parse("s", session_text, strlen(session_text), &session), 0);
	assert_true(session->nfunctions <= N_ELEMENTS(sums[0]));
	for (unsigned i = 0; i < N_ELEMENTS(rare); i++) {
		size_t taken;

		memset(sums, 0, sizeof(sums));
		make_events(i + 1, rare[i]);
		assert_int_equal(feed(sums[0], false), 0);
		taken = feed(sums[1], true);
		assert_memory_equal(sums[0], sums[1], sizeof(sums[0]));
		/* most events are common, where few are not */
		if (rare[i] >= 1000)
			assert_true(taken > EVENTS / 2);
		assert_true(taken);
	}
	ip_recording_destroy(session);
}

/* Numbers are those of a member; frames grow far beyond the words of one call. */
static void test_depth_and_numbers(void **state)
{
	static const struct ip_stream_renumber shift = {.base = 1, .most = 1};
	struct ip_frames_call calls[IP_FRAMES_WORDS];
	static struct sums sums[16];
	struct ip_frames *t;
	uint64_t entry = IP_PROBE_ENTRY | 1ull << 32, ts = 0, sp = BASE, n = 0;
	static const struct ip_frames_ops ops = {.closed = on_closed};

	assert_int_equal(ip_recording_parse("s", session_text, strlen(session_text), &session), 0);
	t = ip_frames_create(session, &ops, sums);
	for (unsigned i = 0; i < 4000; i++) {
		struct ip_stream_words w = {&words[0], 1, ts, sp, &shift};
		size_t ncalls;

		words[0] = entry | (ts + 1) << 3 | ((sp - 64) >> IP_SP_SHIFT) << (64 - IP_SP_BITS);
		if (!i) /* the first time is not known yet */
			assert_int_equal(ip_frames_feed(t,
							&(struct ip_event){.ts = 1,
									   .sp = sp - 64,
									   .number = 2,
									   .kind = IP_PROBE_ENTRY},
							1),
					 0);
		else
			n += ip_frames_take_words(t, &w, true, NULL, NULL, calls, &ncalls, &ts,
						  &sp);
		if (!i) {
			ts = 1;
			sp -= 64;
		}
	}
	assert_int_equal(n, 3999);
	ip_frames_finish(t, ts);
	assert_int_equal(sums[session->numbers[2].function].calls, 4000);
	ip_frames_destroy(t);
	ip_recording_destroy(session);
}

/* A stream whose numbers are all unknown has none on the common path, and leaves no table for those
 * after it. */
static void test_unknown_numbers(void **state)
{
	static const struct ip_stream_renumber known = {.most = 3},
					       unknown = {.base = 1000, .most = 3};
	const struct ip_stream_renumber *const shifts[] = {&known, &unknown, &known};
	static const struct ip_frames_ops ops = {.closed = on_closed};
	static struct sums sums[16];
	struct ip_frames_call calls[IP_FRAMES_WORDS];
	uint64_t ts = 1, sp = BASE - 64;
	struct ip_frames *t;
	size_t ncalls;

	assert_int_equal(ip_recording_parse("s", session_text, strlen(session_text), &session), 0);
	assert_true(unknown.base >= session->nnumbers);
	t = ip_frames_create(session, &ops, sums);
	assert_int_equal(
		ip_frames_feed(
			t,
			&(struct ip_event){.ts = ts, .sp = sp, .number = 1, .kind = IP_PROBE_ENTRY},
			1),
		0);
	for (unsigned i = 0; i < N_ELEMENTS(shifts); i++) {
		struct ip_stream_words w = {&words[0], 1, ts, sp, shifts[i]};

		words[0] = IP_PROBE_ENTRY | (ts + 1) << 3 | 2ull << 32 |
			   ((sp - 64) >> IP_SP_SHIFT) << (64 - IP_SP_BITS);
		assert_int_equal(
			ip_frames_take_words(t, &w, true, NULL, NULL, calls, &ncalls, &ts, &sp),
			shifts[i] == &known);
	}
	ip_frames_finish(t, ts);
	assert_int_equal(sums[session->numbers[1].function].calls, 1);
	assert_int_equal(sums[session->numbers[2].function].calls, 2);
	ip_frames_destroy(t);
	ip_recording_destroy(session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_same),
					   cmocka_unit_test(test_depth_and_numbers),
					   cmocka_unit_test(test_unknown_numbers)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
