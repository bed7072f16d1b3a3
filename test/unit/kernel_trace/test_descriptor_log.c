/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is noted of descriptors, by events that the tests write about their own process.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/dir.h"
#include "common/trace/call_path.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/descriptor_log.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/kernel_stream.h"
#include "test/unit/test.h"

struct noting {
	struct ip_dir_place place;
	int dir;
	struct ip_descriptor_log *log;
};

static int setup(void **state)
{
	struct noting *n = calloc(1, sizeof(*n));

	assert_non_null(n);
	n->dir = ip_dir_make_temporary("/tmp", "test-log", &n->place);
	assert_true(n->dir >= 0);
	assert_int_equal(mkdirat(n->dir, "iprobe", 0700), 0);
	n->log = ip_descriptor_log_open(n->dir, false, 0, NULL);
	assert_non_null(n->log);
	*state = n;
	return 0;
}

static int teardown(void **state)
{
	struct noting *n = *state;

	ip_descriptor_log_close(n->log);
	close(n->dir);
	ip_dir_remove(n->place.parent, n->place.name);
	ip_dir_place_close(&n->place);
	free(n);
	return 0;
}

static void event(struct noting *n, uint64_t tsc, unsigned id, const uint64_t *fields, size_t words)
{
	uint8_t bytes[IP_EVENT_SIZE_MAX];
	const struct ip_kernel_event_header h = {.id = id, .tsc = tsc, .tid = gettid()};

	memcpy(bytes, &h, sizeof(h));
	memcpy(bytes + sizeof(h), fields, 8 * words);
	ip_descriptor_log_event(n->log, bytes);
}

static void call(struct noting *n, uint64_t tsc, unsigned number, uint64_t a, uint64_t b)
{
	const uint64_t arguments[6] = {a, b};

	event(n, tsc, IP_KERNEL_SYSCALL_ENTRY + number, arguments, 6);
}

static void returned(struct noting *n, uint64_t tsc, unsigned number, int64_t result)
{
	const uint64_t value = result;

	event(n, tsc, IP_KERNEL_SYSCALL_EXIT + number, &value, 1);
}

/* Whether the file tells of a descriptor from a time on. */
static bool noted(struct noting *n, uint64_t tsc, int fd, const char *what)
{
	char start[64], line[512];
	int file = openat(n->dir, "iprobe/descriptors", O_RDONLY | O_CLOEXEC);
	FILE *in = fdopen(file, "r");
	bool found = false;

	snprintf(start, sizeof(start), "%lu\t%d\t%d\t", tsc, getpid(), fd);
	while (fgets(line, sizeof(line), in))
		found |= !strncmp(line, start, strlen(start)) && strstr(line, what);
	fclose(in);
	return found;
}

static void test_what_was_opened(void **state)
{
	struct noting *n = *state;
	int fd = open("/proc/self/status", O_RDONLY);

	returned(n, 100, SYS_openat, fd);
	assert_true(ip_descriptor_log_look(n->log));
	assert_int_equal(ip_descriptor_log_write(n->log), 0);
	assert_true(noted(n, 100, fd, "file\t/proc/"));
	assert_true(ip_descriptor_log_bytes(n->log) > 20);
	close(fd);
}

