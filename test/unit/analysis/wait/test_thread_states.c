/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of threads from events of the kernel that the tests write: one rule of thread_states.h
 * after the other; and the critical path through them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "analysis/wait/critical_path.h"
#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/wait_object.h"
#include "test/unit/analysis/wait/kernel_writer.h"
#include "test/unit/test.h"

static void test_a_wait(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	const struct ip_thread_wait *wait;

	switch_to(w, 100, 9, 0, 7);
	call(w, 110, 7, SYS_futex, 0x1234);
	switch_to(w, 120, 7, 1, 9);
	futex(w, 125, 9, 0x1234, FUTEX_WAKE, 1);
	wake(w, IP_KERNEL_SCHED_WAKING, 130, 9, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 132, 9, 7, 0);
	switch_to(w, 140, 9, 0x100, 7);
	ret(w, 150, 7, SYS_futex, 0);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(span(states, 7, 105)->state, IP_THREAD_RUNNING);
	assert_int_equal(span(states, 7, 119)->state, IP_THREAD_RUNNING);
	wait = wait_at(states, 7, 131);
	assert_int_equal(wait->call.number, SYS_futex);
	assert_int_equal(wait->call.arguments[0], 0x1234);
	assert_int_equal(wait->waking.tsc, 130);
	assert_int_equal(wait->waking.waker, 9);
	assert_int_equal(wait->waking.word, 0x1234);
	assert_true(wait->returned);
	assert_int_equal(span(states, 7, 132)->state, IP_THREAD_RUNNABLE);
	assert_int_equal(span(states, 7, 140)->state, IP_THREAD_RUNNING);
	/* thread 9 was preempted by 7 */
	assert_int_equal(span(states, 9, 145)->state, IP_THREAD_RUNNABLE);
	assert_true(span(states, 9, 145)->preempted);
	assert_int_equal(span(states, 9, 145)->other, 7);
	ip_states_destroy(states);
}

/* The waking may come a moment before the switch of the thread that it wakes. */
static void test_a_waking_that_is_early(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	switch_to(w, 100, 0, 0, 9);
	wake(w, IP_KERNEL_SCHED_WAKING, 119, 9, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 125, 9, 7, 0);
	flush(w, "all", 1);
	switch_to(w, 90, 0, 0, 7);
	switch_to(w, 120, 7, 1, 0);
	switch_to(w, 130, 0, 0, 7);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(wait_at(states, 7, 122)->waking.waker, 9);
	assert_int_equal(span(states, 7, 126)->state, IP_THREAD_RUNNABLE);
	ip_states_destroy(states);
}

/* One that kept a thread from blocking has nothing to do with its next wait. */
static void test_an_early_waking_is_over(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	switch_to(w, 90, 0, 0, 7);
	wake(w, IP_KERNEL_SCHED_WAKING, 119, 9, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 121, 9, 7, 0);
	switch_to(w, 130, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 150, 9, 7, 0);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(wait_at(states, 7, 135)->waking.tsc, 0);
	ip_states_destroy(states);
}

/* Who waits for a word and is moved to another one waits for that, in the end. */
static void test_requeued_waits(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_wait_object object;

	switch_to(w, 90, 0, 0, 7);
	futex(w, 95, 7, 0x100, FUTEX_WAIT, 0);
	switch_to(w, 100, 7, 1, 9);
	futex(w, 110, 9, 0x100, FUTEX_CMP_REQUEUE, 0);
	ret(w, 111, 9, SYS_futex, 1);
	futex(w, 112, 9, 0x200, FUTEX_WAKE, 1);
	wake(w, IP_KERNEL_SCHED_WAKING, 113, 9, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 114, 9, 7, 0);
	flush(w, "all", 0);
	states = states_of(w);
	ip_wait_object_of(wait_at(states, 7, 105), NULL, 1, 0, &object);
	assert_int_equal(object.kind, IP_WAIT_FUTEX);
	assert_int_equal(object.address, 0x200);
	ip_states_destroy(states);
}

