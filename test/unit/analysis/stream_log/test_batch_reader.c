/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of batches: files that end anywhere, that have holes, that someone has made up.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/stream_log/batch_reader.h"
#include "analysis/stream_log/last_calls.h"
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

/* A file that is made of beginnings of large batches costs bounded time. */
static void test_beginnings(void **state)
{
	const size_t size = 24u << 20;
	uint8_t *bytes = calloc(1, size);
	uint64_t missing, within, tail, began = ip_thread_cpu_ns();

	(void)state;
	assert_non_null(bytes);
	make(bytes, 7, 0);
	for (size_t at = SIZE; at + 64 <= size; at += 64) {
		struct ip_stream_log_header *h = (void *)(bytes + at);

		*h = (struct ip_stream_log_header){.magic = IP_STREAM_LOG_MAGIC,
						   .version = IP_STREAM_LOG_VERSION,
						   .size = IP_STREAM_LOG_MOST,
						   .id = 7,
						   .number = 1 + at};
	}
	assert_int_equal(count(bytes, size, &missing, &within, &tail), 1);
	assert_true(ip_thread_cpu_ns() - began < 60000000000ull);
	free(bytes);
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
		if (ip_last_calls_read_fd(fd, "log", 3, &last) < 0)
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
		cmocka_unit_test(test_cut),	  cmocka_unit_test(test_damage),
		cmocka_unit_test(test_sections),  cmocka_unit_test(test_beginnings),
		cmocka_unit_test(test_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
