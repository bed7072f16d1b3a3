/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of perf_event_open(2), written here in the kernel's place: rightly, and in ways that it
 * never does.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel_trace/perf/perf_clock.h"
#include "kernel_trace/perf/perf_ring.h"
#include "test/unit/test.h"

#define SIZE 4096u

/* The ring lies between pages that end the test where they are touched. */
struct ring {
	struct ip_perf_ring ring;
	struct perf_event_mmap_page page;
	uint8_t *data;
	struct ip_perf_batch *batch;
	struct ip_perf_clock clock;
};

/* What the taker was given: a text, in which a letter stands for a record, and '!' for a loss. */
struct taken {
	char text[8192];
	size_t n;
	uint64_t lost, last;
	bool refuses;
};

static uint64_t ticks;

/* 1 tick a ns. */
static uint64_t read_clocks(uint64_t *ret_ns, uint64_t *ret_tsc)
{
	ticks += 1u << 20;
	*ret_ns = *ret_tsc = ticks;
	return 1;
}

static int on_record(void *context, const void *record, size_t size, uint64_t tsc)
{
	struct taken *t = context;

	assert_true(size && t->n < sizeof(t->text) - 1);
	for (size_t i = 0; i < size; i++) /* all of it is there */
		assert_int_equal(((const char *)record)[i], *(const char *)record);
	t->text[t->n++] = *(const char *)record;
	t->last = tsc;
	return t->refuses ? -1 : 0;
}

static int on_lost(void *context, uint64_t total)
{
	struct taken *t = context;

	t->text[t->n++] = '!';
	t->lost = total;
	return 0;
}

static void make_of(struct ring *r, size_t bytes)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	uint8_t *all = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(all != MAP_FAILED);
	memset(r, 0, sizeof(*r));
	r->data = all + page;
	assert_int_equal(mprotect(r->data, bytes, PROT_READ | PROT_WRITE), 0);
	r->batch = malloc(sizeof(*r->batch));
	assert_non_null(r->batch);
	ip_perf_ring_init(&r->ring, &r->page, r->data, bytes);
	ticks = 1000;
	r->clock.read = read_clocks;
	assert_int_equal(ip_perf_clock_begin(&r->clock), 0);
}

static void make(struct ring *r)
{
	make_of(r, SIZE);
}

static void clear(struct ring *r)
{
	const size_t page = sysconf(_SC_PAGESIZE);

	munmap(r->data - page, r->ring.size + 2 * page);
	free(r->batch);
}

static void put(struct ring *r, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		r->data[r->page.data_head++ % r->ring.size] = ((const uint8_t *)bytes)[i];
}

static void put_header(struct ring *r, uint32_t type, uint16_t size)
{
	const struct perf_event_header h = {.type = type, .size = size};

	put(r, &h, sizeof(h));
}

/* A sample whose record is size letters; size + 4 is a multiple of 8. */
static void put_sample(struct ring *r, uint64_t ns, char letter, uint32_t size)
{
	put_header(r, PERF_RECORD_SAMPLE, 20 + size);
	put(r, &ns, sizeof(ns));
	put(r, &size, sizeof(size));
	for (uint32_t i = 0; i < size; i++)
		put(r, &letter, 1);
}

static void put_lost(struct ring *r, uint64_t n)
{
	const uint64_t id = 7;

	put_header(r, PERF_RECORD_LOST, 24);
	put(r, &id, sizeof(id));
	put(r, &n, sizeof(n));
}

static int take(struct ring *r, struct taken *t)
{
	const struct ip_record_sink taker = {.record = on_record, .lost = on_lost, .context = t};

	memset(t, 0, sizeof(*t));
	return ip_perf_ring_read(&r->ring, r->batch, &r->clock, &taker);
}

static void assert_takes(struct ring *r, const char *text)
{
	struct taken t;

	assert_int_equal(take(r, &t), 0);
	assert_string_equal(t.text, text);
	assert_int_equal(r->page.data_tail, r->page.data_head);
}

static void test_records(void **state)
{
	struct ring r;

	(void)state;
	make(&r);
	assert_takes(&r, "");
	put_sample(&r, 2000, 'a', 4);
	put_sample(&r, 2001, 'b', 68);
	put_header(&r, PERF_RECORD_THROTTLE, 32); /* of another type: passed over */
	put(&r, "twenty-four bytes of it.", 24);
	put_sample(&r, 2002, 'c', 12);
	assert_takes(&r, "abc");
	assert_takes(&r, "");
	assert_int_equal(ip_perf_ring_lost(&r.ring), 0);
	clear(&r);
}

