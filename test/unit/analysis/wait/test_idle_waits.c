/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which waits are idle: calls and events of the kernel that the tests write, one rule of
 * idle_waits.h after the other. And whose work sockets bring, by their names.
 */
#include <sys/stat.h>

#include "analysis/wait/descriptors/service_ports.h"
#include "analysis/wait/idle/idle_waits.h"
#include "common/abi/ring.h"
#include "common/elf/probe_list.h"
#include "test/unit/analysis/wait/kernel_writer.h"
#include "test/unit/test.h"

enum { LOOP = 1, POLL_EVENTS, HANDLE, ASK };

static const char session[] =
	"iprobe-session\t1\ntsc_start\t1000\ntsc_hz\t1000000000\n"
	"tsc_end\t9000\nmodule\t0\tm\tff\t0\t1\tfentry\n"
	"function\t1\t0\tloop\t\t0\t-\t64\nfunction\t2\t0\tpoll_events\t\t0\t-"
	"\t64\nfunction\t3\t0\thandle\t\t0\t-\t64\nfunction\t4\t0\task\t\t0\t-"
	"\t64\n";

/* The calls of thread 70. */
static struct {
	uint64_t words[1024];
	uint32_t n, depth;
	uint64_t first, last;
	const char *more; /* lines of the session file */
} calls;

static void event(uint64_t tsc, uint32_t function, unsigned kind)
{
	uint64_t *w = &calls.words[calls.n];

	calls.depth += kind == IP_PROBE_ENTRY;
	w[0] = tsc << 32 | (uint64_t)(IP_ID_EXT_BASE + kind) << 3 | IP_ID_EXTENDED;
	w[1] = (uint64_t)function << 32 | tsc >> 32;
	w[2] = 0x7ffc00001000 - 64 * calls.depth;
	calls.depth -= kind == IP_PROBE_EXIT;
	calls.n += IP_EXT_WORDS;
	calls.last = tsc;
}

static void enter(uint64_t tsc, uint32_t function)
{
	event(tsc, function, IP_PROBE_ENTRY);
}

static void leave(uint64_t tsc, uint32_t function)
{
	event(tsc, function, IP_PROBE_EXIT);
}

static void write_file(const struct writer *w, const char *name, const void *data, size_t size,
		       const void *more, size_t more_size)
{
	char path[PATH_MAX + 32];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", w->path, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fwrite(more, 1, more_size, file), more_size);
	assert_int_equal(fclose(file), 0);
}

static struct ip_trace_reader *make_trace(struct writer *w)
{
	const struct ip_packet_header h = {.magic = IP_CTF_MAGIC,
					   .timestamp_begin = calls.first ? calls.first : 1000,
					   .timestamp_end = calls.last,
					   .content_size = 8 * (sizeof(h) + 8 * calls.n),
					   .packet_size = 8 * (sizeof(h) + 8 * calls.n),
					   .pid = 7,
					   .tid = 70};
	struct ip_trace_reader *trace;
	char path[PATH_MAX + 32], more[256];

	snprintf(path, sizeof(path), "%s/iprobe", w->path);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(more, sizeof(more), "%send\tdone\n", calls.more ? calls.more : "");
	write_file(w, "iprobe/session", session, strlen(session), more, strlen(more));
	write_file(w, "stream-0", &h, sizeof(h), calls.words, 8 * calls.n);
	if (ip_trace_reader_open(w->path, &trace) < 0)
		fail_msg("%s", ip_error_message());
	return trace;
}

static void blocked(struct writer *w, uint64_t from, uint64_t to, unsigned number, uint64_t second,
		    uint64_t third)
{
	const uint64_t arguments[] = {0x1000, second, third, 0, 0, 0};

	put(w, IP_KERNEL_SYSCALL_ENTRY + number, from - 1, 70, 0, arguments,
	    ip_kernel_fields_size(IP_KERNEL_SYSCALL_ENTRY + number));
	switch_to(w, from, 70, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, to - 1, 0, 70, 2);
	wake(w, IP_KERNEL_SCHED_WAKEUP, to, 0, 70, 2);
	switch_to(w, to + 1, 0, 0, 70);
	ret(w, to + 2, 70, number, 1);
}

static void find(struct writer *w, struct ip_idle_waits *ret)
{
	struct ip_descriptors none = {0};
	struct ip_trace_reader *trace;
	struct ip_states *states;

	flush(w, "all", 0);
	trace = make_trace(w);
	states = states_of(w);
	assert_int_equal(ip_idle_waits_find(trace, states, &none, ret), 0);
	ip_states_destroy(states);
	ip_trace_reader_close(trace);
}

