/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn of a session's loop: each reason to end by what causes it, in their order, and how long
 * the loop sleeps otherwise.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/interrupted.h"
#include "common/now.h"
#include "hotpatcher/inject/thread_areas.h"
#include "hotpatcher/ptrace/stops.h"
#include "session/process_names.h"
#include "session/session_private.h"
#include "session/thread_names.h"
#include "test/unit/fake_recording.h"
#include "test/unit/test.h"

#define SLOT	     1
#define SECOND_NS    1000000000ull
#define MANY_BYTES   (1ull << 30)
#define ATTENTIVE_NS 1000000ull

static struct fake_recording r;
static struct ip_session s;
static struct ip_session_options options;
static struct ip_session_summary summary;
static enum ip_end_reason decided;
static unsigned steps;
static uint64_t nap_ns;
static struct ip_session_progress progress;
static unsigned nprogress;
static struct rlimit largest_file; /* as it was */

static void destroy_stops(struct ip_target_state *state)
{
	free(state);
}

static enum ip_end_reason decide(void *data, struct ip_session *session)
{
	(void)data;
	assert_ptr_equal(session, &s);
	steps++;
	return decided;
}

static uint64_t nap(const void *data, uint64_t now_ns)
{
	(void)data;
	(void)now_ns;
	return nap_ns;
}

static const struct ip_session_controller controller = {.step = decide, .nap = nap};

static void begin_with(uint64_t max_size)
{
	const struct ip_area_needs needs = {.memory = 1 << 20};
	struct ip_stops *stops = calloc(1, sizeof(*stops));

	fake_recording_begin(&r, &needs, max_size);
	assert_non_null(stops);
	stops->base.destroy = destroy_stops;
	r.target->state = &stops->base;
	options = (struct ip_session_options){0};
	s = (struct ip_session){.options = &options,
				.summary = &summary,
				.target = r.target,
				.area = r.area,
				.trace = r.trace,
				.collector = r.collector,
				.start_ns = ip_now_ns()};
	assert_int_equal(ip_follow_fork_create(r.area, r.target, false, SECOND_NS, &s.followed), 0);
	ip_controllers_add(&s, &controller);
	decided = IP_END_NONE;
	steps = 0;
	nap_ns = UINT64_MAX;
	ip_interrupted = 0;
}

static int begin(void **state)
{
	(void)state;
	getrlimit(RLIMIT_FSIZE, &largest_file);
	begin_with(MANY_BYTES);
	return 0;
}

static int end(void **state)
{
	(void)state;
	setrlimit(RLIMIT_FSIZE, &largest_file);
	ip_interrupted = 0;
	ip_thread_areas_destroy(s.threads);
	ip_thread_names_destroy(s.thread_names);
	ip_process_names_destroy(s.process_names);
	ip_follow_fork_destroy(s.followed);
	ip_follow_dlopen_destroy(s.follow);
	ip_modules_clear(&s.modules); /* ours: the kernel was asked for the maps */
	fake_recording_end(&r);
	return 0;
}

static enum ip_end_reason step(void)
{
	return ip_session_step(&s);
}

/* A thread of ours, which lives, has filled a sub-buffer. */
static void put_full(uint32_t subbuf, uint64_t ordinal)
{
	if (!ordinal)
		fake_thread_claim(&r, SLOT, (uint32_t)getpid());
	fake_thread_take(&r, SLOT, subbuf, ordinal, IP_SUBBUF_WORDS);
	fake_fill(fake_words(&r, subbuf), IP_SUBBUF_WORDS,
		  (1ull << 40) + ordinal * IP_SUBBUF_WORDS);
	fake_thread_leave(&r, SLOT, ordinal);
	r.area->subbufs[subbuf].state = IP_SUBBUF_FULL;
}

static void test_it_goes_on(void **state)
{
	struct ip_collector_stats stats;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		put_full(3, i);
		assert_int_equal(step(), IP_END_NONE);
		ip_collector_stats(r.collector, &stats);
		assert_int_equal(stats.events, (i + 1) * (IP_SUBBUF_ROOM - 2));
	}
	assert_int_equal(steps, 3);
	/* another session was detached; a trigger that nobody has asked for; time is left */
	r.area->header->ended = r.area->header->session + 1;
	r.area->filters->stopped = 1;
	options.duration_ns = 3600 * SECOND_NS;
	assert_int_equal(step(), IP_END_NONE);
}

static void set_write_failed(bool on)
{
	s.write_failed = on;
}

static void set_interrupted(bool on)
{
	ip_interrupted = on ? 2 : 0;
}

static void set_duration(bool on)
{
	options.duration_ns = on ? SECOND_NS : 0;
	s.start_ns = ip_now_ns() - SECOND_NS;
}

static void set_decided(bool on)
{
	decided = on ? IP_END_UNTIL : IP_END_NONE;
}

static void set_confined(bool on)
{
	s.confined = on;
}

