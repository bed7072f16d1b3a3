/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call stack machine, case by case: each is a row of events and the line of text that the
 * machine makes of it.
 *
 *   +f  opened -f closed by its exit ~f left *f resumed !f given up (unwound for good)
 *   ?f  an exit without a call              .f  unfinished at the end       :f  a point
 *   =f  its end is not known
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/callstack/frames.h"
#include "analysis/callstack/trace.h"
#include "common/elf/probe_list.h"
#include "common/error.h"
#include "test/unit/test.h"

#define BASE 0x7ffd00100000ull

/* Numbers: 1 a, 2 b, 3 c, each with a frame of 64; 4 A (a inlined); 5 d, whose frame size is not
 * known; 6 g, 4096; 7 h: 8, as in placement fentry; 8 i has no exit probes; 9 w, and 10 a part
 * of it; 20 x, whose tail exit 21 jumps to 22 y. */
static const char session_text[] =
	"iprobe-session\t1\ntsc_hz\t1000000000\nmodule\t0\tm\tff\t0\t1\tinstrument\n"
	"function\t1\t0\ta\t\t0\t-\t64\nfunction\t2\t0\tb\t\t0\t-\t64\n"
	"function\t3\t0\tc\t\t0\t-\t64\nfunction\t4\t0\ta\t\t0\ti\n"
	"function\t5\t0\td\t\t0\t-\nfunction\t6\t0\tg\t\t0\t-\t4096\n"
	"function\t7\t0\th\t\t0\t-\t8\nfunction\t8\t0\ti\t\t0\te\t8\n"
	"function\t9\t0\tw.constprop.0\t\t0\t-\t8\nfunction\t10\t0\tw.constprop.0.part.1\t\t0\t-"
	"\t8\n"
	"function\t20\t0\tx\t\t0\t-\t8\nfunction\t21\t0\tx\t\t0\tj\t8\n"
	"function\t22\t0\ty\t\t0\t-\t8\njump\t21\t22\n";

static char said[4096];
static struct ip_recording *session;

static void say(char what, uint32_t function)
{
	size_t n = strlen(said);

	assert_true(n + 4 < sizeof(said));
	snprintf(said + n, sizeof(said) - n, "%s%c%s", n ? " " : "", what,
		 session->functions[function].linker_name);
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	say('+', frame->function);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	say('~', frame->function);
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	say('*', frame->function);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	assert_true(end >= frame->start && frame->self <= end - frame->start);
	say(how == IP_END_EXIT	    ? (frame->flags & IP_FRAME_TAIL ? '^' : '-')
	    : how == IP_END_UNWOUND ? '!'
	    : how == IP_END_UNKNOWN ? '='
				    : '.',
	    frame->function);
}

static void on_orphan(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	say('?', function);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	say(':', function);
}

static const struct ip_frames_ops ops = {.opened = on_opened,
					 .left = on_left,
					 .resumed = on_resumed,
					 .closed = on_closed,
					 .orphan = on_orphan,
					 .point = on_point};

/* kind: e entry, x exit, t tail exit, p point, L events were lost. sp is relative to BASE. */
struct step {
	char kind;
	uint32_t number;
	int64_t sp;
};