static void begin(struct writer *w)
{
	memset(&calls, 0, sizeof(calls));
	switch_to(w, 1000, 0, 0, 70);
	enter(1001, LOOP);
}

/* A request within which the thread polls for an answer. */
static void request(struct writer *w, uint64_t tsc)
{
	enter(tsc, HANDLE);
	enter(tsc + 1, ASK);
	blocked(w, tsc + 10, tsc + 300, SYS_poll, 1, 0);
	leave(tsc + 310, ASK);
	leave(tsc + 320, HANDLE);
}

static void test_the_outermost_wait(void **state)
{
	struct writer *w = *state;
	struct ip_idle_waits idle;

	begin(w);
	for (unsigned i = 0; i < 3; i++) {
		const uint64_t tsc = 1100 + 1000 * i;

		enter(tsc, POLL_EVENTS);
		blocked(w, tsc + 10, tsc + 500, SYS_epoll_wait, 1, 0);
		leave(tsc + 510, POLL_EVENTS);
		request(w, tsc + 600);
	}
	leave(5000, LOOP);
	find(w, &idle);
	assert_int_equal(idle.n, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(idle.items[i].from, 1110 + 1000 * i);
		assert_in_range(idle.items[i].to, 1599 + 1000 * i, 1600 + 1000 * i);
		assert_int_equal(idle.items[i].run, 0);
	}
	ip_idle_waits_clear(&idle);
}

/* The thread has been blocked since before the recording began, in calls that were open then: it
 * leaves its first event at the end of that wait. */
static void test_a_wait_that_was_there_before(void **state)
{
	struct writer *w = *state;
	struct ip_idle_waits idle;

	memset(&calls, 0, sizeof(calls));
	calls.first = 1510;
	calls.more = "stack\t7\t70\t1000\t1:140720308490176,2:140720308490112\n";
	switch_to(w, 900, 0, 0, 70);
	blocked(w, 950, 1500, SYS_epoll_wait, 1, 0);
	calls.depth = 2;
	leave(1510, POLL_EVENTS);
	for (unsigned i = 0; i < 3; i++) {
		const uint64_t tsc = 1600 + 1000 * i;

		request(w, tsc);
		enter(tsc + 400, POLL_EVENTS);
		blocked(w, tsc + 410, tsc + 800, SYS_epoll_wait, 1, 0);
		leave(tsc + 810, POLL_EVENTS);
	}
	leave(5000, LOOP);
	find(w, &idle);
	assert_int_equal(idle.n, 4);
	assert_int_equal(idle.items[0].from, 950);
	assert_in_range(idle.items[0].to, 1499, 1500);
	ip_idle_waits_clear(&idle);
}

/* handle ends by jumping to poll_events: the copy of the stack has no handle, and all calls that
 * come later do. However long the first wait was, theirs are idle, and so is it. */
static void test_a_wait_that_was_there_behind_a_jump(void **state)
{
	struct writer *w = *state;

	for (unsigned length = 30; length <= 3000; length *= 100) {
		struct ip_idle_waits idle;

		if (length > 30) {
			teardown(state);
			setup(state);
			w = *state;
		}
		memset(&calls, 0, sizeof(calls));
		calls.first = 910 + length;
		calls.more = "stack\t7\t70\t800\t1:140720308490176,2:140720308490112\n";
		switch_to(w, 700, 0, 0, 70);
		blocked(w, 900, 900 + length, SYS_epoll_wait, 1, 0);
		calls.depth = 2;
		leave(910 + length, POLL_EVENTS);
		for (unsigned i = 0; i < 3; i++) {
			const uint64_t tsc = 1000 + length + 1000 * i;

			request(w, tsc);
			enter(tsc + 400, HANDLE);
			enter(tsc + 401, POLL_EVENTS);
			blocked(w, tsc + 410, tsc + 800, SYS_epoll_wait, 1, 0);
			leave(tsc + 810, POLL_EVENTS);
			leave(tsc + 811, HANDLE);
		}
		leave(8000, LOOP);
		find(w, &idle);
		assert_int_equal(idle.n, 4);
		assert_int_equal(idle.items[0].from, 900);
		assert_int_equal(idle.items[1].from, 1410 + length);
		ip_idle_waits_clear(&idle);
	}
}

/* The loop asks for work, and there is always some: it is never blocked there. */
static void test_a_busy_loop(void **state)
{
	struct writer *w = *state;
	struct ip_idle_waits idle;

	begin(w);
	for (unsigned i = 0; i < 3; i++) {
		const uint64_t tsc = 1100 + 1000 * i;

		enter(tsc, POLL_EVENTS);
		call(w, tsc + 1, 70, SYS_epoll_wait, 3);
		ret(w, tsc + 2, 70, SYS_epoll_wait, 1);
		leave(tsc + 10, POLL_EVENTS);
		request(w, tsc + 20);
	}
	leave(5000, LOOP);
	find(w, &idle);
	assert_int_equal(idle.n, 0);
	ip_idle_waits_clear(&idle);
}

