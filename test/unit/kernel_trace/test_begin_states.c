/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read of the threads of a child, which the tests make.
 */
#include <grp.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/abi/own_call.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/begin_states.h"
#include "kernel_trace/kernel_stream.h"
#include "test/unit/test.h"

#define GROUPS 2000

struct ids {
	int32_t tid, pid, inner_tid, inner_pid;
};

struct call {
	int32_t tid, number;
	uint64_t arguments[6];
} __attribute__((packed));

struct seen {
	unsigned states, ids, calls;
	struct ids last;
	struct call call;
	uint8_t context; /* of call */
};

static int on_event(void *context, uint32_t cpu, const uint8_t *event, size_t size)
{
	struct seen *seen = context;
	struct ip_kernel_event_header h;

	memcpy(&h, event, sizeof(h));
	seen->states += h.id == IP_KERNEL_PROCESS_STATE;
	if (h.id == IP_KERNEL_SYSCALL_STATE) {
		assert_int_equal(size, sizeof(h) + sizeof(seen->call));
		memcpy(&seen->call, event + sizeof(h), sizeof(seen->call));
		seen->context = h.context;
		seen->calls++;
	}
	if (h.id != IP_KERNEL_IDS_STATE)
		return 0;
	assert_int_equal(size, sizeof(h) + sizeof(seen->last));
	memcpy(&seen->last, event + sizeof(h), sizeof(seen->last));
	seen->ids++;
	return 0;
}

static struct seen states_of(pid_t pid, bool calls)
{
	static const uint8_t uuid[16];
	struct seen seen = {0};
	const struct ip_kernel_sink sink = {.event = on_event, .context = &seen};
	struct ip_kernel_stream stream;

	ip_kernel_stream_init(&stream, -1, uuid, "state", 0);
	stream.sink = &sink;
	assert_int_equal(ip_begin_states_write(&stream, pid, calls, true), 0);
	ip_kernel_stream_clear(&stream);
	return seen;
}

/* Waits in the child. Its groups make the status of a thread longer than a page. */
static void be(int told, int groups)
{
	gid_t list[GROUPS];

	for (int i = 0; i < groups; i++)
		list[i] = 4000000000u + i;
	if (groups && setgroups(groups, list) < 0)
		_exit(1);
	(void)!write(told, "r", 1);
	for (;;)
		pause();
}

static void check(int groups, bool inner)
{
	int told[2], status;
	struct seen seen;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(told), 0);
	pid = inner ? (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0) : fork();
	assert_true(pid >= 0);
	if (!pid)
		be(told[1], groups);
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	seen = states_of(pid, false);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(told[0]);
	assert_int_equal(seen.states, 1);
	assert_int_equal(seen.ids, inner);
	if (!inner)
		return;
	assert_int_equal(seen.last.tid, pid);
	assert_int_equal(seen.last.pid, pid);
	assert_int_equal(seen.last.inner_tid, 1);
	assert_int_equal(seen.last.inner_pid, 1);
}

static void test_own_namespace(void **state)
{
	check(0, false);
	if (geteuid() == 0)
		check(GROUPS, false);
}

static void test_inner_namespace(void **state)
{
	if (geteuid() != 0)
		skip();
	check(0, true);
	check(GROUPS, true);
}

/* A child waits in a call of iprobe's code, or in one of its own. */
static void check_call(bool marked)
{
	const uint64_t sixth = marked ? (uint64_t)IP_OWN_CALL << 32 : 0;
	uint32_t word = 0;
	struct seen seen = {0};
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		for (;;)
			syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, sixth);
	}
	for (int i = 0; i < 1000 && seen.call.number != SYS_futex; i++) {
		usleep(5000); /* until it is in the call */
		seen = states_of(pid, true);
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(seen.calls, 1);
	assert_int_equal(seen.call.number, SYS_futex);
	assert_int_equal(seen.call.arguments[0], (uintptr_t)&word);
	assert_int_equal(seen.call.arguments[5], 0);
	assert_int_equal(seen.context, marked ? IP_KERNEL_OWN_CALL : 0);
}

static void test_calls(void **state)
{
	check_call(false);
	check_call(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_namespace),
		cmocka_unit_test(test_inner_namespace),
		cmocka_unit_test(test_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
