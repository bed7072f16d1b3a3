/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of threads where events are missing: lost, in a gap, or in segments that are gone.
 */
#include "analysis/wait/wait_object.h"
#include "test/unit/analysis/wait/kernel_writer.h"

/* Which call a thread is in is not known after events of the target were lost; after others it is.
 */
static void test_losses_of_calls(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	call(w, 100, 7, SYS_read, 5);
	call(w, 101, 8, SYS_read, 5);
	flush(w, "target", 0);
	w->lost = 4;
	call(w, 150, 8, SYS_futex, 5);
	flush(w, "target", 0);
	w->packets[0] = w->lost = 0;
	switch_to(w, 99, 0, 0, 7);
	switch_to(w, 160, 7, 1, 8);
	switch_to(w, 170, 8, 1, 0);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(wait_at(states, 7, 165)->call.number, IP_NO_CALL);
	assert_true(wait_at(states, 7, 165)->call.untold);
	assert_int_equal(wait_at(states, 8, 170)->call.number, SYS_futex);
	ip_states_destroy(states);
}

/* After a loss nothing is known of threads but of those that ran on another CPU. */
static void test_losses(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	switch_to(w, 90, 0, 0, 5);
	switch_to(w, 300, 5, 1, 0);
	flush(w, "all", 1);
	switch_to(w, 100, 0, 0, 7);
	switch_to(w, 110, 7, 1, 8);
	flush(w, "all", 0);
	w->lost = 20;
	switch_to(w, 200, 8, 1, 7);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(states->lost, 20);
	assert_int_equal(span(states, 7, 105)->state, IP_THREAD_RUNNING);
	assert_int_equal(span(states, 7, 150)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(span(states, 8, 150)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(span(states, 5, 150)->state, IP_THREAD_RUNNING);
	assert_int_equal(span(states, 7, 200)->state, IP_THREAD_RUNNING);
	ip_states_destroy(states);
}

/* What another CPU tells before a loss is found is known of threads that ran there alone. */
static void test_events_within_a_loss(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	switch_to(w, 90, 5, 1, 6);  /* 5 is blocked */
	switch_to(w, 150, 6, 1, 7); /* 7 had CPU 0 when its events were lost */
	switch_to(w, 160, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 170, 0, 5, IP_KERNEL_IN_HARDIRQ);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 171, 0, 5, IP_KERNEL_IN_HARDIRQ);
	switch_to(w, 180, 0, 0, 5);
	switch_to(w, 300, 5, 1, 0);
	flush(w, "all", 1);
	switch_to(w, 100, 0, 0, 7);
	flush(w, "all", 0);
	w->lost = 20;
	switch_to(w, 200, 0, 0, 8);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(span(states, 5, 95)->state, IP_THREAD_BLOCKED);
	assert_int_equal(span(states, 5, 120)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(span(states, 5, 175)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(span(states, 5, 250)->state, IP_THREAD_RUNNING);
	assert_int_equal(span(states, 6, 120)->state, IP_THREAD_RUNNING);
	assert_int_equal(span(states, 6, 155)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(span(states, 7, 120)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(span(states, 7, 155)->state, IP_THREAD_RUNNING);
	assert_int_equal(span(states, 7, 250)->state, IP_THREAD_UNKNOWN);
	ip_states_destroy(states);
}

/* What has been written of a stream becomes its file of a segment; the counts begin anew. */
static void cut(struct writer *w, const char *part, uint32_t cpu, uint32_t segment)
{
	char from[32], to[48];

	snprintf(from, sizeof(from), "%s_%u", part, cpu);
	snprintf(to, sizeof(to), "%s_%u-%u", part, cpu, segment);
	assert_int_equal(renameat(w->dir, from, w->dir, to), 0);
	w->packets[cpu] = w->lost = 0;
}

/* Thread 7 is blocked over the end of a segment; what was lost before the first one is not told. */
static void write_segments(struct writer *w)
{
	w->lost = 5;
	switch_to(w, 100, 7, 1, 0);
	flush(w, "all", 0);
	cut(w, "all", 0, 3);
	switch_to(w, 150, 0, 0, 8);
	flush(w, "all", 0);
	cut(w, "all", 0, 4);
	switch_to(w, 200, 8, 1, 7);
	flush(w, "all", 0);
	cut(w, "all", 0, 5);
}

static void test_segments(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	write_segments(w);
	states = states_of(w);
	assert_int_equal(states->lost, 5);
	assert_int_equal(states->end, 200);
	assert_int_equal(span(states, 7, 120)->state, IP_THREAD_BLOCKED);
	assert_int_equal(span(states, 7, 200)->state, IP_THREAD_RUNNING);
	ip_states_destroy(states);
	/* the oldest is gone */
	unlinkat(w->dir, "all_0-3", 0);
	states = states_of(w);
	assert_int_equal(states->lost, 0);
	assert_int_equal(states->begin, 150);
	assert_int_equal(span(states, 8, 160)->state, IP_THREAD_RUNNING);
	ip_states_destroy(states);
	/* it is back, and one is missing behind it: it does not count */
	write_segments(w);
	unlinkat(w->dir, "all_0-4", 0);
	states = states_of(w);
	assert_int_equal(states->begin, 200);
	assert_int_equal(states->lost, 0);
	ip_states_destroy(states);
}

/* The recording was broken off, and gone on with: threads are not known in between, nor are their
 * calls, but for what is so when it goes on. Nothing was lost. */
static void test_a_gap(void **state)
{
	const struct {
		int32_t tid, number;
		uint64_t arguments[6];
	} __attribute__((packed)) fields = {7, SYS_pause, {0}};
	struct writer *w = *state;
	struct ip_states *states;

	/* what comes later is written first: its files get their names then */
	for (uint32_t cpu = 0; cpu < 2; cpu++) {
		w->packets[cpu] = 1;
		w->used = sizeof(struct ip_kernel_packet_header);
		w->begin = w->end = 200;
		flush(w, "all", cpu);
		if (!cpu) {
			switch_to(w, 300, 0, 0, 8);
			flush(w, "all", cpu);
		}
		cut(w, "all", cpu, 0);
	}
	put(w, IP_KERNEL_SYSCALL_STATE, 210, 7, 0, &fields, sizeof(fields));
	flush(w, "state", 0);
	cut(w, "state", 0, 0);
	switch_to(w, 90, 0, 0, 6);
	flush(w, "all", 1);
	switch_to(w, 100, 7, 1, 8);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(states->lost, 0);
	assert_int_equal(span(states, 7, 100)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(span(states, 7, 150)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(wait_at(states, 7, 220)->call.number, SYS_pause);
	/* it had a CPU whose stream tells of the gap, too */
	assert_int_equal(span(states, 6, 95)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(span(states, 8, 250)->state, IP_THREAD_UNKNOWN);
	assert_int_equal(span(states, 8, 300)->state, IP_THREAD_RUNNING);
	ip_states_destroy(states);
}

/* A packet without events. */
static void mark(struct writer *w, const char *part, uint32_t cpu, uint64_t tsc)
{
	w->used = sizeof(struct ip_kernel_packet_header);
	w->begin = w->end = tsc;
	flush(w, part, cpu);
}

/* The streams of the oldest segment that is kept begin one after the other: until the last one has
 * begun, a CPU's events are missing. */
static void test_older_segments_are_gone(void **state)
{
	struct writer *w = *state;
	const struct ip_thread_states *t;
	struct ip_states *states;

	mark(w, "all", 0, 100);
	switch_to(w, 110, 5, 1, 6);
	wake(w, IP_KERNEL_SCHED_WAKING, 120, 6, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 121, 6, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 240, 6, 9, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 245, 6, 10, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 250, 6, 8, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 251, 6, 8, 0);
	switch_to(w, 260, 6, 0, 8);
	flush(w, "all", 0);
	cut(w, "all", 0, 4);
	mark(w, "all", 1, 200);
	switch_to(w, 300, 0, 0, 9);
	flush(w, "all", 1);
	cut(w, "all", 1, 4);
	mark(w, "target", 0, 200);
	ret(w, 270, 8, SYS_read, 1);
	call(w, 280, 9, SYS_pause, 0);
	flush(w, "target", 0);
	cut(w, "target", 0, 4);
	states = states_of(w);
	assert_int_equal(states->begin, 200);
	assert_int_equal(states->lost, 0);
	/* they may have run on CPU 1 */
	assert_int_equal(span(states, 5, 150)->state, IP_THREAD_UNKNOWN);
	t = ip_states_find(states, 7, 150);
	assert_true(!t || !t->nspans || t->spans[0].state == IP_THREAD_UNKNOWN);
	/* this one has had CPU 0 all the time */
	assert_int_equal(span(states, 6, 220)->state, IP_THREAD_RUNNING);
	/* blocked since the events of all CPUs are there; which descriptor it reads is not known */
	assert_int_equal(ip_states_find(states, 8, 220)->spans[0].from, 200);
	assert_int_equal(wait_at(states, 8, 220)->call.number, SYS_read);
	assert_int_equal(ip_wait_call_fd(&wait_at(states, 8, 220)->call), -1);
	assert_true(wait_at(states, 8, 220)->returned);
	assert_true(wait_at(states, 8, 220)->call.untold);
	assert_false(wait_at(states, 9, 220)->call.untold); /* it comes to call something later */
	assert_true(wait_at(states, 10, 220)->call.untold);
	ip_states_destroy(states);
}

/* Another stream has the segment that this one misses: it is read up to there. */
static void test_a_stream_without_a_segment(void **state)
{
	struct writer *w = *state;
	struct ip_kernel_reader *reader;
	struct ip_states *states;

	write_segments(w);
	unlinkat(w->dir, "all_0-4", 0);
	switch_to(w, 110, 0, 0, 9);
	flush(w, "all", 1);
	cut(w, "all", 1, 3);
	switch_to(w, 160, 9, 1, 0);
	flush(w, "all", 1);
	cut(w, "all", 1, 4);
	switch_to(w, 260, 0, 0, 9);
	flush(w, "all", 1);
	cut(w, "all", 1, 5);
	assert_int_equal(ip_kernel_reader_open(w->path, &reader), 1);
	states = ip_states_read(reader);
	assert_non_null(states);
	assert_int_equal(states->end, 100);
	assert_non_null(*ip_kernel_reader_damage(reader));
	assert_non_null(strstr(*ip_kernel_reader_damage(reader), "its next segment is missing"));
	ip_kernel_reader_close(reader);
	ip_states_destroy(states);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_losses_of_calls),
		TEST(test_losses),
		TEST(test_events_within_a_loss),
		TEST(test_segments),
		TEST(test_a_gap),
		TEST(test_older_segments_are_gone),
		TEST(test_a_stream_without_a_segment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
