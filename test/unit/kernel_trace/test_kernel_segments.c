/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments in memory: the newest stay, whole ones are dropped, and a writer gets those of the
 * moment at which it began. Streams that are cut into segments begin anew in each of them.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dir.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/kernel_stream.h"
#include "kernel_trace/segments/kernel_segments.h"
#include "test/unit/test.h"

#define MOST 8000u

struct place {
	struct ip_dir_place place;
	int dir;
	struct ip_kernel_segments *kept;
};

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->dir = ip_dir_make_temporary("/tmp", "test-segments", &p->place);
	assert_true(p->dir >= 0);
	assert_int_equal(mkdirat(p->dir, IP_KERNEL_SUBDIR, 0700), 0);
	p->kept = ip_kernel_segments_create(MOST);
	assert_non_null(p->kept);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;

	ip_kernel_segments_destroy(p->kept);
	close(p->dir);
	ip_dir_remove(p->place.parent, p->place.name);
	ip_dir_place_close(&p->place);
	free(p);
	return 0;
}

/* What a file holds; -1: there is none. */
static ssize_t read_file(const struct place *p, const char *name, void *ret, size_t size)
{
	int fd = openat(p->dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size);

	if (fd >= 0)
		close(fd);
	return n;
}

static void add(struct place *p, uint32_t number, size_t size)
{
	char path[32], data[2000];

	memset(data, '0' + (int)number, sizeof(data));
	snprintf(path, sizeof(path), IP_KERNEL_SUBDIR "/all_0-%u", number);
	assert_int_equal(ip_kernel_segments_add(p->kept, path, data, size), 0);
}

static void test_the_oldest_are_dropped(void **state)
{
	struct place *p = *state;
	char data[4000];
	uint32_t first;
	uint64_t bytes;

	assert_false(ip_kernel_segments_is_full(p->kept));
	add(p, 0, 1500);
	assert_true(ip_kernel_segments_is_full(p->kept));
	for (uint32_t i = 1; i <= 7; i++) {
		assert_int_equal(ip_kernel_segments_begin(p->kept), i);
		assert_false(ip_kernel_segments_is_full(p->kept));
		add(p, i, 700);
		add(p, i, 700);
	}
	/* 1,400 bytes and some more each: five have room */
	assert_int_equal(ip_kernel_segments_first(p->kept), 3);
	assert_int_equal(ip_kernel_segments_write(p->kept, p->dir, UINT64_MAX, &first, &bytes), 0);
	assert_int_equal(first, 3);
	assert_int_equal(bytes, 5 * 1400);
	assert_int_equal(read_file(p, IP_KERNEL_SUBDIR "/all_0-2", data, sizeof(data)), -1);
	assert_int_equal(read_file(p, IP_KERNEL_SUBDIR "/all_0-3", data, sizeof(data)), 1400);
	assert_int_equal(data[0], '3');
	assert_int_equal(data[1399], '3');
}