static void set_mixed(bool on)
{
	s.mixed = on;
}

static void set_stopped(bool on)
{
	options.filters.stop.name = on ? (char *)"f" : NULL;
	r.area->filters->stopped = on;
}

static void set_detached(bool on)
{
	r.area->header->ended = on ? r.area->header->session : 0;
}

static void set_execed(bool on)
{
	s.execed = on;
}

static void set_exited(bool on)
{
	r.target->exited = on;
}

/* Highest first: where several hold, the trace says the first of them. The two reasons of room are
 * by themselves below: once there, they never go. */
static const struct {
	void (*set)(bool on);
	enum ip_end_reason reason;
} causes[] = {
	{set_write_failed, IP_END_WRITE_FAILED},
	{set_interrupted, IP_END_INTERRUPTED},
	{set_duration, IP_END_DURATION},
	{set_decided, IP_END_UNTIL},
	{set_confined, IP_END_CONFINED},
	{set_mixed, IP_END_AREAS},
	{set_stopped, IP_END_STOP_ON},
	{set_detached, IP_END_DETACHED},
	{set_execed, IP_END_EXECED},
	{set_exited, IP_END_TARGET_ENDED},
};

static void test_each_by_itself(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(causes); i++) {
		assert_int_equal(step(), IP_END_NONE);
		causes[i].set(true);
		assert_int_equal(step(), causes[i].reason);
		/* it stays so */
		assert_int_equal(step(), causes[i].reason);
		causes[i].set(false);
	}
}

static void test_their_order(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(causes); i++)
		causes[i].set(true);
	for (size_t i = 0; i < N_ELEMENTS(causes); i++) {
		assert_int_equal(step(), causes[i].reason);
		causes[i].set(false);
	}
	assert_int_equal(step(), IP_END_NONE);
	/* controllers were asked each time: they have meters to read */
	assert_int_equal(steps, N_ELEMENTS(causes) + 1);
}

/* A trace that has no more room: behind --stop-on, before detach. */
static void assert_room(enum ip_end_reason reason)
{
	set_detached(true);
	set_execed(true);
	set_stopped(true);
	assert_int_equal(step(), IP_END_STOP_ON);
	set_stopped(false);
	assert_int_equal(step(), reason);
	set_detached(false);
	set_execed(false);
	/* once there, it stays */
	assert_int_equal(step(), reason);
}

static void test_the_limit_of_the_size(void **state)
{
	(void)state;
	end(NULL);
	begin_with(1000);
	assert_int_equal(step(), IP_END_NONE);
	put_full(3, 0);
	assert_room(IP_END_SIZE_LIMIT);
}

