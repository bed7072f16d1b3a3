/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact CPU time of another process, against what its threads say themselves.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fperf/cpu_time.h"
#include "test/unit/test.h"

#define MS	  1000000ull
#define CLOSE_NS  (3 * MS) /* messages, and threads that begin and end */
#define TICK_LESS 7	   /* ms of work: no multiple of a tick */

static uint64_t cpu_time(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void *work(void *ns)
{
	uint64_t end = cpu_time(CLOCK_THREAD_CPUTIME_ID) + *(uint64_t *)ns;

	while (cpu_time(CLOCK_THREAD_CPUTIME_ID) < end)
		;
	return NULL;
}

static void *wait_on(void *context)
{
	for (;;)
		pause();
	return context;
}

/* Has so many threads that wait; for each byte it works for so long, in its first thread, in one
 * that it creates, or in a process that it forks, and answers with its CPU time. */
static pid_t make_worker(size_t threads, int in[2], int out[2])
{
	uint64_t ns = TICK_LESS * MS, now;
	pthread_t thread;
	pid_t child;
	char what;

	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	child = fork();
	if (child) {
		close(in[0]);
		close(out[1]);
		return child;
	}
	close(in[1]);
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, wait_on, NULL) != 0)
			_exit(1);
	for (;;) {
		now = cpu_time(CLOCK_PROCESS_CPUTIME_ID);
		if (write(out[1], &now, sizeof(now)) != sizeof(now) || read(in[0], &what, 1) != 1)
			_exit(0);
		if (what == 'f' && (child = fork()) == 0) {
			work(&ns);
			_exit(0);
		}
		if (what == 'f')
			waitpid(child, NULL, 0);
		else if (what == 'w')
			work(&ns);
		else if (pthread_create(&thread, NULL, work, &ns) != 0 ||
			 pthread_join(thread, NULL) != 0)
			_exit(2);
	}
}

static uint64_t answer(int fd)
{
	uint64_t ns;

	assert_int_equal(read(fd, &ns, sizeof(ns)), sizeof(ns));
	return ns;
}

static void end_worker(pid_t child, int in, int out)
{
	close(in);
	close(out);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void test_threads_old_and_new(void **state)
{
	struct ip_cpu_time cpu_time;
	uint64_t before, own, seen;
	int in[2], out[2];
	pid_t child;

	(void)state;
	if (!ip_cpu_time_init(&cpu_time))
		skip();
	child = make_worker(3, in, out);
	before = answer(out[0]);
	assert_true(ip_cpu_time_start(&cpu_time, child));
	assert_int_equal(cpu_time.n, 4);
	for (const char *what = "wtfwfwt"; *what; what++) {
		assert_int_equal(write(in[1], what, 1), 1);
		own = answer(out[0]) - before;
		assert_true(ip_cpu_time_read(&cpu_time, &seen));
		assert_true(seen + CLOSE_NS > own && seen < own + CLOSE_NS);
	}
	assert_true(own >= 5 * TICK_LESS * MS);
	ip_cpu_time_stop(&cpu_time);
	assert_false(ip_cpu_time_read(&cpu_time, &seen));
	/* from anew */
	assert_true(ip_cpu_time_start(&cpu_time, child) && ip_cpu_time_read(&cpu_time, &seen));
	assert_true(seen < CLOSE_NS);
	ip_cpu_time_clear(&cpu_time);
	end_worker(child, in[1], out[0]);
}

static void test_too_many(void **state)
{
	struct ip_cpu_time cpu_time;
	int in[2], out[2];
	pid_t child;

	(void)state;
	if (!ip_cpu_time_init(&cpu_time))
		skip();
	child = make_worker(IP_CPU_TIME_THREADS, in, out);
	answer(out[0]);
	assert_false(ip_cpu_time_start(&cpu_time, child));
	assert_int_equal(cpu_time.n, 0);
	end_worker(child, in[1], out[0]);
	/* nor of one that is gone */
	assert_false(ip_cpu_time_start(&cpu_time, child));
	ip_cpu_time_clear(&cpu_time);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_old_and_new),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
