/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorder whose thread is held up, and one that may have too few open files.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/now.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/kernel_check.h"
#include "kernel_trace/kernel_stream.h"
#include "kernel_trace/recorder_private.h"
#include "test/unit/test.h"

#define BUFFER (64u << 10)
#define SECOND 1000000000ull

static int gate[2];
static bool held;

/* What is read of /proc comes by the recorder's thread. */
static int on_event(void *context, uint32_t cpu, const uint8_t *event, size_t size)
{
	char byte;

	if (cpu == IP_KERNEL_CPUS_MAX && __atomic_load_n(&held, __ATOMIC_ACQUIRE))
		return read(gate[0], &byte, 1) == 1 ? 0 : -1;
	return 0;
}

static int on_lost(void *context, bool all, uint32_t cpu, uint64_t n)
{
	return 0;
}

static int on_until(void *context, uint64_t tsc)
{
	return 0;
}

static const struct ip_kernel_sink sink = {.event = on_event, .lost = on_lost, .until = on_until};
static const struct ip_kernel_options options = {
	.groups = 1 << IP_KERNEL_GROUP_SCHED, .buffer = BUFFER, .sink = &sink};

static void skip_without_events(void)
{
	char *missing = NULL;

	if (ip_kernel_missing(options.groups, options.source, &missing) < 0) {
		print_message("skipped: %s\n", ip_error_message());
		skip();
	}
	free(missing);
}

static void test_a_process_that_does_not_answer(void **state)
{
	struct ip_kernel_recorder *recorder;
	uint64_t begin;
	int ret = -1;

	skip_without_events();
	assert_int_equal(pipe(gate), 0);
	assert_int_equal(ip_kernel_recorder_create(&options, -1, &recorder), 0);
	assert_int_equal(ip_kernel_recorder_start(recorder), 0);
	assert_int_equal(ip_kernel_recorder_add(recorder, getpid()), 0);
	__atomic_store_n(&held, true, __ATOMIC_RELEASE);
	begin = ip_now_ns();
	assert_int_equal(ip_kernel_recorder_add(recorder, getpid()), -1);
	assert_error("has not come within 5 s");
	assert_true(ip_now_ns() - begin >= 5 * SECOND);
	/* who comes next does not wait */
	begin = ip_now_ns();
	assert_int_equal(ip_kernel_recorder_add(recorder, getppid()), -1);
	assert_error("does not let itself be looked at");
	assert_true(ip_now_ns() - begin < SECOND);
	/* it has been let go: others can be recorded when it answers after all */
	__atomic_store_n(&held, false, __ATOMIC_RELEASE);
	assert_int_equal(write(gate[1], "x", 1), 1);
	for (unsigned i = 0; i < 1000 && ret < 0; i++) {
		ret = ip_kernel_recorder_add(recorder, getpid());
		usleep(10000);
	}
	assert_int_equal(ret, 0);
	assert_int_equal(ip_kernel_recorder_stop(recorder), 0);
	ip_kernel_recorder_destroy(recorder);
}

/* However often: it is one process still. */
static void test_a_process_that_is_asked_for_again(void **state)
{
	struct ip_kernel_recorder *recorder;

	skip_without_events();
	assert_int_equal(ip_kernel_recorder_create(&options, -1, &recorder), 0);
	assert_int_equal(ip_kernel_recorder_start(recorder), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(ip_kernel_recorder_add(recorder, getpid()), 0);
	assert_int_equal(ip_kernel_recorder_add(recorder, getppid()), 0);
	assert_int_equal(recorder->ntargets, 2);
	assert_int_equal(ip_kernel_recorder_stop(recorder), 0);
	ip_kernel_recorder_destroy(recorder);
}

/* In a child, which has few from then on. */
static void test_too_few_open_files(void **state)
{
	const struct rlimit few = {64, 64};
	struct ip_kernel_recorder *recorder;
	int status;
	pid_t pid;

	skip_without_events();
	pid = fork();
	if (pid == 0) {
		if (setrlimit(RLIMIT_NOFILE, &few) < 0 ||
		    ip_kernel_recorder_create(&options, -1, &recorder) == 0)
			_exit(1);
		_exit(strstr(ip_error_message(), "open files, and the limit is 64") ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_process_that_does_not_answer),
		cmocka_unit_test(test_a_process_that_is_asked_for_again),
		cmocka_unit_test(test_too_few_open_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