static const struct test_case {
	const char *what;
	struct step steps[16];
	const char *said;
} cases[] = {
	{"a call in a call",
	 {{'e', 1, -64}, {'e', 2, -128}, {'x', 2, -128}, {'x', 1, -64}},
	 "+a +b -b -a"},
	{"tail exits: the caller's stack pointer",
	 {{'e', 1, -64}, {'e', 1, -128}, {'t', 1, -64}, {'t', 1, 0}},
	 "+a +a ^a ^a"},
	{"a tail exit of a recursion that was left",
	 {{'e', 1, -64}, {'e', 1, -128}, {'e', 1, -192}, {'t', 1, 0}},
	 "+a +a +a ~a ~a ^a !a !a"},
	{"an inlined call shares the frame",
	 {{'e', 2, -64}, {'e', 4, -64}, {'x', 4, -64}, {'e', 4, -64}, {'x', 4, -64}, {'x', 2, -64}},
	 "+b +a -a +a -a -b"},
	{"longjmp out of an inlined call is seen at the exit",
	 {{'e', 2, -64}, {'e', 4, -64}, {'e', 3, -128}, {'x', 2, -64}},
	 "+b +a +c ~c ~a -b !c !a"},
	{"longjmp over two frames, seen by an exit",
	 {{'e', 1, -64}, {'e', 2, -128}, {'e', 3, -192}, {'x', 1, -64}},
	 "+a +b +c ~c ~b -a !c !b"},
	{"seen by a call from the same place",
	 {{'e', 1, -64}, {'e', 2, -128}, {'e', 3, -128}, {'x', 3, -128}, {'x', 1, -64}},
	 "+a +b ~b +c -c -a !b"},
	{"seen by a call with a larger frame",
	 {{'e', 1, -64}, {'e', 2, -128}, {'e', 6, -4160}, {'x', 6, -4160}, {'x', 1, -64}},
	 "+a +b ~b +g -g -a !b"},
	{"a call with a larger frame in a call",
	 {{'e', 1, -64},
	  {'e', 2, -128},
	  {'e', 6, -4224},
	  {'x', 6, -4224},
	  {'x', 2, -128},
	  {'x', 1, -64}},
	 "+a +b +g -g -b -a"},
	{"alloca", {{'e', 1, -64}, {'e', 2, -640}, {'x', 2, -640}, {'x', 1, -576}}, "+a +b -b -a"},
	{"alloca behind longjmp",
	 {{'e', 1, -64}, {'e', 2, -128}, {'x', 1, -4000}},
	 "+a +b ~b -a !b"},
	{"attached in the middle",
	 {{'x', 1, -640}, {'e', 2, -400}, {'x', 2, -400}, {'x', 3, -64}},
	 "?a +b -b ?c"},
	{"attached in the middle, left by a jump to a frame that is not known",
	 {{'e', 2, -400}, {'x', 3, -64}},
	 "+b ~b ?c !b"},
	{"a handler on a stack far below",
	 {{'e', 1, -64},
	  {'e', 2, -(1ll << 40)},
	  {'x', 2, -(1ll << 40)},
	  {'e', 3, -128},
	  {'x', 3, -128},
	  {'x', 1, -64}},
	 "+a +b -b +c -c -a"},
	{"a handler on a stack above",
	 {{'e', 1, -64},
	  {'e', 2, 12288},
	  {'e', 3, 12000},
	  {'x', 3, 12000},
	  {'x', 2, 12288},
	  {'x', 1, -64}},
	 "+a +b +c -c -b -a"},
	{"a jump out of a handler",
	 {{'e', 1, -64}, {'e', 2, 1ll << 30}, {'e', 3, -128}, {'x', 3, -128}, {'x', 1, -64}},
	 "+a +b ~b +c -c -a !b"},
	{"two coroutines",
	 {{'e', 1, -64},
	  {'e', 2, -(1ll << 40)},
	  {'e', 3, -(1ll << 41)},
	  {'x', 2, -(1ll << 40)},
	  {'x', 3, -(1ll << 41)},
	  {'x', 1, -64}},
	 "+a +b +c ~c -b *c -c -a"},
	{"a coroutine with two frames comes back",
	 {{'e', 1, -64},
	  {'e', 2, 1ll << 30},
	  {'e', 3, (1ll << 30) - 64},
	  {'e', 5, -128},
	  {'x', 5, -128},
	  {'x', 3, (1ll << 30) - 64},
	  {'x', 2, 1ll << 30},
	  {'x', 1, -64}},
	 "+a +b +c ~c ~b +d -d *b *c -c -b -a"},
	{"the same address again: the frame that was left is gone for good",
	 {{'e', 1, -64}, {'e', 2, -128}, {'e', 3, -128}, {'e', 2, -128}, {'x', 1, -64}},
	 "+a +b ~b +c ~c +b ~b !b -a !b !c"},
	{"sites at the first instruction: a function without a frame calls another one",
	 {{'e', 7, -8}, {'e', 7, -16}, {'e', 7, -24}, {'x', 7, -24}, {'t', 7, -8}, {'x', 7, -8}},
	 "+h +h +h -h ^h -h"},
	{"the same left by longjmp, seen by a call from where the outer one was called",
	 {{'e', 1, -64}, {'e', 7, -72}, {'e', 7, -80}, {'e', 7, -72}, {'x', 7, -72}, {'x', 1, -64}},
	 "+a +h +h ~h ~h +h -h -a !h !h"},
	{"points, in a leaf, in its caller, after longjmp, and on another stack",
	 {{'e', 1, -64},
	  {'e', 2, -128},
	  {'p', 3, -136},
	  {'x', 2, -128},
	  {'p', 3, -64},
	  {'e', 2, -128},
	  {'p', 3, -80},
	  {'e', 2, -(1ll << 40)},
	  {'p', 3, -(1ll << 40) - 16},
	  {'x', 2, -(1ll << 40)},
	  {'p', 3, 1ll << 40},
	  {'x', 1, -64}},
	 "+a +b :c -b :c +b ~b :c +b :c -b :c -a !b"},
	{"an inlined call ends where its host has no frame any more",
	 {{'e', 2, -64}, {'e', 4, -128}, {'x', 4, -72}, {'x', 2, -64}},
	 "+b +a -a -b"},
	{"but another function does not",
	 {{'e', 2, -64},
	  {'e', 1, -128},
	  {'x', 4, -72},
	  {'e', 3, -128},
	  {'x', 4, -72},
	  {'x', 2, -64}},
	 "+b +a -a +c ~c ?a -b !c"},
	{"a part that its function calls",
	 {{'e', 9, -8}, {'e', 10, -24}, {'x', 10, -24}, {'x', 9, -8}},
	 "+w -w"},
	{"two parts, one after the other",
	 {{'e', 9, -8},
	  {'e', 10, -24},
	  {'x', 10, -24},
	  {'e', 10, -24},
	  {'x', 10, -24},
	  {'x', 9, -8}},
	 "+w -w"},
	{"a part that others call",
	 {{'e', 1, -64}, {'e', 10, -72}, {'x', 10, -72}, {'x', 1, -64}},
	 "+a +w.part -w.part -a"},
	{"a part that is called from a part",
	 {{'e', 9, -8},
	  {'e', 10, -24},
	  {'e', 10, -80},
	  {'x', 10, -80},
	  {'x', 10, -24},
	  {'x', 9, -8}},
	 "+w +w.part -w.part -w"},
	{"a recursion through both",
	 {{'e', 9, -8},
	  {'e', 10, -24},
	  {'e', 9, -80},
	  {'e', 10, -96},
	  {'x', 10, -96},
	  {'x', 9, -80},
	  {'x', 10, -24},
	  {'x', 9, -8}},
	 "+w +w -w -w"},
	{"a part that its function jumps to",
	 {{'e', 9, -8}, {'t', 9, 0}, {'e', 10, -8}, {'x', 10, -8}},
	 "+w -w"},
	{"and calls the part from there, and the function",
	 {{'e', 9, -8},
	  {'t', 9, 0},
	  {'e', 10, -8},
	  {'e', 10, -64},
	  {'x', 10, -64},
	  {'e', 9, -64},
	  {'t', 9, -56},
	  {'e', 10, -64},
	  {'x', 10, -64},
	  {'x', 10, -8}},
	 "+w +w.part -w.part +w -w -w"},
	{"a part that jumps on",
	 {{'e', 9, -8}, {'t', 9, 0}, {'e', 10, -8}, {'t', 10, 0}, {'e', 1, -64}, {'x', 1, -64}},
	 "+w ^w +a -a"},
	{"a part that is called and jumps on",
	 {{'e', 9, -8}, {'e', 10, -24}, {'t', 10, -16}, {'e', 1, -88}, {'x', 1, -88}, {'x', 9, -8}},
	 "+w +a -a -w"},
	{"a jump to somebody else",
	 {{'e', 9, -8}, {'t', 9, 0}, {'e', 1, -64}, {'x', 1, -64}},
	 "+w ^w +a -a"},
	{"a jump, and then the part from further up",
	 {{'e', 9, -8}, {'t', 9, 0}, {'e', 10, -16}, {'x', 10, -16}},
	 "+w ^w +w.part -w.part"},
	{"a jump is the last that is known", {{'e', 9, -8}, {'t', 9, 0}}, "+w ^w"},
	{"longjmp out of a part",
	 {{'e', 1, -64}, {'e', 9, -72}, {'e', 10, -88}, {'x', 1, -64}},
	 "+a +w ~w -a !w"},
	{"longjmp out of a part to its function, which calls it again",
	 {{'e', 9, -8},
	  {'e', 10, -24},
	  {'e', 2, -128},
	  {'e', 10, -24},
	  {'x', 10, -24},
	  {'x', 9, -8}},
	 "+w +b ~b -w !b"},
	{"a part whose call is not known", {{'x', 10, -24}, {'x', 9, -8}}, "?w.part ?w"},
	{"calls whose ends are not known do not stand in the way",
	 {{'e', 1, -64},
	  {'e', 8, -72},
	  {'e', 2, -128},
	  {'x', 2, -128},
	  {'e', 8, -72},
	  {'x', 1, -64},
	  {'e', 8, -8}},
	 "+a +i =i +b -b +i =i -a +i =i"},
	{"but show what is gone",
	 {{'e', 1, -64}, {'e', 2, -128}, {'e', 8, -72}, {'x', 1, -64}},
	 "+a +b ~b +i =i -a !b"},
	{"a call that goes on behind a jump",
	 {{'e', 20, -8}, {'t', 21, 0}, {'e', 22, -8}, {'x', 22, -8}},
	 "+x +y -y -x"},
	{"with a PLT entry on its way",
	 {{'e', 20, -8}, {'t', 21, 0}, {'e', 8, -8}, {'e', 22, -8}, {'x', 22, -8}},
	 "+x +i =i +y -y -x"},
	{"and with nothing that is known behind it",
	 {{'e', 1, -64}, {'e', 20, -72}, {'t', 21, -64}, {'e', 8, -72}, {'x', 1, -64}},
	 "+a +x +i =i ^x -a"},
	{"unfinished", {{'e', 1, -64}, {'e', 2, -128}}, "+a +b .b .a"},
	{"the exit of a call whose entry was lost is not its caller's",
	 {{'e', 1, -64}, {'L', 0, 0}, {'x', 1, -192}, {'x', 1, -64}},
	 "+a ?a -a"},
	{"after a loss, what was left does not come back",
	 {{'e', 1, -64}, {'e', 2, -128}, {'x', 1, -64}, {'L', 0, 0}, {'x', 2, -128}},
	 "+a +b ~b -a !b ?b"},
	{"unknown numbers are no reason to lose count",
	 {{'e', 77, -64}, {'x', 77, -64}},
	 "+[unknown] -[unknown]"},
};

