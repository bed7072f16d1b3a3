/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of lent priority: it gives back what was lent when the thread that has lent it ends,
 * whatever else of that process lives on.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hotpatcher/ptrace/priority_guard.h"

#define WAIT_MS 30000

enum end { KILLED, THREAD_ENDS, GIVES_BACK };

static pid_t make_sleeper(void)
{
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	return child;
}

static void *sleep_on(void *context)
{
	for (;;)
		pause();
	return context;
}

/* Raises the thread, writes to the pipe, and ends in that way; its second thread goes on. */
static pid_t make_lender(pid_t tid, enum end how, int done)
{
	pid_t child = fork();
	pthread_t thread;
	uint32_t entry;

	if (child)
		return child;
	ip_priority_guard_start();
	if (!ip_priority_guard_begin() || pthread_create(&thread, NULL, sleep_on, NULL) != 0)
		_exit(1);
	entry = ip_priority_guard_raise(tid);
	if (!entry || write(done, "", 1) != 1)
		_exit(2);
	if (how == THREAD_ENDS)
		syscall(SYS_exit, 0);
	if (how == GIVES_BACK) {
		ip_priority_guard_restore(entry);
		ip_priority_guard_stop();
		_exit(0);
	}
	pause();
	_exit(3);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool is_ordinary(pid_t pid)
{
	for (int i = 0; i < WAIT_MS; i++, usleep(1000))
		if (sched_getscheduler(pid) == SCHED_OTHER)
			return true;
	return false;
}

static void try(enum end how)
{
	pid_t sleeper, lender;
	int ends[2];
	char byte;

	if (!ip_priority_guard_may_lend())
		skip();
	sleeper = make_sleeper();
	/* not the sleeper's: it tells when the lender has failed */
	assert_int_equal(pipe(ends), 0);
	lender = make_lender(sleeper, how, ends[1]);
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	if (how == KILLED) {
		assert_int_equal(sched_getscheduler(sleeper), SCHED_FIFO | SCHED_RESET_ON_FORK);
		kill(lender, SIGKILL);
	}
	assert_true(is_ordinary(sleeper));
	/* it is not gone: a thread of it goes on */
	if (how == THREAD_ENDS)
		assert_int_equal(waitpid(lender, NULL, WNOHANG), 0);
	end(lender);
	end(sleeper);
}

static void test_killed(void **state)
{
	(void)state;
	try(KILLED);
}

static void test_thread_ends(void **state)
{
	(void)state;
	try(THREAD_ENDS);
}

static void test_gives_back(void **state)
{
	(void)state;
	try(GIVES_BACK);
}

/* It ends meanwhile, and is there again when it is needed. One that never was is not started. */
static void test_rests(void **state)
{
	pid_t sleeper;
	uint32_t entry;

	(void)state;
	ip_priority_guard_rest();
	assert_false(ip_priority_guard_begin());
	if (!ip_priority_guard_may_lend())
		skip();
	sleeper = make_sleeper();
	ip_priority_guard_start();
	assert_true(ip_priority_guard_begin());
	ip_priority_guard_rest();
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0); /* the sleeper alone is left */
	assert_true(ip_priority_guard_begin());
	entry = ip_priority_guard_raise(sleeper);
	assert_true(entry);
	ip_priority_guard_restore(entry);
	assert_true(is_ordinary(sleeper));
	ip_priority_guard_stop();
	end(sleeper);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_thread_ends),
		cmocka_unit_test(test_gives_back),
		cmocka_unit_test(test_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