/* An open that took long is looked at as one of a FIFO, however often others are made. */
static void test_fifos(void **state)
{
	char dir[] = "/dev/shm/test-log.XXXXXX", path[64];
	struct noting *n = *state;
	int fd;

	if (!mkdtemp(dir))
		skip(); /* there is no tmpfs at that place */
	snprintf(path, sizeof(path), "%s/ends", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	for (uint64_t tsc = 1000; tsc < 1003; tsc++) {
		call(n, tsc, SYS_openat, 0, 0);
		returned(n, tsc + 10000000, SYS_openat, fd);
	}
	assert_true(ip_descriptor_log_look(n->log));
	assert_int_equal(ip_descriptor_log_write(n->log), 0);
	for (uint64_t tsc = 1000; tsc < 1003; tsc++)
		assert_true(noted(n, tsc + 10000000, fd, "pipe\t/dev/shm/test-log."));
	close(fd);
	unlink(path);
	rmdir(dir);
}

/* It is closed while it is looked at, by whatever thread; also where the kernel takes the lower
 * half of a register. */
static void test_what_was_closed(void **state)
{
	struct noting *n = *state;
	int fd = open("/proc/self/status", O_RDONLY);

	returned(n, 100, SYS_openat, fd);
	assert_true(ip_descriptor_log_look(n->log));
	call(n, 110, SYS_close, fd | 7ull << 32, 0);
	assert_int_equal(ip_descriptor_log_write(n->log), 0);
	assert_false(noted(n, 100, fd, ""));
	close(fd);
}

/* The buffer of another CPU, with what came later, was read first. */
static void test_order_of_cpus(void **state)
{
	struct noting *n = *state;
	int fd = open("/proc/self/status", O_RDONLY);

	call(n, 110, SYS_close, fd, 0);
	returned(n, 120, SYS_openat, fd);
	returned(n, 100, SYS_openat, fd);
	assert_true(ip_descriptor_log_look(n->log));
	assert_int_equal(ip_descriptor_log_write(n->log), 0);
	assert_false(noted(n, 100, fd, ""));
	assert_true(noted(n, 120, fd, "file\t"));
	close(fd);
}

static void test_ranges_and_programs(void **state)
{
	struct noting *n = *state;
	int fd = open("/proc/self/status", O_RDONLY);

	returned(n, 100, SYS_openat, fd);
	assert_true(ip_descriptor_log_look(n->log));
	call(n, 110, SYS_close_range, 3, UINT32_MAX);
	assert_int_equal(ip_descriptor_log_write(n->log), 0);
	returned(n, 120, SYS_openat, fd);
	assert_true(ip_descriptor_log_look(n->log));
	call(n, 130, SYS_execve, 0, 0);
	assert_int_equal(ip_descriptor_log_write(n->log), 0);
	assert_false(noted(n, 100, fd, "") || noted(n, 120, fd, ""));
	close(fd);
}

static void test_pipes(void **state)
{
	struct noting *n = *state;
	int before[2], fds[2];

	assert_int_equal(pipe(before), 0);
	assert_int_equal(pipe(fds), 0);
	returned(n, 90, SYS_openat, before[0]); /* known by now */
	assert_true(ip_descriptor_log_look(n->log));
	assert_int_equal(ip_descriptor_log_write(n->log), 0);
	returned(n, 100, SYS_pipe2, 0);
	call(n, 110, SYS_close, fds[1], 0);
	assert_true(ip_descriptor_log_look(n->log));
	assert_int_equal(ip_descriptor_log_write(n->log), 0);
	assert_true(noted(n, 100, fds[0], "pipe\tpipe:["));
	assert_false(noted(n, 100, fds[1], ""));
	assert_false(noted(n, 100, before[0], ""));
	for (int i = 0; i < 2; i++) {
		close(before[i]);
		close(fds[i]);
	}
}

/* A connection that failed is none of the thread's next one. */
static void test_connections(void **state)
{
	struct noting *n = *state;
	int first = socket(AF_UNIX, SOCK_STREAM, 0), second = socket(AF_UNIX, SOCK_STREAM, 0);

	call(n, 100, SYS_connect, first, 0);
	returned(n, 101, SYS_connect, -ENETUNREACH);
	call(n, 110, SYS_connect, second, 0);
	returned(n, 111, SYS_connect, -EINPROGRESS);
	assert_true(ip_descriptor_log_look(n->log));
	assert_int_equal(ip_descriptor_log_write(n->log), 0);
	assert_false(noted(n, 101, first, "") || noted(n, 111, first, ""));
	assert_true(noted(n, 111, second, "socket\tsocket:["));
	close(first);
	close(second);
}

static void test_losses(void **state)
{
	struct noting *n = *state;
	int fd = open("/proc/self/status", O_RDONLY);

	returned(n, 100, SYS_openat, fd);
	ip_descriptor_log_give_up(n->log);
	assert_false(ip_descriptor_log_look(n->log));
	close(fd);
}

/* Room that was made for an event that did not come is no packet; a mark and a loss are. */
static void test_packets_without_events(void **state)
{
	struct noting *n = *state;
	const uint8_t uuid[16] = {0};
	struct ip_kernel_stream s;
	struct ip_kernel_packet_header h;
	int file;

	ip_kernel_stream_init(&s, n->dir, uuid, "all", 3);
	assert_non_null(ip_kernel_stream_room(&s));
	assert_int_equal(ip_kernel_stream_flush(&s), 0);
	assert_int_equal(ip_kernel_stream_mark(&s, 50), 0); /* the stream has not begun */
	assert_int_equal(s.packets, 0);
	memset(ip_kernel_stream_room(&s), 0, 20);
	ip_kernel_stream_add(&s, 100, 20);
	assert_int_equal(ip_kernel_stream_mark(&s, 150), 0);
	assert_int_equal(s.packets, 2);
	assert_non_null(ip_kernel_stream_room(&s));
	assert_int_equal(ip_kernel_stream_flush(&s), 0);
	assert_int_equal(s.packets, 2);
	assert_int_equal(ip_kernel_stream_lost(&s, 9), 0);
	assert_int_equal(ip_kernel_stream_finish(&s, 200), 0);
	file = openat(n->dir, "all_3", O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(file, &h, sizeof(h), s.bytes - sizeof(h)), sizeof(h));
	assert_int_equal(h.events_discarded, 9);
	assert_int_equal(h.timestamp_end, 200);
	assert_int_equal(h.cpu_id, 3);
	assert_true(h.timestamp_begin >= 150);
	close(file);
	ip_kernel_stream_clear(&s);
}

/* As many as readers can take; behind them is a gap, up to the next segment that has one. */
static void test_paths(void **state)
{
	struct noting *n = *state;
	char text[IP_CALL_PATH_MOST], line[2 * IP_CALL_PATH_MOST];
	const struct ip_call_path path = {.tid = 7, .number = SYS_stat, .text = text};
	struct ip_descriptor_log *log = ip_descriptor_log_open(n->dir, true, 1, NULL);
	uint64_t tsc = 1000, bytes;
	struct ip_call_path got;
	FILE *in;

	assert_non_null(log);
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	do {
		struct ip_call_path one = path;

		bytes = ip_descriptor_log_bytes(log);
		one.tsc = tsc++;
		ip_descriptor_log_path(log, &one);
	} while (ip_descriptor_log_bytes(log) > bytes);
	assert_int_equal(ip_descriptor_log_paths_end(log), 0);
	assert_true(bytes > 1000000 && bytes < 1200000);
	assert_int_equal(ip_descriptor_log_cut(log, 2), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct ip_call_path one = path;

		one.tsc = tsc + 100 + i;
		one.text = "/next";
		ip_descriptor_log_path(log, &one);
	}
	assert_int_equal(ip_descriptor_log_paths_end(log), 0);
	in = fdopen(openat(n->dir, "iprobe/descriptors-2", O_RDONLY | O_CLOEXEC), "r");
	assert_non_null(in);
	for (unsigned i = 0; i < 3; i++) {
		assert_non_null(fgets(line, sizeof(line), in));
		line[strcspn(line, "\n")] = '\0';
		assert_true(ip_call_path_parse(line, &got));
		assert_int_equal(got.tid, i ? 7 : 0);
		assert_int_equal(got.tsc, i ? tsc + 99 + i : tsc - 1);
		if (!i)
			assert_int_equal(got.address, tsc + 100);
	}
	assert_null(fgets(line, sizeof(line), in));
	fclose(in);
	ip_descriptor_log_close(log);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_was_opened),
		TEST(test_what_was_closed),
		TEST(test_fifos),
		TEST(test_order_of_cpus),
		TEST(test_ranges_and_programs),
		TEST(test_pipes),
		TEST(test_connections),
		TEST(test_losses),
		TEST(test_paths),
		TEST(test_packets_without_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