/* The order in which frames are given up at the end does not matter: sorts the words behind the
 * last that is no '!'. */
static void sort_tail(char *text)
{
	char *words[64], copy[sizeof(said)];
	size_t n = 0, first;

	strcpy(copy, text);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		words[n++] = w;
	for (first = n; first && words[first - 1][0] == '!'; first--)
		;
	for (size_t i = first; i < n; i++)
		for (size_t j = i + 1; j < n; j++)
			if (strcmp(words[i], words[j]) > 0) {
				char *w = words[i];

				words[i] = words[j];
				words[j] = w;
			}
	*text = '\0';
	for (size_t i = 0; i < n; i++)
		sprintf(text + strlen(text), "%s%s", i ? " " : "", words[i]);
}

static void play_on(const struct test_case *c, struct ip_frames *frames)
{
	uint64_t now = 1000;
	char wanted[256];

	for (size_t i = 0; i < N_ELEMENTS(c->steps) && c->steps[i].kind; i++) {
		const struct step *s = &c->steps[i];
		struct ip_event e = {.ts = now += 10,
				     .sp = BASE + (uint64_t)s->sp,
				     .number = s->number,
				     .kind = s->kind == 'e'   ? IP_PROBE_ENTRY
					     : s->kind == 'x' ? IP_PROBE_EXIT
					     : s->kind == 'p' ? IP_PROBE_POINT
							      : IP_PROBE_TAIL_EXIT};

		if (s->kind == 'L')
			ip_frames_loss(frames);
		else
			assert_int_equal(ip_frames_feed(frames, &e, 1), 0);
	}
	ip_frames_finish(frames, now + 10);
	strcpy(wanted, c->said);
	sort_tail(said);
	sort_tail(wanted);
	if (strcmp(said, wanted))
		fail_msg("%s:\n  said   %s\n  wanted %s", c->what, said, wanted);
}