/* As far as the result tells what ended the wait. */
static void test_waits_for_completions(void **state)
{
	static const struct {
		uint16_t number;
		int64_t result;
		enum ip_wait_kind kind;
	} cases[] = {{SYS_io_uring_enter, 1, IP_WAIT_IO_URING},
		     {SYS_io_uring_enter, 0, IP_WAIT_IO_URING},
		     {SYS_io_uring_enter, -ETIME, IP_WAIT_TIMER},
		     {SYS_io_uring_enter, -EINTR, IP_WAIT_SIGNAL},
		     {SYS_io_getevents, 0, IP_WAIT_TIMER},
		     {SYS_io_getevents, 2, IP_WAIT_IO_URING}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ip_thread_wait wait = {.call.number = cases[i].number,
					      .result = cases[i].result,
					      .returned = true,
					      .kind = 'S'};
		struct ip_wait_object object;

		ip_wait_object_of(&wait, NULL, 1, 0, &object);
		assert_int_equal(object.kind, cases[i].kind);
	}
}

/* Conditions and semaphores have the same operation as locks, but another value. */
static void test_what_is_a_lock(void **state)
{
	struct ip_thread_call c = {.number = SYS_futex, .arguments = {1, FUTEX_WAIT, 2}};

	(void)state;
	assert_true(ip_wait_is_lock(&c));
	c.arguments[2] = 0;
	assert_false(ip_wait_is_lock(&c));
	c.arguments[1] = FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG;
	assert_true(ip_wait_is_lock(&c));
	c.arguments[1] = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME;
	c.arguments[2] = FUTEX_WAITERS | 77;
	assert_true(ip_wait_is_lock(&c));
	c.number = SYS_read;
	assert_false(ip_wait_is_lock(&c));
}

static void test_interrupts_are_no_threads(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	switch_to(w, 100, 0, 0, 7);
	switch_to(w, 110, 7, 2, 9);
	wake(w, IP_KERNEL_SCHED_WAKING, 120, 9, 7, IP_KERNEL_IN_HARDIRQ);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 121, 9, 7, IP_KERNEL_IN_HARDIRQ);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(wait_at(states, 7, 115)->waking.context, IP_KERNEL_IN_HARDIRQ);
	assert_int_equal(wait_at(states, 7, 115)->kind, 'D');
	ip_states_destroy(states);
}

/* A call that a stop has broken off goes on as restart_syscall(2). */
static void test_restarted_calls(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	switch_to(w, 100, 0, 0, 7);
	call(w, 101, 7, SYS_nanosleep, 1);
	switch_to(w, 102, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 110, 9, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 110, 9, 7, 0);
	switch_to(w, 112, 0, 0, 7);
	ret(w, 113, 7, SYS_nanosleep, -516);
	call(w, 114, 7, SYS_restart_syscall, 0);
	switch_to(w, 115, 7, 1, 0);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(wait_at(states, 7, 116)->call.number, SYS_nanosleep);
	ip_states_destroy(states);
}

/* Where a stop has broken it off, the thread stands between the two. */
static void test_calls_restarted_after_a_stop(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	switch_to(w, 100, 0, 0, 7);
	call(w, 101, 7, SYS_nanosleep, 1);
	ret(w, 113, 7, SYS_nanosleep, -516);
	switch_to(w, 114, 7, 8, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 120, 9, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 120, 9, 7, 0);
	switch_to(w, 122, 0, 0, 7);
	call(w, 123, 7, SYS_restart_syscall, 0);
	switch_to(w, 124, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 130, 9, 7, 0);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(wait_at(states, 7, 115)->kind, 't');
	assert_int_equal(wait_at(states, 7, 125)->call.number, SYS_nanosleep);
	ip_states_destroy(states);
}