/* A condition is idle, a lock is not; nor is a sleep in a call that returns. */
static void test_kinds(void **state)
{
	struct writer *w = *state;
	struct ip_idle_waits idle;

	begin(w);
	blocked(w, 1110, 1600, SYS_futex, FUTEX_WAIT_PRIVATE, 0);
	blocked(w, 1710, 1800, SYS_futex, FUTEX_WAIT_PRIVATE, 2); /* a lock: glibc's value */
	enter(1900, HANDLE);
	blocked(w, 1910, 1990, SYS_nanosleep, 0, 0);
	leave(2000, HANDLE);
	leave(2100, LOOP);
	find(w, &idle);
	assert_int_equal(idle.n, 1);
	assert_int_equal(idle.items[0].from, 1110);
	ip_idle_waits_clear(&idle);
}

/* A thread that sleeps in a call which never ends: there is nothing of the program around it. */
static void test_calls_that_never_end(void **state)
{
	struct writer *w = *state;
	struct ip_idle_waits idle;

	begin(w);
	blocked(w, 1110, 1600, SYS_nanosleep, 0, 0);
	enter(1610, HANDLE);
	blocked(w, 1620, 1700, SYS_nanosleep, 0, 0);
	leave(1710, HANDLE);
	blocked(w, 1720, 2000, SYS_nanosleep, 0, 0);
	enter(2100, POLL_EVENTS);
	leave(2110, POLL_EVENTS);
	find(w, &idle);
	assert_int_equal(idle.n, 2);
	assert_int_equal(idle.items[0].from, 1110);
	assert_int_equal(idle.items[1].from, 1720);
	ip_idle_waits_clear(&idle);
}

/* Several places in as few calls: the longest is idle only if it has half of the time. */
static void test_no_place_stands_out(void **state)
{
	struct writer *w = *state;
	struct ip_idle_waits idle;

	begin(w);
	for (uint32_t f = POLL_EVENTS; f <= ASK; f++) {
		const uint64_t tsc = 1000 * f;

		enter(tsc, f);
		blocked(w, tsc + 10, tsc + 500 + f, SYS_poll, 1, 0);
		leave(tsc + 600, f);
	}
	leave(8000, LOOP);
	find(w, &idle);
	assert_int_equal(idle.n, 0);
	ip_idle_waits_clear(&idle);
}

static void test_roles_of_sockets(void **state)
{
	static const struct {
		const char *name;
		enum ip_socket_role role;
	} sockets[] = {
		{"tcp 0.0.0.0:80", IP_SOCKET_WAITS},
		{"tcp 10.0.0.1:80 - 10.0.0.9:4711", IP_SOCKET_ACCEPTED},
		{"tcp [::1]:80 - [::1]:4711", IP_SOCKET_ACCEPTED},
		{"tcp 10.0.0.1:4712 - 10.0.0.2:80", IP_SOCKET_MADE},
		{"udp 0.0.0.0:53", IP_SOCKET_DATAGRAM},
		{"udp 10.0.0.1:4713 - 8.8.8.8:53", IP_SOCKET_MADE},
		{"unix bound:/run/x[12]", IP_SOCKET_WAITS},
		{"unix bound:/run/x[12] - [13]", IP_SOCKET_ACCEPTED},
		{"unix [13] - bound:/run/x[12]", IP_SOCKET_MADE},
		{"unix [14] - [15]", IP_SOCKET_OTHER},
		{"socket:[16]", IP_SOCKET_OTHER},
		{"", IP_SOCKET_OTHER},
	};
	char text[] = "1\t7\t3\tsocket\ttcp 0.0.0.0:80\n1\t7\t4\tsocket\ttcp 1.2.3.4:x\n";
	struct ip_descriptors descriptors = {0};
	struct ip_service_ports ports;

	(void)state;
	assert_int_equal(ip_descriptors_parse(text, &descriptors), 0);
	ip_service_ports_read(&descriptors, &ports);
	for (size_t i = 0; i < N_ELEMENTS(sockets); i++)
		if (ip_service_ports_role(&ports, sockets[i].name) != sockets[i].role)
			fail_msg("%s", sockets[i].name);
	ip_descriptors_clear(&descriptors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_outermost_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_wait_that_was_there_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_wait_that_was_there_behind_a_jump, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_busy_loop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kinds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_calls_that_never_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_place_stands_out, setup, teardown),
		cmocka_unit_test(test_roles_of_sockets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