static void play(const struct test_case *c, struct ip_frames *frames)
{
	*said = '\0';
	play_on(c, frames);
}

static void test_cases(void **state)
{
	struct ip_frames *frames;

	(void)state;
	assert_int_equal(ip_recording_parse("s", session_text, strlen(session_text), &session), 0);
	frames = ip_frames_create(session, &ops, NULL);
	/* one machine for all: each thread begins afresh */
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		play(&cases[i], frames);
	ip_frames_destroy(frames);
	ip_recording_destroy(session);
}

/* Between steps 3 and 4 function a is removed, between 7 and 8 it is added again, between 11 and 12
 * b is removed. */
static const char changes_text[] =
	"added\t1\t1-8\nremoved\t1035\t1,4\nadded\t1075\t1,4\nremoved\t1115\t2\n";

static const struct test_case removals[] = {
	{"the outermost frame goes",
	 {{'e', 1, -64}, {'e', 2, -128}, {'e', 3, -192}, {'x', 3, -192}, {'x', 2, -128}},
	 "+a +b +c ~c ~b .a *b *c -c -b"},
	{"the innermost frame goes",
	 {{'e', 2, -64},
	  {'e', 3, -128},
	  {'e', 1, -192},
	  {'e', 3, -192},
	  {'x', 3, -192},
	  {'x', 3, -128},
	  {'x', 2, -64}},
	 "+b +c +a .a +c -c -c -b"},
	{"a hook in flight is late with its exit",
	 {{'e', 2, -64}, {'p', 3, -160}, {'e', 1, -128}, {'x', 1, -128}, {'x', 2, -64}},
	 "+b :c +a -a -b"},
	{"with that of a recursion: the outer ones end",
	 {{'e', 1, -64}, {'e', 1, -128}, {'e', 1, -192}, {'x', 1, -192}, {'p', 3, -40}},
	 "+a +a +a -a .a .a :c"},
	{"late with its entry",
	 {{'e', 2, -64},
	  {'p', 3, -64},
	  {'p', 3, -64},
	  {'e', 1, -128},
	  {'e', 3, -192},
	  {'x', 3, -192},
	  {'x', 2, -64}},
	 "+b :c :c +a .a +c -c -b"},
	{"added again, and what was open before is not known",
	 {{'e', 1, -64},
	  {'p', 3, -64},
	  {'p', 3, -64},
	  {'p', 3, -64},
	  {'p', 3, -64},
	  {'p', 3, -64},
	  {'p', 3, -64},
	  {'e', 1, -128},
	  {'x', 1, -128},
	  {'x', 1, -64},
	  {'e', 2, -64},
	  {'p', 3, -64}},
	 "+a :c :c .a :c :c :c :c +a -a ?a +b .b :c"},
	{"all of the stack below a handler's goes",
	 {{'e', 1, -64},
	  {'e', 1, -(1ll << 40)},
	  {'e', 2, -(1ll << 40) - 64},
	  {'x', 2, -(1ll << 40) - 64},
	  {'e', 3, -128},
	  {'x', 3, -128}},
	 "+a +a +b ~b .a .a *b -b +c -c"},
	{"all of the handler's stack goes",
	 {{'e', 2, -64},
	  {'e', 1, -(1ll << 40)},
	  {'p', 3, -(1ll << 40)},
	  {'e', 3, -128},
	  {'x', 3, -128},
	  {'x', 2, -64}},
	 "+b +a :c .a +c -c -b"},
	{"nothing comes behind it", {{'e', 1, -64}, {'p', 3, -64}, {'p', 3, -64}}, "+a :c :c .a"},
};