/* Nothing is known behind the end of the CPU whose events end first. */
static void test_streams_that_end_early(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_path_step *steps;
	size_t n;

	switch_to(w, 100, 0, 0, 7);
	switch_to(w, 110, 7, 1, 0);
	flush(w, "all", 0);
	switch_to(w, 90, 0, 0, 8);
	switch_to(w, 300, 8, 1, 0);
	flush(w, "all", 1);
	states = states_of(w);
	assert_int_equal(states->end, 110);
	assert_int_equal(
		ip_critical_path_find(states, ip_states_find(states, 8, 100), 95, 200, &steps, &n),
		0);
	assert_int_equal(steps[n - 1].state, IP_THREAD_UNKNOWN);
	assert_int_equal(steps[n - 1].from, 110);
	assert_int_equal(steps[n - 1].to, 200);
	free(steps);
	ip_states_destroy(states);
}

static uint32_t own_pid(const void *context, int32_t tid, uint64_t tsc)
{
	return tid == 9 ? 0 : 7;
}

static void test_descriptors_that_are_closed(void **state)
{
	char text[] = "10\t7\t3\tfile\t/a\n20\t7\t3\tfile\t/b\n10\t7\t4\tfile\t/c\n"
		      "10\t8\t3\tfile\t/d\n";
	const struct ip_closing closings[] = {{15, 7, 3, 3}, {30, 9, 4, 4}, {40, 7, 0, UINT32_MAX}};
	struct ip_descriptors d = {0};

	assert_int_equal(ip_descriptors_parse(text, &d), 0);
	ip_descriptors_end(&d, closings, 3, own_pid, NULL);
	assert_string_equal(ip_descriptors_find(&d, 7, 3, 12)->text, "/a");
	assert_null(ip_descriptors_find(&d, 7, 3, 16));
	assert_string_equal(ip_descriptors_find(&d, 7, 3, 39)->text, "/b");
	assert_null(ip_descriptors_find(&d, 7, 3, 41));
	assert_string_equal(ip_descriptors_find(&d, 7, 4, 29)->text, "/c");
	assert_null(ip_descriptors_find(&d, 7, 4, 31)); /* by a thread of some process */
	assert_string_equal(ip_descriptors_find(&d, 8, 3, 100)->text, "/d");
	/* what was there at the beginning was there before it was noted */
	assert_string_equal(ip_descriptors_find(&d, 8, 3, 0)->text, "/d");
	ip_descriptors_clear(&d);
}

static void test_polls_are_charged_to_what_is_used_then(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_wait_object o;

	switch_to(w, 100, 0, 0, 7);
	call(w, 101, 7, SYS_epoll_wait, 3);
	switch_to(w, 102, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 110, 9, 7, 0);
	switch_to(w, 112, 0, 0, 7);
	ret(w, 113, 7, SYS_epoll_wait, 1);
	call(w, 114, 7, SYS_getpid, 0);
	ret(w, 115, 7, SYS_getpid, 7);
	call(w, 116, 7, SYS_read, 12);
	ret(w, 117, 7, SYS_read, 1);
	call(w, 118, 7, SYS_read, 13);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(wait_at(states, 7, 105)->next_fd, 12);
	ip_wait_object_of(wait_at(states, 7, 105), NULL, 7, 0, &o);
	assert_int_equal(o.kind, IP_WAIT_POLL); /* what descriptor 12 is is not known here */
	assert_int_equal(o.fd, 12);
	ip_states_destroy(states);
}

