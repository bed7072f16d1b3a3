/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of a live log: whoever puts bytes in never waits, and what was taken comes out in
 * order, or is counted.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/now.h"
#include "stream_log/log_writer.h"
#include "test/unit/test.h"

#define SIZE 100003u
#define END  3000000000ull

static uint8_t bytes[SIZE];

static void fill(unsigned number)
{
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = number + i * 31;
}

/* A pipe that nobody reads takes 64 KiB: the rest waits, until there is no room. */
static void test_stuck(void **state)
{
	struct ip_log_writer_counts counts;
	struct ip_log_writer *w;
	uint64_t taken = 0, began;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	w = ip_log_writer_start(fds[1], false);
	assert_non_null(w);
	began = ip_now_ns();
	while (ip_log_writer_put(w, bytes, SIZE))
		taken += SIZE;
	assert_true(taken > IP_LOG_WRITER_ROOM - SIZE && taken < IP_LOG_WRITER_ROOM + 4 * SIZE);
	assert_true(ip_now_ns() - began < 10000000000ull);
	assert_null(ip_log_writer_failure(w));
	ip_log_writer_end(w, 50000000, &counts);
	assert_int_equal(counts.written + counts.unwritten, taken);
	assert_true(counts.unwritten > 0 && !counts.syncs);
	close(fds[0]);
}

/* What was taken comes out as it was, around the end of the room. */
static void test_in_order(void **state)
{
	struct ip_log_writer_counts counts;
	struct ip_log_writer *w;
	const int fd = memfd_create("log", 0);
	const unsigned n = 3 * IP_LOG_WRITER_ROOM / SIZE;
	uint8_t *back = malloc(SIZE);

	(void)state;
	assert_non_null(back);
	w = ip_log_writer_start(dup(fd), true);
	assert_non_null(w);
	for (unsigned i = 0; i < n; i++) {
		fill(i);
		while (!ip_log_writer_put(w, bytes, SIZE))
			usleep(100);
	}
	ip_log_writer_end(w, END, &counts);
	assert_int_equal(counts.written, (uint64_t)n * SIZE);
	assert_int_equal(counts.unwritten, 0);
	assert_true(counts.syncs);
	assert_int_equal(counts.synced, counts.written);
	for (unsigned i = 0; i < n; i++) {
		fill(i);
		assert_int_equal(pread(fd, back, SIZE, (off_t)i * SIZE), SIZE);
		assert_memory_equal(back, bytes, SIZE);
	}
	free(back);
	close(fd);
}

/* Whoever took it has gone: that is told, and no signal comes. */
static void test_gone(void **state)
{
	struct ip_log_writer_counts counts;
	struct ip_log_writer *w;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	w = ip_log_writer_start(fds[1], false);
	assert_non_null(w);
	assert_true(ip_log_writer_put(w, bytes, SIZE));
	while (!ip_log_writer_failure(w))
		usleep(100);
	assert_non_null(strstr(ip_log_writer_failure(w), "Broken pipe"));
	assert_false(ip_log_writer_put(w, bytes, 1));
	assert_int_equal(ip_log_writer_waiting(w), IP_LOG_WRITER_ROOM);
	ip_log_writer_end(w, END, &counts);
	assert_int_equal(counts.unwritten, SIZE);
}

/* A place may block for ever, in a write: the end does not wait for that. */
static void test_a_write_that_hangs(void **state)
{
	struct ip_log_writer_counts counts;
	struct ip_log_writer *w;
	const uint64_t began = ip_now_ns();
	int fds[2], n = 0;
	char last;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	w = ip_log_writer_start(fds[1], false);
	assert_non_null(w);
	assert_true(ip_log_writer_put(w, bytes, SIZE));
	/* it is in the write */
	while (ioctl(fds[0], FIONREAD, &n) == 0 && !n)
		usleep(1000);
	ip_log_writer_end(w, 50000000, &counts);
	assert_true(ip_now_ns() - began < 20000000000ull);
	assert_true(counts.hangs);
	assert_int_equal(counts.written + counts.unwritten, SIZE);
	assert_true(counts.unwritten > 0);
	/* it goes on, ends, and closes what it has */
	while (read(fds[0], &last, 1) > 0)
		;
	close(fds[0]);
}

static bool hangs, syncs;

/* In the place of the one of libc: a disk that does not answer. */
int fdatasync(int fd)
{
	__atomic_store_n(&syncs, true, __ATOMIC_RELAXED);
	while (__atomic_load_n(&hangs, __ATOMIC_RELAXED))
		usleep(1000);
	return 0;
}

static void test_a_sync_that_hangs(void **state)
{
	struct ip_log_writer_counts counts;
	struct ip_log_writer *w;
	const int fd = memfd_create("log", 0);
	const uint64_t began = ip_now_ns();

	(void)state;
	__atomic_store_n(&hangs, true, __ATOMIC_RELAXED);
	__atomic_store_n(&syncs, false, __ATOMIC_RELAXED);
	w = ip_log_writer_start(fd, true);
	assert_non_null(w);
	assert_true(ip_log_writer_put(w, bytes, SIZE));
	while (!__atomic_load_n(&syncs, __ATOMIC_RELAXED))
		usleep(1000);
	ip_log_writer_end(w, 50000000, &counts);
	assert_true(ip_now_ns() - began < 20000000000ull);
	assert_true(counts.hangs && counts.syncs);
	assert_int_equal(counts.written, SIZE);
	assert_int_equal(counts.synced, 0);
	__atomic_store_n(&hangs, false, __ATOMIC_RELAXED);
	while (fcntl(fd, F_GETFD) >= 0)
		usleep(1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_a_write_that_hangs),
		cmocka_unit_test(test_a_sync_that_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