static void test_removals(void **state)
{
	char text[sizeof(session_text) + sizeof(changes_text)];
	struct ip_frames *frames;

	(void)state;
	snprintf(text, sizeof(text), "%s%s", session_text, changes_text);
	assert_int_equal(ip_recording_parse("s", text, strlen(text), &session), 0);
	frames = ip_frames_create(session, &ops, NULL);
	for (size_t i = 0; i < N_ELEMENTS(removals); i++)
		play(&removals[i], frames);
	ip_frames_destroy(frames);
	ip_recording_destroy(session);
}

/* A calls b, which calls h and i, when the recording begins: 8 has no exits. */
static void test_open_at_the_attach(void **state)
{
	static const char stack_text[] =
		"stack\t1\t2\t1000\t1:140724604501952,7:140724604501888,2:140724604501824,"
		"8:140724604501768\nstack\t1\t3\t1000\t\n";
	static const struct {
		struct step steps[4];
		const char *said;
	} rows[] = {
		{{{'e', 3, -256}, {'x', 3, -256}, {'x', 2, -192}, {'x', 1, -64}},
		 "+a +h +b +c -c -b ~h -a !h"},
		{{{'x', 2, -192}, {'x', 7, -128}, {'x', 1, -64}}, "+a +h +b -b -h -a"},
		/* b and h have returned before the first event */
		{{{'e', 2, -128}, {'x', 2, -128}}, "+a +h +b ~b ~h +b -b .a !b !h"},
		/* another stack */
		{{{'e', 3, -(1 << 24)}, {'x', 2, -192}}, "+a +h +b +c ~c -b .h .a !c"},
	};
	char text[sizeof(session_text) + sizeof(stack_text)];
	const struct ip_thread_packets run = {.stack = 1};
	struct ip_frames *frames;

	(void)state;
	assert_int_equal(BASE - 64, 140724604501952);
	snprintf(text, sizeof(text), "%s%s", session_text, stack_text);
	assert_int_equal(ip_recording_parse("s", text, strlen(text), &session), 0);
	assert_int_equal(ip_recording_find_stack(session, 1, 2), 1);
	frames = ip_frames_create(session, &ops, NULL);
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		struct test_case c = {.what = "open at the attach", .said = rows[i].said};

		memcpy(c.steps, rows[i].steps, sizeof(rows[i].steps));
		*said = '\0';
		assert_int_equal(ip_frames_begin_run(frames, &run), 0);
		play_on(&c, frames);
	}
	ip_frames_destroy(frames);
	ip_recording_destroy(session);
}