/* A call that waits twice, and that a stop breaks off, waits for one and the same. */
static void test_polls_that_go_on(void **state)
{
	static const struct {
		unsigned number, again;
		int64_t result;
	} cases[] = {{SYS_poll, SYS_restart_syscall, -516}, {SYS_ppoll, SYS_ppoll, -514}};
	struct writer *w = *state;
	struct ip_states *states;
	uint64_t tsc = 100;

	for (size_t i = 0; i < 2; i++, tsc += 100) {
		switch_to(w, tsc, 0, 0, 7);
		call(w, tsc + 1, 7, cases[i].number, 3);
		for (unsigned k = 0; k < 2; k++) {
			switch_to(w, tsc + 2 + 10 * k, 7, 1, 0);
			wake(w, IP_KERNEL_SCHED_WAKEUP, tsc + 5 + 10 * k, 9, 7, 0);
			switch_to(w, tsc + 6 + 10 * k, 0, 0, 7);
		}
		ret(w, tsc + 30, 7, cases[i].number, cases[i].result);
		call(w, tsc + 31, 7, cases[i].again, 3);
		switch_to(w, tsc + 40, 7, 1, 0);
		wake(w, IP_KERNEL_SCHED_WAKEUP, tsc + 50, 9, 7, 0);
		switch_to(w, tsc + 52, 0, 0, 7);
		ret(w, tsc + 53, 7, cases[i].again, 1);
		call(w, tsc + 54, 7, SYS_read, 12);
		ret(w, tsc + 55, 7, SYS_read, 1);
		switch_to(w, tsc + 56, 7, 0, 0);
	}
	flush(w, "all", 0);
	states = states_of(w);
	for (uint64_t at = 100; at < 300; at += 100) {
		assert_int_equal(wait_at(states, 7, at + 3)->next_fd, 12);
		assert_int_equal(wait_at(states, 7, at + 13)->next_fd, 12);
		assert_int_equal(wait_at(states, 7, at + 45)->next_fd, 12);
	}
	ip_states_destroy(states);
}

/* A handled signal ends the wait: what comes then is another call. */
static void test_polls_that_a_signal_ends(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_wait_object o;

	switch_to(w, 100, 0, 0, 7);
	call(w, 101, 7, SYS_poll, 3);
	switch_to(w, 102, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 110, 9, 7, 0);
	switch_to(w, 112, 0, 0, 7);
	ret(w, 113, 7, SYS_poll, -516);
	call(w, 114, 7, SYS_rt_sigreturn, 0); /* which has no return */
	call(w, 116, 7, SYS_poll, 3);
	ret(w, 117, 7, SYS_poll, 1);
	flush(w, "all", 0);
	states = states_of(w);
	ip_wait_object_of(wait_at(states, 7, 105), NULL, 7, 0, &o);
	assert_int_equal(o.kind, IP_WAIT_SIGNAL);
	ip_states_destroy(states);
}

static void test_what_was_so_before(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;

	switch_to(w, 100, 9, 0, 8);		       /* 8 could have run, 9 ran */
	wake(w, IP_KERNEL_SCHED_WAKING, 110, 8, 7, 0); /* 7 was blocked */
	wake(w, IP_KERNEL_SCHED_WAKEUP, 111, 8, 7, 0);
	flush(w, "all", 0);
	states = states_of(w);
	assert_int_equal(span(states, 7, 105)->state, IP_THREAD_BLOCKED);
	assert_null(ip_states_find(states, 6, 105));
	ip_states_destroy(states);
}

static void test_tids_are_used_again(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct {
		char parent[16];
		int32_t parent_tid;
		char child[16];
		int32_t child_tid;
	} __attribute__((packed)) fork = {"p", 9, "c", 7};

	switch_to(w, 100, 9, 0, 7);
	switch_to(w, 110, 7, 0x10, 9);
	put(w, IP_KERNEL_SCHED_FORK, 120, 9, 0, &fork, sizeof(fork));
	wake(w, IP_KERNEL_SCHED_WAKEUP_NEW, 121, 9, 7, 0);
	switch_to(w, 130, 9, 0, 7);
	flush(w, "all", 0);
	states = states_of(w);
	assert_ptr_not_equal(ip_states_find(states, 7, 105), ip_states_find(states, 7, 125));
	assert_int_equal(span(states, 7, 112)->state, IP_THREAD_GONE);
	assert_int_equal(span(states, 7, 125)->state, IP_THREAD_RUNNABLE);
	ip_states_destroy(states);
}

