/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the kernel's functions below those of the user: events of the kernel that the tests
 * write, and events of a thread that they feed. The line of text is that of test_frames.c, with
 * times where they matter.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/callstack/trace.h"
#include "analysis/read/kernel_calls.h"
#include "common/elf/probe_list.h"
#include "common/trace/kernel_functions.h"
#include "test/unit/analysis/wait/kernel_writer.h"

#define BASE  0x7ffd00100000ull
#define TID   7
#define OTHER 9

enum { READ, WRITE, LOCK }; /* numbers of the kernel's functions */

static const char session_text[] =
	"iprobe-session\t1\ntsc_hz\t1000000000\nmodule\t0\tm\tff\t0\t1\tinstrument\n"
	"function\t1\t0\ta\t\t0\t-\t64\nfunction\t2\t0\tb\t\t0\t-\t64\n";

static char said[4096];
static struct ip_recording *session;

static void say(const char *what, uint32_t function, uint64_t at)
{
	size_t n = strlen(said);

	assert_true(n + 4 < sizeof(said));
	snprintf(said + n, sizeof(said) - n, "%s%s%s@%lu", n ? " " : "", what,
		 session->functions[function].linker_name, at);
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	say(frame->flags & IP_FRAME_INNER ? "++" : "+", frame->function, frame->start);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	assert_true(end >= frame->start && frame->self <= end - frame->start);
	assert_int_equal(ip_frame_ticks(frame, end), end - frame->start);
	say(how == IP_END_EXIT	    ? "-"
	    : how == IP_END_UNKNOWN ? "="
	    : how == IP_END_UNWOUND ? "!"
				    : ".",
	    frame->function, end);
}

static void function(struct writer *w, uint64_t tsc, int32_t tid, unsigned number, bool exit)
{
	const struct ip_kernel_function_fields fields = {0x1000, 0x2000};

	put(w, number + (exit ? IP_KERNEL_FUNCTION_EXIT : IP_KERNEL_FUNCTION_ENTRY), tsc, tid, 0,
	    &fields, sizeof(fields));
}

