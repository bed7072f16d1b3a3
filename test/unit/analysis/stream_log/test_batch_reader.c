/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of batches: files that end anywhere, that have holes, that someone has made up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/stream_log/batch_reader.h"
#include "analysis/stream_log/last_calls.h"
#include "common/elf/probe_list.h"
#include "common/now.h"
#include "common/trace/checksum.h"
#include "test/unit/test.h"

#define SIZE 96u /* of a batch: the header, a section of 20 bytes and its padding */
#define ALL  6u

static void make(uint8_t *at, uint64_t id, uint64_t number)
{
	struct ip_stream_log_header *h = (struct ip_stream_log_header *)at;
	const struct ip_stream_log_section section = {IP_STREAM_LOG_TEXT, 20};

	memset(at, 0, SIZE);
	*h = (struct ip_stream_log_header){.magic = IP_STREAM_LOG_MAGIC,
					   .version = IP_STREAM_LOG_VERSION,
					   .size = SIZE,
					   .id = id,
					   .number = number};
	memcpy(at + sizeof(*h), &section, sizeof(section));
	memset(at + sizeof(*h) + sizeof(section), 'a', 20);
	h->checksum = ip_checksum(0, h, SIZE);
}

static struct ip_batch_reader *open_bytes(const uint8_t *bytes, size_t size)
{
	const int fd = memfd_create("log", MFD_CLOEXEC);
	struct ip_batch_reader *r;

	assert_int_equal(pwrite(fd, bytes, size, 0), size);
	assert_int_equal(ip_batch_reader_open_fd(fd, "log", &r), 0);
	return r;
}

/* Reads all batches. Returns their number; -1 with an error. */
static int count(const uint8_t *bytes, size_t size, uint64_t *missing, uint64_t *within,
		 uint64_t *tail)
{
	struct ip_batch_reader *r = open_bytes(bytes, size);
	const struct ip_stream_log_header *h;
	uint64_t gap;
	int n = 0, found;

	*missing = 0;
	for (; (found = ip_batch_reader_next(r, &h, &gap)) > 0; n++) {
		struct ip_batch_section section = {0};

		*missing += gap;
		assert_true(ip_batch_reader_section(r, &section));
		assert_int_equal(section.size, 20);
		assert_int_equal(section.content[19], 'a');
		assert_false(ip_batch_reader_section(r, &section));
	}
	ip_batch_reader_damage(r, within, tail);
	ip_batch_reader_close(r);
	return found < 0 ? -1 : n;
}

static void test_cut(void **state)
{
	uint8_t bytes[ALL * SIZE] __attribute__((aligned(8)));
	uint64_t missing, within, tail;

	(void)state;
	for (unsigned i = 0; i < ALL; i++)
		make(bytes + i * SIZE, 7, i);
	for (size_t size = 0; size <= sizeof(bytes); size++) {
		const int n = count(bytes, size, &missing, &within, &tail);

		if (size < SIZE) {
			assert_int_equal(n, -1);
			assert_error("not a live log");
			continue;
		}
		assert_int_equal(n, size / SIZE);
		assert_int_equal(missing, 0);
		assert_int_equal(within, 0);
		assert_int_equal(tail, size % SIZE);
	}
}

static void test_damage(void **state)
{
	uint8_t bytes[ALL * SIZE] __attribute__((aligned(8)));
	uint64_t missing, within, tail;

	(void)state;
	/* any bit of one batch: the others are read */
	for (unsigned bit = 0; bit < SIZE * 8; bit++) {
		for (unsigned i = 0; i < ALL; i++)
			make(bytes + i * SIZE, 7, i);
		bytes[2 * SIZE + bit / 8] ^= 1 << bit % 8;
		assert_int_equal(count(bytes, sizeof(bytes), &missing, &within, &tail), ALL - 1);
		assert_int_equal(missing, 1);
		assert_int_equal(within, SIZE);
	}
	/* what lies behind is of an earlier log, or was there before */
	for (unsigned i = 0; i < ALL; i++)
		make(bytes + i * SIZE, i < 3 ? 7 : 8, i);
	assert_int_equal(count(bytes, sizeof(bytes), &missing, &within, &tail), 3);
	for (unsigned i = 0; i < ALL; i++)
		make(bytes + i * SIZE, 7, i < 3 ? i : i - 3);
	assert_int_equal(count(bytes, sizeof(bytes), &missing, &within, &tail), 3);
	assert_int_equal(tail, 3 * SIZE);
}