/* 7 waits for 8, which waits for 9, which computes: the path is 9's work, and what each takes. */
static void test_the_critical_path(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_path_step *steps;
	const int32_t tids[] = {7, 9, 8, 8, 7, 7};
	size_t n;

	switch_to(w, 100, 0, 0, 7);
	switch_to(w, 110, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 180, 8, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 180, 8, 7, 0);
	switch_to(w, 190, 0, 0, 7);
	flush(w, "all", 0);
	switch_to(w, 90, 0, 0, 8);
	switch_to(w, 105, 8, 1, 9);
	wake(w, IP_KERNEL_SCHED_WAKING, 160, 9, 8, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 160, 9, 8, 0);
	switch_to(w, 165, 9, 1, 8);
	switch_to(w, 200, 8, 1, 0);
	flush(w, "all", 1);
	states = states_of(w);
	assert_int_equal(
		ip_critical_path_find(states, ip_states_find(states, 7, 100), 100, 195, &steps, &n),
		0);
	assert_int_equal(n, 6);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(steps[i].from, i ? steps[i - 1].to : 100);
		assert_int_equal(steps[i].thread->tid, tids[i]);
	}
	assert_int_equal(steps[n - 1].to, 195);
	assert_int_equal(steps[1].to - steps[1].from, 50); /* 9 computes from 110 to 160 */
	assert_int_equal(steps[1].state, IP_THREAD_RUNNING);
	assert_int_equal(steps[1].depth, 2);
	free(steps);
	ip_states_destroy(states);
}

/* 7 waits for 8, which did not live yet when 7 began to wait: that time is 9's, which made 8. */
static void test_the_critical_path_before_a_thread(void **state)
{
	struct {
		char parent_comm[16];
		int32_t parent_tid;
		char child_comm[16];
		int32_t child_tid;
	} __attribute__((packed)) fork = {"parent", 9, "child", 8};
	static const struct {
		uint64_t from;
		int32_t tid;
		uint8_t state;
	} expected[] = {{100, 7, IP_THREAD_RUNNING}, {110, 9, IP_THREAD_RUNNING},
			{120, 8, IP_THREAD_UNKNOWN}, {121, 8, IP_THREAD_RUNNABLE},
			{130, 8, IP_THREAD_RUNNING}, {180, 7, IP_THREAD_RUNNABLE}};
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_path_step *steps;
	size_t n;

	switch_to(w, 100, 0, 0, 7);
	switch_to(w, 110, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 180, 8, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 180, 8, 7, 0);
	switch_to(w, 190, 0, 0, 7);
	flush(w, "all", 0);
	switch_to(w, 90, 0, 0, 9);
	put(w, IP_KERNEL_SCHED_FORK, 120, 9, 0, &fork, sizeof(fork));
	wake(w, IP_KERNEL_SCHED_WAKEUP_NEW, 121, 9, 8, 0);
	switch_to(w, 130, 9, 1, 8);
	switch_to(w, 200, 8, 1, 0);
	flush(w, "all", 1);
	states = states_of(w);
	assert_int_equal(
		ip_critical_path_find(states, ip_states_find(states, 7, 100), 100, 190, &steps, &n),
		0);
	assert_int_equal(n, sizeof(expected) / sizeof(*expected));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(steps[i].from, expected[i].from);
		assert_int_equal(steps[i].thread->tid, expected[i].tid);
		assert_int_equal(steps[i].state, expected[i].state);
	}
	free(steps);
	ip_states_destroy(states);
}

/* A machine may have more CPUs than this process may have open files. */
static void test_many_cpus(void **state)
{
	struct writer *w = *state;
	struct rlimit limit, few;
	struct ip_states *states;

	for (uint32_t cpu = 0; cpu < CPUS; cpu++)
		for (uint64_t tsc = 100; tsc < 400; tsc += 100) { /* three packets */
			switch_to(w, tsc + 1, 0, 0, 1000 + cpu);
			switch_to(w, tsc + 50, 1000 + cpu, 1, 0);
			flush(w, "all", cpu);
		}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = 256;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	states = states_of(w);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(states->events, 6 * CPUS);
	for (uint32_t cpu = 0; cpu < CPUS; cpu++)
		assert_int_equal(span(states, 1000 + cpu, 310)->state, IP_THREAD_RUNNING);
	ip_states_destroy(states);
}

/* 7 waits for a message of 9. 8 wakes it for nothing, and a stop by 6 breaks its call off: all is
 * 9's doing. */
