/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What descriptors are that have no name, from system calls that the tests write: one rule of
 * descriptor_births.h after the other. A descriptor is asked for at the time of the last call.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "analysis/wait/descriptors/descriptor_births.h"
#include "common/error.h"
#include "test/unit/analysis/wait/kernel_writer.h"
#include "test/unit/test.h"

static uint64_t now;

/* Threads 70 to 79 are of process 7, 80 to 89 of process 8; others are of no known process. */
static uint32_t process_of(const void *context, int32_t tid, uint64_t tsc)
{
	return tid >= 70 && tid < 80 ? 7 : tid >= 80 && tid < 90 ? 8 : 0;
}

static void begin(struct writer *w)
{
	now = 100;
	switch_to(w, now, 0, 0, 70);
}

static void done(struct writer *w, int32_t tid, unsigned number, uint64_t argument, int64_t result)
{
	call(w, ++now, tid, number, argument);
	ret(w, ++now, tid, number, result);
}

static enum ip_wait_kind kind_at(struct writer *w, int32_t fd, uint64_t tsc)
{
	struct ip_descriptor_births *births;
	struct ip_states *states;
	enum ip_wait_kind kind;

	if (w->used)
		flush(w, "all", 0);
	states = states_of(w);
	births = ip_descriptor_births_create(states, process_of, NULL);
	assert_non_null(births);
	kind = ip_descriptor_births_kind(births, 7, fd, tsc);
	ip_descriptor_births_destroy(births);
	ip_states_destroy(states);
	return kind;
}

static void test_calls_that_return_it(void **state)
{
	static const struct {
		unsigned number;
		enum ip_wait_kind kind;
	} calls[] = {{SYS_openat, IP_WAIT_FILE},	 {SYS_socket, IP_WAIT_SOCKET},
		     {SYS_accept4, IP_WAIT_SOCKET},	 {SYS_timerfd_create, IP_WAIT_TIMER},
		     {SYS_signalfd4, IP_WAIT_SIGNAL},	 {SYS_epoll_create1, IP_WAIT_POLL},
		     {SYS_pidfd_open, IP_WAIT_CHILD},	 {SYS_io_uring_setup, IP_WAIT_IO_URING},
		     {SYS_eventfd2, IP_WAIT_OTHER},	 {SYS_dup, IP_WAIT_OTHER},
		     {SYS_inotify_init1, IP_WAIT_OTHER}, {SYS_memfd_create, IP_WAIT_FILE}};
	const int n = sizeof(calls) / sizeof(calls[0]);
	struct writer *w = *state;

	begin(w);
	for (int i = 0; i < n; i++)
		done(w, 70 + i % 2, calls[i].number, 0, 20 + i);
	done(w, 71, SYS_openat, 0, -2);
	for (int i = 0; i < n; i++)
		assert_int_equal(kind_at(w, 20 + i, now), calls[i].kind);
	assert_int_equal(kind_at(w, 20, 100), IP_WAIT_OTHER); /* before it was made */
	assert_int_equal(kind_at(w, 19, now), IP_WAIT_OTHER); /* nothing is known of it */
}

static void test_the_last_one_counts(void **state)
{
	struct writer *w = *state;

	begin(w);
	done(w, 70, SYS_openat, 0, 4);
	done(w, 71, SYS_close, 4, 0);
	done(w, 70, SYS_socket, 0, 4);
	done(w, 80, SYS_close, 4, 0); /* of another process */
	assert_int_equal(kind_at(w, 4, 102), IP_WAIT_FILE);
	assert_int_equal(kind_at(w, 4, 105), IP_WAIT_OTHER);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_SOCKET);
}

static void test_a_pipe(void **state)
{
	struct writer *w = *state;

	begin(w);
	done(w, 70, SYS_close, 4, 0);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_OTHER);
	done(w, 80, SYS_socketpair, 1, 0); /* of another process */
	done(w, 71, SYS_pipe2, 0x1000, -24);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_OTHER);
	done(w, 71, SYS_pipe2, 0x1000, 0);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_PIPE);
	assert_int_equal(kind_at(w, 5, now), IP_WAIT_OTHER); /* it may have been there before */
	done(w, 70, SYS_pipe, 0x1000, 0);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_PIPE);
	done(w, 70, SYS_socketpair, 1, 0);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_OTHER);
	done(w, 70, SYS_close, 4, 0);
	done(w, 70, SYS_socketpair, 1, 0);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_SOCKET);
	done(w, 70, SYS_recvmsg, 9, 20);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_OTHER);
}

static void test_copies(void **state)
{
	struct writer *w = *state;

	begin(w);
	done(w, 70, SYS_openat, 0, 4);
	call2(w, ++now, 70, SYS_fcntl, 4, F_DUPFD_CLOEXEC);
	ret(w, ++now, 70, SYS_fcntl, 10);
	call2(w, ++now, 70, SYS_fcntl, 4, F_GETFL);
	ret(w, ++now, 70, SYS_fcntl, 4);
	call2(w, ++now, 70, SYS_dup2, 10, 4);
	assert_int_equal(kind_at(w, 4, 108), IP_WAIT_OTHER); /* it is being replaced */
	ret(w, ++now, 70, SYS_dup2, 4);
	assert_int_equal(kind_at(w, 4, 105), IP_WAIT_FILE);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_OTHER);
	assert_int_equal(kind_at(w, 10, now), IP_WAIT_OTHER);
}

static void test_what_is_forgotten(void **state)
{
	static const unsigned forget[] = {SYS_execve, SYS_close_range};
	struct writer *w = *state;

	begin(w);
	for (int i = 0; i < 2; i++) {
		done(w, 70, SYS_openat, 0, 4);
		done(w, 70, SYS_close, 5, 0);
		assert_int_equal(kind_at(w, 4, now), IP_WAIT_FILE);
		call2(w, ++now, 70, forget[i], 0, 100);
		ret(w, ++now, 70, forget[i], 0);
		done(w, 70, SYS_pipe2, 0, 0);
		assert_int_equal(kind_at(w, 4, now), IP_WAIT_OTHER);
		assert_int_equal(kind_at(w, 5, now), IP_WAIT_OTHER);
	}
	done(w, 70, SYS_openat, 0, 4);
	done(w, 99, SYS_close, 7, 0); /* of a process that is not known */
	assert_int_equal(kind_at(w, 4, now - 2), IP_WAIT_FILE);
	assert_int_equal(kind_at(w, 4, now), IP_WAIT_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_calls_that_return_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_last_one_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_pipe, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_forgotten, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