/* Sizes of sections that lie beyond the batch, with a checksum that fits. */
static void test_sections(void **state)
{
	static const uint32_t sizes[] = {25, 32, 1000, 0x7fffffff, 0xfffffff8u, 0xffffffffu};
	uint8_t bytes[2 * SIZE] __attribute__((aligned(8)));
	uint64_t missing, within, tail;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
		struct ip_stream_log_header *h = (void *)(bytes + SIZE);

		make(bytes, 7, 0);
		make(bytes + SIZE, 7, 1);
		memcpy(bytes + SIZE + sizeof(*h) + 4, &sizes[i], 4);
		h->checksum = 0;
		h->checksum = ip_checksum(0, h, SIZE);
		assert_int_equal(count(bytes, sizeof(bytes), &missing, &within, &tail), 1);
	}
}

/* Fills bytes with beginnings of large batches. */
static void make_beginnings(uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + 64 <= size; at += 64) {
		struct ip_stream_log_header *h = (void *)(bytes + at);

		*h = (struct ip_stream_log_header){.magic = IP_STREAM_LOG_MAGIC,
						   .version = IP_STREAM_LOG_VERSION,
						   .size = IP_STREAM_LOG_MOST,
						   .id = 7,
						   .number = 9 + at};
	}
}

/* A file that is made of beginnings costs bounded time, and no more when it is read again. What is
 * whole is found in each reading. */
static void test_beginnings(void **state)
{
	const size_t size = 24u << 20, garbage = 64;
	uint8_t *bytes = calloc(1, size);
	const struct ip_stream_log_header *h;
	struct ip_batch_reader *r;
	uint64_t missing, within, tail, began, first = 0, again;

	(void)state;
	assert_non_null(bytes);
	make(bytes, 7, 0);
	make(bytes + SIZE + garbage, 7, 1);
	make_beginnings(bytes + 2 * SIZE + garbage, size - 2 * SIZE - garbage);
	r = open_bytes(bytes, size);
	for (unsigned round = 0; round < 3; round++) {
		unsigned n = 0;

		ip_batch_reader_rewind(r);
		began = ip_thread_cpu_ns();
		while (ip_batch_reader_next(r, &h, &missing) > 0)
			n++;
		again = ip_thread_cpu_ns() - began;
		first = round ? first : again;
		assert_int_equal(n, 2);
		ip_batch_reader_damage(r, &within, &tail);
		assert_int_equal(within, garbage);
		assert_int_equal(tail, size - 2 * SIZE - garbage);
	}
	assert_true(first < 60000000000ull);
	assert_true(again < first / 4);
	ip_batch_reader_close(r);
	free(bytes);
}

/* Bytes that this process has read so far. */
static uint64_t bytes_read(void)
{
	FILE *file = fopen("/proc/self/io", "re");
	unsigned long n = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "rchar: %lu", &n), 1);
	fclose(file);
	return n;
}

/* Beginnings that the end of the file cuts off: each is read for its rest. */
static void test_cut_beginnings(void **state)
{
	const size_t size = IP_STREAM_LOG_MOST;
	uint8_t *bytes = calloc(1, size);
	uint64_t missing, within, tail, began;

	(void)state;
	assert_non_null(bytes);
	make(bytes, 7, 0);
	make_beginnings(bytes + SIZE, size - SIZE);
	began = bytes_read();
	assert_int_equal(count(bytes, size, &missing, &within, &tail), 1);
	assert_int_equal(tail, size - SIZE);
	assert_true(bytes_read() - began < 2ull << 30);
	free(bytes);
}

static uint8_t *log_bytes;
static size_t log_size;
static uint64_t log_number;