static void test_round_the_end(void **state)
{
	struct ring r;

	(void)state;
	for (size_t before = SIZE - 128; before < SIZE; before += 8) {
		make(&r);
		r.page.data_head = r.page.data_tail = 5ull * SIZE + before;
		put_sample(&r, 2000, 'a', 60);
		put_sample(&r, 2001, 'b', 60);
		assert_takes(&r, "ab");
		clear(&r);
	}
}

/* An interrupt's samples stand before that of what it interrupted. Behind a loss nothing is put
 * before it. */
static void test_order(void **state)
{
	struct ring r;

	(void)state;
	make(&r);
	put_sample(&r, 2005, 'd', 4);
	put_sample(&r, 2003, 'b', 4);
	put_sample(&r, 2003, 'c', 4);
	put_sample(&r, 2001, 'a', 4);
	put_sample(&r, 2006, 'e', 4);
	put_lost(&r, 3);
	put_sample(&r, 2002, 'f', 4);
	assert_takes(&r, "abcde!f");
	assert_int_equal(ip_perf_ring_lost(&r.ring), 3);
	clear(&r);
}

/* Samples of before and behind are left out; losses count. */
static void test_times(void **state)
{
	struct ring r;

	(void)state;
	make(&r);
	r.ring.from = 2001;
	r.ring.until = 2002;
	for (unsigned i = 0; i < 5; i++)
		put_sample(&r, 2000 + i, 'a' + i, 4);
	put_lost(&r, 1);
	assert_takes(&r, "bc!");
	clear(&r);
}

static void test_losses(void **state)
{
	struct taken t;
	struct ring r;

	(void)state;
	make(&r);
	put_lost(&r, 3);
	put_sample(&r, 2000, 'a', 4);
	put_lost(&r, 4);
	put_lost(&r, 5);
	assert_int_equal(take(&r, &t), 0);
	assert_string_equal(t.text, "!a!!");
	assert_int_equal(t.lost, 12);
	assert_int_equal(ip_perf_ring_lost(&r.ring), 12);
	clear(&r);
}

/* A ring that was full may have lost something, until the next record says that it has not. */
static void test_full(void **state)
{
	struct ring r;
	struct taken t;

	(void)state;
	make(&r);
	for (unsigned i = 0; i < SIZE / 64; i++)
		put_sample(&r, 2000 + i, 'a', 44);
	assert_int_equal(r.page.data_head, SIZE);
	assert_int_equal(take(&r, &t), 0);
	assert_int_equal(t.n, SIZE / 64 + 1);
	assert_int_equal(t.text[SIZE / 64], '!');
	assert_int_equal(ip_perf_ring_lost(&r.ring), 1);
	assert_takes(&r, "");
	assert_int_equal(ip_perf_ring_lost(&r.ring), 1);
	put_sample(&r, 3000, 'b', 4);
	assert_takes(&r, "b");
	assert_int_equal(ip_perf_ring_lost(&r.ring), 0);
	clear(&r);
}

/* What comes in several batches is passed on before the loss behind it. */
static void test_full_of_batches(void **state)
{
	struct ring r;
	struct taken t;

	(void)state;
	make_of(&r, 128u << 10);
	while (r.page.data_head < r.ring.size - 24)
		put_sample(&r, 2000, 'a', 4);
	assert_int_equal(take(&r, &t), 1);
	assert_null(strchr(t.text, '!'));
	assert_int_equal(take(&r, &t), 0);
	assert_int_equal(t.text[t.n - 1], '!');
	assert_int_equal(t.lost, 1);
	put_lost(&r, 7);
	put_sample(&r, 3000, 'b', 4);
	assert_takes(&r, "!b");
	assert_int_equal(ip_perf_ring_lost(&r.ring), 7);
	clear(&r);
}

/* What is more than a batch comes in several. */
static void test_batches(void **state)
{
	const size_t records = 3 * IP_PERF_BATCH - 1;
	struct ring r;
	struct taken t;

	(void)state;
	make_of(&r, 1u << 20);
	for (size_t i = 0; i < records; i++)
		put_sample(&r, 2000 + i, 'a', 4);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(take(&r, &t), i < 2);
		assert_int_equal(t.n, i < 2 ? IP_PERF_BATCH : IP_PERF_BATCH - 1);
		assert_int_equal(r.page.data_tail,
				 24 * (i < 2 ? (i + 1) * IP_PERF_BATCH : records));
	}
	clear(&r);
}