static void test_damaged_changes(void **state)
{
	static const char *const lines[] = {"removed\t20\t1\nremoved\t10\t2\n",
					    "removed\t20\t1-\n",
					    "removed\t20\t0\n",
					    "removed\t20\t3-1\n",
					    "removed\t20\t1,\n",
					    "removed\t20\t1;2\n",
					    "removed\t20\t99999999\n",
					    "removed\tx\t1\n",
					    "added\n"};
	char text[sizeof(session_text) + 64];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
		snprintf(text, sizeof(text), "%s%s", session_text, lines[i]);
		assert_int_equal(ip_recording_parse("s", text, strlen(text), &session), -1);
		assert_non_null(strstr(ip_error_message(), "line 1"));
	}
}

static uint64_t opened, closed;

static void count_opened(void *context, struct ip_frame *frame, size_t depth)
{
	opened++;
}

static void count_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
			 enum ip_frame_end how)
{
	closed++;
}

/* Depth, stacks and frames left behind have bounds; each frame is closed all the same. */
static void test_bounds(void **state)
{
	static const struct ip_frames_ops counting = {.opened = count_opened,
						      .closed = count_closed};
	struct ip_frames *frames;

	(void)state;
	assert_int_equal(ip_recording_parse("s", session_text, strlen(session_text), &session), 0);
	frames = ip_frames_create(session, &counting, NULL);
	for (int shape = 0; shape < 3; shape++) {
		uint64_t random = 1;

		for (uint32_t i = 0; i < 300000; i++) {
			struct ip_event e = {.ts = i, .number = 1 + i % 6, .kind = IP_PROBE_ENTRY};

			random = random * 6364136223846793005ull + 1442695040888963407ull;
			e.sp = shape == 0   ? 1ull << 40 /* inlined and not, one place */
			       : shape == 1 ? (random >> 20) & ~15ull /* a stack for each */
					    : (1ull << 40) - (random >> 50) * 64; /* up and down */
			if (shape == 2 && random >> 63)
				e.kind = IP_PROBE_EXIT;
			if (shape == 0)
				e.number = 4;
			assert_int_equal(ip_frames_feed(frames, &e, 1), 0);
		}
		ip_frames_finish(frames, 0);
		assert_true(opened >= 100000 && opened == closed);
	}
	ip_frames_destroy(frames);
	ip_recording_destroy(session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases), cmocka_unit_test(test_removals),
		cmocka_unit_test(test_open_at_the_attach), cmocka_unit_test(test_damaged_changes),
		cmocka_unit_test(test_bounds)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