static void begin_log(void)
{
	log_bytes = realloc(log_bytes, 64u << 20);
	assert_non_null(log_bytes);
	log_size = log_number = 0;
}

static struct ip_stream_log_header *last_batch;

static void add_batch(void)
{
	last_batch = (void *)(log_bytes + log_size);
	*last_batch = (struct ip_stream_log_header){.magic = IP_STREAM_LOG_MAGIC,
						    .version = IP_STREAM_LOG_VERSION,
						    .size = sizeof(*last_batch),
						    .id = 7,
						    .number = log_number++};
	log_size += last_batch->size;
}

static void add_section(enum ip_stream_log_kind kind, const void *content, size_t size)
{
	const struct ip_stream_log_section section = {kind, size};
	const size_t padded = (size + 7) / 8 * 8;

	assert_true(last_batch->size + sizeof(section) + padded <= IP_STREAM_LOG_MOST);
	memset(log_bytes + log_size, 0, sizeof(section) + padded);
	memcpy(log_bytes + log_size, &section, sizeof(section));
	memcpy(log_bytes + log_size + sizeof(section), content, size);
	log_size += sizeof(section) + padded;
	last_batch->size += sizeof(section) + padded;
	last_batch->checksum = 0;
	last_batch->checksum = ip_checksum(0, last_batch, last_batch->size);
}

/* The text of a session of n functions. */
static void add_text(unsigned n)
{
	static const char head[] = "iprobe-session\t1\ntsc_hz\t1000\nmodule\t0\tm\t\t0\t1\t-\n";
	char line[64];

	add_batch();
	add_section(IP_STREAM_LOG_TEXT, head, sizeof(head) - 1);
	for (unsigned i = 1; i <= n; i++) {
		if (last_batch->size > IP_STREAM_LOG_MOST / 2)
			add_batch();
		snprintf(line, sizeof(line), "function\t%u\t0\tf%u\t\t0\t-\n", i, i);
		add_section(IP_STREAM_LOG_TEXT, line, strlen(line));
	}
}

static void add_thread(uint32_t number)
{
	const struct ip_stream_log_thread thread = {
		.thread = number, .pid = 1, .tid = 1000 + number, .sp = 0x7000};

	add_section(IP_STREAM_LOG_THREAD, &thread, sizeof(thread));
}

static void add_record(uint32_t number)
{
	struct {
		uint64_t base;
		struct ip_stream_log_record record;
	} content = {1000,
		     {.after = 1,
		      .thread = number,
		      .sp = 0x7000 >> 3,
		      .what = IP_STREAM_LOG_WHAT(1, IP_PROBE_ENTRY, 0x7000ull)}};

	add_section(IP_STREAM_LOG_RECORDS, &content, sizeof(content));
}

static void read_calls(size_t machines, struct ip_last_calls *ret)
{
	const int fd = memfd_create("log", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, log_bytes, log_size, 0), log_size);
	assert_int_equal(ip_last_calls_read_fd(fd, "log", 3, machines, ret), 0);
}

/* A thread with a large number is no reason to read the file for all numbers below it. */
static void test_large_numbers(void **state)
{
	static const uint8_t other[IP_STREAM_LOG_MOST / 2];
	struct ip_last_calls last;
	uint64_t began;

	(void)state;
	begin_log();
	add_text(20000);
	/* more than what is read at a time, of a kind that is passed over */
	for (unsigned i = 0; i < 16; i++) {
		add_batch();
		add_section(99, other, sizeof(other));
	}
	add_batch();
	add_thread(IP_STREAM_LOG_THREADS - 1);
	add_record(IP_STREAM_LOG_THREADS - 1);
	began = bytes_read();
	read_calls(0, &last);
	assert_true(bytes_read() - began < 8 * log_size);
	assert_int_equal(last.nthreads, 1);
	assert_int_equal(last.records, 1);
	assert_int_equal(last.unread, 0);
	ip_last_calls_clear(&last);
}