static void test_what_has_room(void **state)
{
	struct place *p = *state;
	char data[4000];
	uint32_t first;
	uint64_t bytes;

	add(p, 0, 1000);
	ip_kernel_segments_begin(p->kept);
	add(p, 1, 1000);
	assert_int_equal(ip_kernel_segments_write(p->kept, p->dir, 1500, &first, &bytes), 0);
	assert_int_equal(first, 1);
	assert_int_equal(bytes, 1000);
	assert_int_equal(read_file(p, IP_KERNEL_SUBDIR "/all_0-0", data, sizeof(data)), -1);
	/* not even the newest one */
	unlinkat(p->dir, IP_KERNEL_SUBDIR "/all_0-1", 0);
	assert_int_equal(ip_kernel_segments_write(p->kept, p->dir, 500, &first, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(read_file(p, IP_KERNEL_SUBDIR "/all_0-1", data, sizeof(data)), -1);
	/* it cannot be written */
	assert_int_equal(mkdirat(p->dir, IP_KERNEL_SUBDIR "/all_0-1", 0700), 0);
	assert_int_equal(ip_kernel_segments_write(p->kept, p->dir, UINT64_MAX, &first, &bytes), -1);
	unlinkat(p->dir, IP_KERNEL_SUBDIR "/all_0-1", AT_REMOVEDIR);
}

static void event(struct ip_kernel_stream *stream, uint64_t tsc)
{
	const struct ip_kernel_event_header h = {.id = IP_KERNEL_SOFTIRQ_ENTRY, .tsc = tsc};
	const uint32_t vector = 1;
	uint8_t *out = ip_kernel_stream_room(stream);

	assert_non_null(out);
	memcpy(out, &h, sizeof(h));
	memcpy(out + sizeof(h), &vector, sizeof(vector));
	ip_kernel_stream_add(stream, tsc, sizeof(h) + sizeof(vector));
}

/* The packets of a file: when they begin, and how much was lost up to them. */
static size_t packets(const struct place *p, const char *name, struct ip_kernel_packet_header *ret,
		      size_t most)
{
	static uint8_t data[65536];
	ssize_t size = read_file(p, name, data, sizeof(data)), at = 0;
	size_t n = 0;

	for (; at < size && n < most; at += ret[n++].packet_size / 8)
		memcpy(&ret[n], data + at, sizeof(*ret));
	assert_true(size < 0 || at == size);
	return n;
}

static void cut(struct place *p, struct ip_kernel_segments *kept)
{
	static const uint8_t uuid[16] = {1};
	struct ip_kernel_packet_header h[8];
	struct ip_kernel_stream stream, quiet;
	int dir = openat(p->dir, IP_KERNEL_SUBDIR, O_DIRECTORY | O_CLOEXEC);
	uint32_t first;
	uint64_t bytes;

	ip_kernel_stream_init(&stream, dir, uuid, "all", 3);
	ip_kernel_stream_init(&quiet, dir, uuid, "all", 4);
	stream.in_segments = quiet.in_segments = true;
	stream.kept = quiet.kept = kept;
	event(&stream, 100);
	assert_int_equal(ip_kernel_stream_lost(&stream, 7), 0);
	event(&stream, 200);
	assert_int_equal(ip_kernel_stream_flush(&stream), 0);
	assert_int_equal(ip_kernel_stream_lost(&stream, 9), 0); /* not told yet */
	if (kept)
		ip_kernel_segments_begin(kept);
	assert_int_equal(ip_kernel_stream_cut(&stream, 1, 250), 0);
	assert_int_equal(ip_kernel_stream_cut(&quiet, 1, 250), 0);
	event(&stream, 300);
	event(&quiet, 310);
	if (kept) {
		assert_int_equal(ip_kernel_stream_flush(&stream), 0);
		assert_int_equal(ip_kernel_stream_flush(&quiet), 0);
		ip_kernel_segments_begin(kept);
	}
	assert_int_equal(ip_kernel_stream_cut(&stream, 2, 350), 0);
	assert_int_equal(ip_kernel_stream_cut(&quiet, 2, 350), 0);
	assert_int_equal(stream.events, 3);
	if (kept)
		assert_int_equal(ip_kernel_segments_write(kept, p->dir, UINT64_MAX, &first, &bytes),
				 0);
	assert_int_equal(packets(p, IP_KERNEL_SUBDIR "/all_3-0", h, 8), 2);
	assert_int_equal(h[1].events_discarded, 7);
	/* the counts begin anew, and what no packet had told of is told */
	assert_int_equal(packets(p, IP_KERNEL_SUBDIR "/all_3-1", h, 8), 2);
	assert_int_equal(h[0].packet_seq_num, 0);
	assert_int_equal(h[0].timestamp_end, 250);
	assert_int_equal(h[0].events_discarded, 2);
	assert_int_equal(h[1].events_discarded, 2);
	assert_int_equal(packets(p, IP_KERNEL_SUBDIR "/all_3-2", h, 8), 1);
	assert_int_equal(h[0].events_discarded, 0);
	/* one that has not begun has no file; one that has has one from then on */
	assert_int_equal(packets(p, IP_KERNEL_SUBDIR "/all_4-0", h, 8), 0);
	assert_int_equal(packets(p, IP_KERNEL_SUBDIR "/all_4-1", h, 8), 1);
	assert_int_equal(packets(p, IP_KERNEL_SUBDIR "/all_4-2", h, 8), 1);
	ip_kernel_stream_clear(&stream);
	ip_kernel_stream_clear(&quiet);
	close(dir);
}

static void test_streams_in_files(void **state)
{
	cut(*state, NULL);
}

static void test_streams_in_memory(void **state)
{
	struct place *p = *state;
	struct ip_kernel_segments *kept = ip_kernel_segments_create(1 << 20);

	assert_non_null(kept);
	cut(p, kept);
	ip_kernel_segments_destroy(kept);
}

static void test_names(void **state)
{
	static const char *const none[] = {
		"all",	  "all_",      "all_0-",    "all_0-01", "all_0-1x",
		"all_-1", "all_0-0x1", "other_0-1", "all_0--1", "all_0-9999999999"};
	struct ip_kernel_stream_name name;

	(void)state;
	assert_true(ip_kernel_stream_name_parse("all_12", &name));
	assert_true(name.all && !name.in_segments && name.base == 6);
	assert_true(ip_kernel_stream_name_parse("target_3-0", &name));
	assert_true(!name.all && name.in_segments && !name.segment && name.base == 8);
	assert_true(ip_kernel_stream_name_parse("state_0-417", &name));
	assert_int_equal(name.segment, 417);
	for (size_t i = 0; i < N_ELEMENTS(none); i++)
		assert_false(ip_kernel_stream_name_parse(none[i], &name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_oldest_are_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_has_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_streams_in_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_streams_in_memory, setup, teardown),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