static void assert_refused(struct ring *r)
{
	const uint64_t tail = r->page.data_tail;
	struct taken t;

	assert_int_equal(take(r, &t), -1);
	assert_non_null(strstr(ip_error_message(), "perf ring"));
	assert_int_equal(r->page.data_tail, tail);
	clear(r);
}

static void test_sizes_that_cannot_be(void **state)
{
	static const uint16_t sizes[] = {0, 1, 7, 12, 33, 4104, UINT16_MAX, UINT16_MAX - 7};
	struct ring r;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (uint32_t type = PERF_RECORD_LOST; type <= PERF_RECORD_SAMPLE; type++) {
			make(&r);
			put_sample(&r, 2000, 'a', 4);
			put_header(&r, type, sizes[i]);
			put(&r, "twenty-four bytes of it.", 24);
			assert_refused(&r);
		}
}

static void test_cut_records(void **state)
{
	struct ring r;

	(void)state;
	for (uint64_t less = 8; less < 40; less += 8) { /* the head stands in the record */
		make(&r);
		put_sample(&r, 2000, 'a', 20);
		r.page.data_head -= less;
		assert_refused(&r);
	}
	make(&r);
	r.page.data_head = 4; /* not even a header */
	assert_refused(&r);
	make(&r);
	put_header(&r, PERF_RECORD_SAMPLE, 16); /* no room for the size of its record */
	put(&r, "8 bytes!", 8);
	assert_refused(&r);
	make(&r);
	put_header(&r, PERF_RECORD_LOST, 16);
	put(&r, "8 bytes!", 8);
	assert_refused(&r);
}

static void test_a_record_larger_than_its_sample(void **state)
{
	static const uint32_t sizes[] = {5, 100, 65536, INT32_MAX, UINT32_MAX};
	struct ring r;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		make(&r);
		put_sample(&r, 2000, 'a', 4);
		memcpy(r.data + 16, &sizes[i], sizeof(sizes[i]));
		assert_refused(&r);
	}
}

static void test_a_head_that_runs(void **state)
{
	static const uint64_t heads[] = {8000 - 8, 0, 8000 + SIZE + 8, UINT64_MAX, UINT64_MAX - 7};
	struct ring r;

	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		make(&r);
		r.page.data_tail = 8000;
		r.page.data_head = heads[i];
		assert_refused(&r);
	}
	make(&r);
	r.page.data_tail = 3; /* not at a record */
	r.page.data_head = 67;
	assert_refused(&r);
}

/* Any bytes at all: nothing outside of the ring is touched, and it comes to an end. */
static void test_noise(void **state)
{
	(void)state;
	srandom(4711);
	for (unsigned i = 0; i < 3000; i++) {
		struct ring r;
		struct taken t;

		if (i % 100 == 0) {
			make(&r);
		}
		for (unsigned k = 0; k < SIZE; k++)
			r.data[k] = random() >> 5;
		for (unsigned k = 0; k < SIZE; k += 8 * (1 + random() % 16)) {
			const struct perf_event_header h = {
				.type = random() % 3 ? PERF_RECORD_SAMPLE : PERF_RECORD_LOST,
				.size = 8 * (random() % 12)};

			memcpy(r.data + k, &h, sizeof(h));
		}
		r.page.data_tail = 8 * (random() % SIZE);
		r.page.data_head = r.page.data_tail + random() % (SIZE + 16);
		t = (struct taken){.refuses = true};
		(void)take(&r, &t);
		if (i % 100 == 99)
			clear(&r);
	}
}

static void test_a_taker_that_fails(void **state)
{
	const struct ip_record_sink taker = {.record = on_record, .lost = on_lost};
	struct taken t = {.refuses = true};
	struct ip_record_sink failing = taker;
	struct ring r;

	(void)state;
	make(&r);
	put_sample(&r, 2000, 'a', 4);
	put_sample(&r, 2000, 'b', 4);
	failing.context = &t;
	assert_int_equal(ip_perf_ring_read(&r.ring, r.batch, &r.clock, &failing), -1);
	assert_string_equal(t.text, "a");
	assert_int_equal(r.page.data_tail, 0);
	clear(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_round_the_end),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_full_of_batches),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_sizes_that_cannot_be),
		cmocka_unit_test(test_cut_records),
		cmocka_unit_test(test_a_record_larger_than_its_sample),
		cmocka_unit_test(test_a_head_that_runs),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_a_taker_that_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