/* There are more threads than are read: those that have not ended come first, then the newest. */
static void test_many_threads(void **state)
{
	const uint32_t n = 300, most = 2 * 64;
	struct ip_last_calls last;
	bool alive = false, newest = false;

	(void)state;
	begin_log();
	add_text(2);
	add_batch();
	for (uint32_t i = 0; i < n; i++) {
		const struct ip_stream_log_ended ended = {.thread = i, .time = 2000};

		add_thread(i);
		add_record(i);
		if (i)
			add_section(IP_STREAM_LOG_ENDED, &ended, sizeof(ended));
	}
	read_calls(2, &last);
	assert_int_equal(last.nthreads, most);
	assert_int_equal(last.records, most);
	assert_int_equal(last.unread, n - most);
	assert_int_equal(last.unnamed, 0);
	for (size_t i = 0; i < last.nthreads; i++) {
		alive |= last.threads[i].tid == 1000 && last.threads[i].nopen == 1;
		newest |= last.threads[i].tid == 1000 + n - 1 && last.threads[i].ended;
		assert_true(last.threads[i].tid == 1000 || last.threads[i].tid > 1000 + n - most);
	}
	assert_true(alive && newest);
	ip_last_calls_clear(&last);
}

/* The batch that tells of a thread is missing: its records are counted, once. */
static void test_unnamed(void **state)
{
	struct ip_last_calls last;

	(void)state;
	for (uint32_t n = 0; n < 4; n++) {
		begin_log();
		add_text(2);
		add_batch();
		for (uint32_t i = 0; i < n; i++)
			add_thread(i);
		for (uint32_t i = 0; i < 4; i++)
			add_record(i);
		read_calls(1, &last);
		assert_int_equal(last.nthreads, n);
		assert_int_equal(last.records, n);
		assert_int_equal(last.unnamed, 4 - n);
		ip_last_calls_clear(&last);
	}
}

/* Sections of any kind and contents, behind the text of a session. */
static void test_any_bytes(void **state)
{
	static const char text[] = "iprobe-session\t1\ntsc_hz\t1000\nmodule\t0\tm\t\t0\t1\t-\n"
				   "function\t1\t0\tf\t\t0\t-\nfunction\t2\t0\tf\t\t0\ti\n";
	uint8_t bytes[16 * SIZE] __attribute__((aligned(8)));
	unsigned threads = 0, records = 0;

	(void)state;
	for (unsigned round = 0; round < 5000; round++) {
		struct ip_stream_log_header *h = (void *)bytes;
		struct ip_stream_log_section s = {IP_STREAM_LOG_TEXT, sizeof(text) - 1};
		size_t at = sizeof(*h);
		struct ip_last_calls last;
		int fd = memfd_create("log", MFD_CLOEXEC);

		srand(round);
		for (size_t i = 0; i < sizeof(bytes); i += sizeof(uint32_t)) {
			const uint32_t word =
				round % 4 ? rand() % 4 | (rand() % 3) << 21 : (uint32_t)rand() * 3u;

			memcpy(bytes + i, &word, sizeof(word));
		}
		*h = (struct ip_stream_log_header){.magic = IP_STREAM_LOG_MAGIC,
						   .version = IP_STREAM_LOG_VERSION,
						   .size = sizeof(bytes)};
		memcpy(bytes + at + sizeof(s), text, sizeof(text));
		do {
			memcpy(bytes + at, &s, sizeof(s));
			at += sizeof(s) + (s.size + 7) / 8 * 8;
			if (at + sizeof(s) <= sizeof(bytes))
				s = (struct ip_stream_log_section){
					1 + rand() % 6, rand() % (sizeof(bytes) - at - 7)};
		} while (at < sizeof(bytes));
		h->checksum = ip_checksum(0, bytes, sizeof(bytes));
		assert_int_equal(pwrite(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
		if (ip_last_calls_read_fd(fd, "log", 3, 0, &last) < 0)
			continue;
		threads += last.nthreads;
		records += last.records;
		ip_last_calls_clear(&last);
	}
	assert_true(threads > 100 && records > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_sections),
		cmocka_unit_test(test_beginnings),
		cmocka_unit_test(test_cut_beginnings),
		cmocka_unit_test(test_large_numbers),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_unnamed),
		cmocka_unit_test(test_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