/* The largest size that a file may have is as good as a full disk. */
static void test_no_space(void **state)
{
	const struct rlimit limit = {20000, largest_file.rlim_max};

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(step(), IP_END_NONE);
	put_full(3, 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_room(IP_END_NO_SPACE);
}

/* A packet cannot be written, for a reason that no room would help. */
static void test_a_write_that_fails(void **state)
{
	(void)state;
	put_full(3, 0);
	assert_int_equal(mkdirat(ip_trace_dirfd(r.trace), "stream-1", 0700), 0);
	set_interrupted(true);
	assert_int_equal(step(), IP_END_WRITE_FAILED);
	assert_true(s.write_failed);
	/* and for good */
	assert_int_equal(unlinkat(ip_trace_dirfd(r.trace), "stream-1", AT_REMOVEDIR), 0);
	assert_int_equal(step(), IP_END_WRITE_FAILED);
}

/* The duration is that of the session, to its very end. */
static void test_the_duration(void **state)
{
	(void)state;
	options.duration_ns = 50000000;
	while (step() == IP_END_NONE)
		assert_true(ip_now_ns() - s.start_ns < 10 * SECOND_NS);
	assert_int_equal(step(), IP_END_DURATION);
	assert_true(ip_now_ns() - s.start_ns >= options.duration_ns);
}

/* The target executes another program: its memory is gone, and it lives. */
static void test_an_exec(void **state)
{
	struct ip_collector_stats stats;

	(void)state;
	assert_int_equal(ip_follow_dlopen_begin(&s), 0);
	assert_int_equal(step(), IP_END_NONE);
	put_full(3, 0);
	fake_thread_take(&r, SLOT, 4, 1, 10);
	fake_fill(fake_words(&r, 4), 10, (1ull << 40) + IP_SUBBUF_WORDS);
	s.live = true;
	fake_target_lose_memory(r.target);
	assert_int_equal(step(), IP_END_EXECED);
	assert_true(s.execed);
	/* nothing of the new program is ours, and all of the old one is in the trace */
	assert_false(s.live);
	assert_int_equal(r.area->slots[SLOT].state, IP_SLOT_FREE);
	ip_collector_stats(r.collector, &stats);
	assert_int_equal(stats.events, IP_SUBBUF_ROOM - 2 + 7);
	assert_int_equal(step(), IP_END_EXECED);
}

/* A run waits for its command's images by itself; and one that ends loses its memory a moment
 * before it is seen to have ended. */
static void test_memory_that_is_gone(void **state)
{
	(void)state;
	assert_int_equal(ip_follow_dlopen_begin(&s), 0);
	s.launched = true;
	fake_target_lose_memory(r.target);
	assert_int_equal(step(), IP_END_NONE);
	s.launched = false;
	r.target->one_image = true;
	assert_int_equal(step(), IP_END_NONE);
	assert_false(s.execed);
	r.target->exited = true;
	assert_int_equal(step(), IP_END_TARGET_ENDED);
	/* a program that we may not touch is none to us */
	r.target->exited = false;
	r.target->closed = true;
	assert_int_equal(step(), IP_END_TARGET_ENDED);
}

static void on_progress(void *context, const struct ip_session_progress *p)
{
	assert_ptr_equal(context, &r);
	progress = *p;
	nprogress++;
}

static void test_progress(void **state)
{
	(void)state;
	nprogress = 0;
	options.on_progress = on_progress;
	options.context = &r;
	options.duration_ns = 3600 * SECOND_NS;
	put_full(3, 0);
	r.area->slots[SLOT].lost = 4;
	assert_int_equal(step(), IP_END_NONE);
	assert_int_equal(nprogress, 1);
	assert_int_equal(progress.events, IP_SUBBUF_ROOM - 2);
	assert_int_equal(progress.lost, 4);
	assert_true(progress.has_duration);
	assert_in_range(progress.left_ns, 3500 * SECOND_NS, 3600 * SECOND_NS);
	assert_true(progress.written > 0);
	/* four times a second, not each time */
	assert_int_equal(step(), IP_END_NONE);
	assert_int_equal(nprogress, 1);
	s.shown_ns -= SECOND_NS;
	s.start_ns -= 7200 * SECOND_NS;
	options.duration_ns += 7100 * SECOND_NS;
	assert_int_equal(step(), IP_END_NONE);
	assert_int_equal(nprogress, 2);
	/* it is over: no time is left */
	s.shown_ns -= SECOND_NS;
	options.duration_ns = SECOND_NS;
	assert_int_equal(step(), IP_END_DURATION);
	assert_int_equal(nprogress, 3);
	assert_int_equal(progress.left_ns, 0);
}

/* What comes by no descriptor is looked for soon where it is expected. */
static void test_naps(void **state)
{
	const uint64_t now = s.start_ns + 100 * SECOND_NS;
	struct ip_stops *stops = ip_stops_of(r.target);

	(void)state;
	assert_int_equal(ip_session_longest_nap(&s, now), IP_POLL_INTERVAL_MAX_NS);
	r.area->may_read = true; /* seccomp has to be seen in time */
	assert_in_range(ip_session_longest_nap(&s, now), 1, IP_POLL_INTERVAL_MAX_NS - 1);
	r.area->may_read = false;
	options.duration_ns = 100 * SECOND_NS + IP_POLL_INTERVAL_MAX_NS;
	assert_int_equal(ip_session_longest_nap(&s, now), IP_POLL_INTERVAL_MAX_NS);
	options.duration_ns--;
	assert_int_equal(ip_session_longest_nap(&s, now), ATTENTIVE_NS);
	options.duration_ns = 0;
	options.filters.names = "worker*";
	assert_int_equal(ip_session_longest_nap(&s, now), ATTENTIVE_NS);
	options.filters.names = NULL;
	stops->nheld = 1;
	assert_int_equal(ip_session_longest_nap(&s, now), ATTENTIVE_NS);
	stops->nheld = 0;
	s.execed = true;
	assert_int_equal(ip_session_longest_nap(&s, now), ATTENTIVE_NS);
	/* a controller knows best */
	nap_ns = 7000000;
	assert_int_equal(ip_session_longest_nap(&s, now), nap_ns);
	/* but the next image of a command waits for us */
	s.launched = true;
	assert_int_equal(ip_session_longest_nap(&s, now), nap_ns);
	assert_int_equal(ip_session_longest_nap(&s, s.start_ns), ATTENTIVE_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_it_goes_on, begin, end),
		cmocka_unit_test_setup_teardown(test_each_by_itself, begin, end),
		cmocka_unit_test_setup_teardown(test_their_order, begin, end),
		cmocka_unit_test_setup_teardown(test_the_limit_of_the_size, begin, end),
		cmocka_unit_test_setup_teardown(test_no_space, begin, end),
		cmocka_unit_test_setup_teardown(test_a_write_that_fails, begin, end),
		cmocka_unit_test_setup_teardown(test_the_duration, begin, end),
		cmocka_unit_test_setup_teardown(test_an_exec, begin, end),
		cmocka_unit_test_setup_teardown(test_memory_that_is_gone, begin, end),
		cmocka_unit_test_setup_teardown(test_progress, begin, end),
		cmocka_unit_test_setup_teardown(test_naps, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