static void test_false_wakings(void **state)
{
	static const struct {
		uint64_t from;
		int32_t tid;
	} expected[] = {{100, 7}, {110, 9}, {120, 7}, {125, 9}, {140, 7},
			{145, 6}, {150, 7}, {155, 9}, {180, 7}};
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_path_step *steps;
	size_t n, k = 0;

	switch_to(w, 100, 0, 0, 7);
	call(w, 105, 7, SYS_recvfrom, 3);
	switch_to(w, 110, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 120, 8, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 120, 8, 7, 0);
	switch_to(w, 122, 0, 0, 7);
	switch_to(w, 125, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 140, 6, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 140, 6, 7, 0);
	switch_to(w, 141, 0, 0, 7);
	ret(w, 142, 7, SYS_recvfrom, -512);
	switch_to(w, 145, 7, 8, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 150, 6, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 150, 6, 7, 0);
	switch_to(w, 151, 0, 0, 7);
	call(w, 152, 7, SYS_recvfrom, 3);
	switch_to(w, 155, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 180, 9, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 180, 9, 7, 0);
	switch_to(w, 190, 0, 0, 7);
	ret(w, 195, 7, SYS_recvfrom, 1);
	flush(w, "all", 0);
	switch_to(w, 90, 0, 0, 9);
	switch_to(w, 300, 9, 1, 0);
	flush(w, "all", 1);
	states = states_of(w);
	assert_int_equal(wait_at(states, 7, 115)->waking.waker, 8);
	assert_int_equal(
		ip_critical_path_find(states, ip_states_find(states, 7, 100), 100, 190, &steps, &n),
		0);
	for (size_t i = 0; i < n; i++)
		if (!i || steps[i].thread != steps[i - 1].thread) {
			assert_true(k < sizeof(expected) / sizeof(*expected));
			assert_int_equal(steps[i].from, expected[k].from);
			assert_int_equal(steps[i].thread->tid, expected[k++].tid);
		}
	assert_int_equal(k, sizeof(expected) / sizeof(*expected));
	free(steps);
	ip_states_destroy(states);
}

static void test_damage(void **state)
{
	struct writer *w = *state;
	struct ip_kernel_reader *reader;
	struct ip_states *states;
	int fd;

	for (int i = 0; i < 5; i++) {
		switch_to(w, 100 + 10 * i, 0, 0, 7);
		switch_to(w, 105 + 10 * i, 7, 1, 0);
		flush(w, "all", 0);
	}
	fd = openat(w->dir, "all_0", O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	/* the fourth packet loses its magic; what comes before is read */
	assert_int_equal(pwrite(fd, "x", 1, lseek(fd, 0, SEEK_END) / 5 * 3), 1);
	close(fd);
	assert_int_equal(ip_kernel_reader_open(w->path, &reader), 1);
	states = ip_states_read(reader);
	assert_non_null(states);
	assert_int_equal(states->events, 6);
	assert_non_null(strstr(*ip_kernel_reader_damage(reader), "kernel/all_0: "));
	ip_kernel_reader_close(reader);
	ip_states_destroy(states);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_wait),
		TEST(test_a_waking_that_is_early),
		TEST(test_an_early_waking_is_over),
		TEST(test_requeued_waits),
		TEST(test_waits_for_completions),
		TEST(test_what_is_a_lock),
		TEST(test_interrupts_are_no_threads),
		TEST(test_restarted_calls),
		TEST(test_calls_restarted_after_a_stop),
		TEST(test_streams_that_end_early),
		TEST(test_descriptors_that_are_closed),
		TEST(test_polls_are_charged_to_what_is_used_then),
		TEST(test_polls_that_go_on),
		TEST(test_polls_that_a_signal_ends),
		TEST(test_what_was_so_before),
		TEST(test_tids_are_used_again),
		TEST(test_the_critical_path),
		TEST(test_the_critical_path_before_a_thread),
		TEST(test_false_wakings),
		TEST(test_many_cpus),
		TEST(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