static void load(struct writer *w, int names)
{
	struct ip_kernel_functions f = {0};
	int dir = openat(w->dir, "..", O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(mkdirat(dir, "iprobe", 0700), 0);
	assert_int_equal(ip_kernel_functions_add(&f, "vfs_read", ""), 0);
	assert_int_equal(ip_kernel_functions_add(&f, "vfs_write.isra.0", ""), 0);
	assert_int_equal(ip_kernel_functions_add(&f, "lock", "ext4"), 0);
	f.n = names;
	assert_int_equal(ip_kernel_functions_write(dir, &f), 0);
	f.n = 3;
	ip_kernel_functions_clear(&f);
	close(dir);
	assert_int_equal(ip_recording_parse("s", session_text, sizeof(session_text) - 1, &session),
			 0);
	assert_int_equal(ip_kernel_calls_load(w->path, session), 0);
}

static const struct ip_frames_ops ops = {.opened = on_opened, .closed = on_closed};

/* Thread TID calls a from 100 to 900, and in it b from 300 to 600. */
static const char *feed(uint64_t begin, uint64_t end)
{
	const struct ip_event events[] = {
		{100, BASE - 64, 1, IP_PROBE_ENTRY, 0},
		{300, BASE - 128, 2, IP_PROBE_ENTRY, 0},
		{600, BASE - 128, 2, IP_PROBE_EXIT, 0},
		{900, BASE - 64, 1, IP_PROBE_EXIT, 0},
	};
	struct ip_frames *frames = ip_frames_create(session, &ops, NULL);

	said[0] = '\0';
	assert_non_null(frames);
	ip_frames_set_kernel(frames, TID, TID, begin);
	assert_int_equal(ip_frames_feed(frames, events, 4), 0);
	ip_frames_finish(frames, end);
	ip_frames_destroy(frames);
	return said;
}

static void end(void)
{
	ip_recording_destroy(session);
	session = NULL;
}

static void test_nested(void **state)
{
	struct writer *w = *state;

	function(w, 50, TID, READ, false); /* before any event: no function is known to be open */
	function(w, 60, TID, READ, true);
	function(w, 200, TID, READ, false);
	function(w, 210, TID, LOCK, false);
	function(w, 220, TID, LOCK, true);
	function(w, 250, TID, READ, true);
	function(w, 400, TID, WRITE, false);
	flush(w, "target", 0);
	/* it goes on on another CPU; another thread calls as well */
	function(w, 390, OTHER, READ, false);
	function(w, 405, OTHER, READ, true);
	function(w, 410, TID, WRITE, false);
	function(w, 420, TID, WRITE, true);
	function(w, 500, TID, WRITE, true);
	flush(w, "target", 1);
	load(w, 3);
	assert_string_equal(feed(100, 950),
			    "+a@100 +vfs_read@200 +lock@210 -lock@220 -vfs_read@250 +b@300 "
			    "+vfs_write@400 ++vfs_write@410 -vfs_write@420 -vfs_write@500 -b@600 "
			    "-a@900");
	assert_string_equal(ip_recording_module_name(session, &session->functions[3]), "[kernel]");
	assert_true(session->functions[3].kernel && !session->functions[2].kernel);
	assert_int_equal(ip_kernel_calls_unknown(session->kernel_calls), 0);
	assert_non_null(ip_kernel_calls_find(session->kernel_calls, OTHER, OTHER));
	assert_null(ip_kernel_calls_find(session->kernel_calls, TID, 8));
	end();
}

/* Behind the last event, up to the end of the thread. */
static void test_open_at_the_end(void **state)
{
	struct writer *w = *state;

	function(w, 910, TID, READ, false);
	function(w, 920, TID, LOCK, false);
	function(w, 930, TID, LOCK, true);
	flush(w, "target", 0);
	load(w, 3);
	assert_string_equal(feed(100, 950), "+a@100 +b@300 -b@600 -a@900 +vfs_read@910 +lock@920 "
					    "-lock@930 .vfs_read@950");
	end();
}

/* The end of a call whose return was missed is not known: the thread has been in user mode. */
static void test_missed_returns(void **state)
{
	struct writer *w = *state;

	function(w, 150, TID, READ, false); /* missed */
	function(w, 400, TID, READ, false); /* missed, in a call that returns */
	function(w, 410, TID, LOCK, false);
	function(w, 420, TID, LOCK, true);
	function(w, 700, TID, WRITE, false);
	function(w, 710, TID, READ, false); /* missed */
	function(w, 720, TID, WRITE, true);
	function(w, 730, TID, LOCK, true); /* its entry is not there */
	flush(w, "target", 0);
	load(w, 3);
	assert_string_equal(feed(100, 950),
			    "+a@100 +vfs_read@150 =vfs_read@150 +b@300 +vfs_read@400 =vfs_read@400 "
			    "+lock@410 -lock@420 -b@600 +vfs_write@700 +vfs_read@710 "
			    "=vfs_read@710 -vfs_write@720 -a@900");
	end();
}

/* What was open while events were lost on any CPU has no known end, and what began then. */
static void test_losses(void **state)
{
	struct writer *w = *state;

	function(w, 150, TID, READ, false);
	function(w, 160, TID, READ, true);
	function(w, 400, TID, READ, false); /* open when the loss begins */
	flush(w, "target", 0);
	w->lost = 3; /* on CPU 1, between 410 and 450 */
	function(w, 450, OTHER, READ, false);
	flush(w, "target", 1);
	w->lost = 0;
	function(w, 430, TID, READ, true);
	function(w, 440, TID, WRITE, false); /* within */
	function(w, 445, TID, WRITE, true);
	function(w, 460, TID, LOCK, false);
	function(w, 470, TID, LOCK, true);
	flush(w, "target", 0);
	load(w, 3);
	/* CPU 1 has no packet before: nothing is known since the beginning */
	assert_int_equal(ip_kernel_calls_lost(session->kernel_calls), 3);
	assert_string_equal(feed(100, 950),
			    "+a@100 +vfs_read@150 =vfs_read@150 +b@300 +vfs_read@400 =vfs_read@400 "
			    "+vfs_write@440 =vfs_write@440 +lock@460 -lock@470 -b@600 -a@900");
	end();
}

static void test_loss_of_a_while(void **state)
{
	struct writer *w = *state;

	function(w, 150, TID, READ, false);
	function(w, 160, TID, READ, true);
	function(w, 400, TID, WRITE, false); /* open when the loss begins */
	function(w, 410, TID, LOCK, false);
	function(w, 415, TID, LOCK, true);
	flush(w, "target", 0);
	w->lost = 1; /* between 415 and 450 */
	function(w, 450, TID, WRITE, true);
	function(w, 460, TID, READ, false);
	function(w, 470, TID, READ, true);
	flush(w, "target", 0);
	load(w, 3);
	assert_int_equal(ip_kernel_calls_unknown(session->kernel_calls), 1);
	assert_string_equal(feed(100, 950),
			    "+a@100 +vfs_read@150 -vfs_read@160 +b@300 +vfs_write@400 "
			    "=vfs_write@400 +lock@410 -lock@415 +vfs_read@460 -vfs_read@470 -b@600 "
			    "-a@900");
	end();
}

/* A thread of a container is found by the ids that it has there, and no other is. */
static void test_container(void **state)
{
	const int32_t ids[] = {4007, 4000, TID, TID};
	struct writer *w = *state;

	put(w, IP_KERNEL_IDS_STATE, 10, 4007, 0, ids, sizeof(ids));
	flush(w, "state", 0);
	function(w, 200, 4007, READ, false);
	function(w, 250, 4007, READ, true);
	function(w, 260, 8, READ, false); /* another process' thread with the same number */
	flush(w, "target", 0);
	load(w, 3);
	assert_string_equal(feed(100, 950),
			    "+a@100 +vfs_read@200 -vfs_read@250 +b@300 -b@600 -a@900");
	assert_null(ip_kernel_calls_find(session->kernel_calls, TID, 8));
	end();
}

/* Calls in each other, more than there is room for. */
static void test_deep(void **state)
{
	struct writer *w = *state;
	const struct ip_kernel_thread *t;
	size_t known = 0;

	for (unsigned i = 0; i < 2 * IP_KERNEL_DEPTH; i++)
		function(w, 110 + i, TID, LOCK, false);
	for (unsigned i = 0; i < 2 * IP_KERNEL_DEPTH; i++)
		function(w, 300 + i, TID, LOCK, true);
	flush(w, "target", 0);
	load(w, 3);
	t = ip_kernel_calls_find(session->kernel_calls, TID, TID);
	assert_non_null(t);
	assert_int_equal(t->n, 2 * IP_KERNEL_DEPTH);
	for (size_t i = 0; i < t->n; i++)
		known += t->calls[i].end != IP_KERNEL_END_UNKNOWN;
	assert_int_equal(known, IP_KERNEL_DEPTH);
	feed(100, 950);
	end();
}

/* A list that does not have the functions of the events, or is none at all. */
static void test_list(void **state)
{
	static const char *const bad[] = {"vfs_read\n", "vfs read\t\n", "\t\n", "a\t\"\n",
					  "a;b\t\n"};
	struct writer *w = *state;
	struct ip_kernel_functions f;
	char path[PATH_MAX + 64];

	function(w, 200, TID, LOCK, false);
	function(w, 250, TID, LOCK, true);
	flush(w, "target", 0);
	load(w, 1);
	assert_string_equal(feed(100, 950), "+a@100 +b@300 -b@600 -a@900");
	end();
	snprintf(path, sizeof(path), "%s/%s", w->path, IP_TRACE_KERNEL_FUNCTIONS);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		FILE *out = fopen(path, "w");

		fputs(bad[i], out);
		fclose(out);
		assert_int_equal(ip_kernel_functions_read(w->path, &f), -1);
		ip_kernel_functions_clear(&f);
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ip_kernel_functions_read(w->path, &f), 0);
	assert_int_equal(f.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nested, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_at_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_missed_returns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_losses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_loss_of_a_while, setup, teardown),
		cmocka_unit_test_setup_teardown(test_container, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_list, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
