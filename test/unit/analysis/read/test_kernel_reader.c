/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the kernel of several streams: they come in the order of their times, and are the same
 * with any number of threads that read ahead.
 */
#include "test/unit/analysis/wait/kernel_writer.h"

#define STREAMS	    7u
#define PACKETS	    60u /* of a stream: queues go round */
#define RECORDS	    200000u
#define LOST_STREAM 4u

struct seen {
	struct ip_kernel_record *records;
	uint32_t *sums; /* of their fields */
	size_t n;
	char damage[4096], error[512];
	int end;
	uint64_t from, to;
};

static uint32_t next(uint32_t *seed)
{
	return *seed = *seed * 1664525u + 1013904223u;
}

/* Packets of one to 20 events. CPUs are busy at different times, some of which are the same. */
static size_t write_packets(struct writer *w, uint32_t *seed, uint64_t *tscs)
{
	size_t n = 0;

	for (unsigned i = 0; i < PACKETS; i++)
		for (uint32_t cpu = 0; cpu < STREAMS; cpu++) {
			unsigned events = 1 + next(seed) / 3 % 20;

			for (unsigned k = 0; k < events; k++) {
				tscs[cpu] += next(seed) / 5 % (cpu % 3 ? 7 : 40);
				switch_to(w, tscs[cpu], 1 + next(seed) / 9 % 50, 1,
					  next(seed) / 9 % 50);
			}
			w->lost = cpu == LOST_STREAM ? i / 9 : 0;
			flush(w, cpu == 5 ? "target" : "all", cpu);
			n += events;
		}
	return n;
}

static uint32_t sum(const struct ip_kernel_record *record)
{
	uint32_t sum = 2166136261u;

	for (uint32_t i = 0; i < record->size; i++)
		sum = (sum ^ record->fields[i]) * 16777619u;
	return sum;
}

static void read_all(struct writer *w, unsigned jobs, struct seen *ret)
{
	struct ip_kernel_reader *reader;

	*ret = (struct seen){.records = calloc(RECORDS, sizeof(*ret->records)),
			     .sums = calloc(RECORDS, sizeof(*ret->sums))};
	assert_non_null(ret->records);
	assert_non_null(ret->sums);
	assert_int_equal(ip_kernel_reader_open(w->path, &reader), 1);
	assert_int_equal(ip_kernel_reader_use_jobs(reader, jobs), 0);
	ret->from = ip_kernel_reader_begin(reader);
	while ((ret->end = ip_kernel_reader_next(reader, &ret->records[ret->n])) > 0) {
		struct ip_kernel_record *record = &ret->records[ret->n];

		ret->sums[ret->n++] = sum(record);
		record->fields = NULL;
		assert_true(ret->n < RECORDS);
	}
	ret->to = ip_kernel_reader_end(reader);
	if (ret->end < 0)
		snprintf(ret->error, sizeof(ret->error), "%s", ip_error_message());
	for (const char *const *line = ip_kernel_reader_damage(reader); *line; line++)
		strncat(ret->damage, *line, sizeof(ret->damage) - strlen(ret->damage) - 1);
	ip_kernel_reader_close(reader);
}

static void forget(struct seen *seen)
{
	free(seen->records);
	free(seen->sums);
}

/* Reads with any number of threads. ret: what one has read. */
static void read_with_jobs(struct writer *w, struct seen *ret)
{
	static const unsigned jobs[] = {0, 2, 3, 40, 2, 3, 5};

	read_all(w, 1, ret);
	for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
		struct seen seen;

		read_all(w, jobs[i], &seen);
		assert_int_equal(seen.n, ret->n);
		assert_memory_equal(seen.records, ret->records, ret->n * sizeof(*ret->records));
		assert_memory_equal(seen.sums, ret->sums, ret->n * sizeof(*ret->sums));
		assert_string_equal(seen.damage, ret->damage);
		assert_string_equal(seen.error, ret->error);
		assert_int_equal(seen.end, ret->end);
		assert_int_equal(seen.from, ret->from);
		assert_int_equal(seen.to, ret->to);
		forget(&seen);
	}
}

static void test_order(void **state)
{
	struct writer *w = *state;
	uint64_t tscs[STREAMS] = {0}, lost = 0, last[STREAMS] = {0};
	uint32_t seed = 7;
	size_t n = write_packets(w, &seed, tscs), events = 0;
	struct seen seen;

	read_with_jobs(w, &seen);
	assert_int_equal(seen.end, 0);
	assert_string_equal(seen.damage, "");
	for (size_t i = 0; i < seen.n; i++) {
		const struct ip_kernel_record *record = &seen.records[i];

		assert_true(!i || record->tsc >= seen.records[i - 1].tsc);
		assert_int_equal(record->all, record->cpu != 5);
		last[record->cpu] = record->tsc;
		events += record->id != IP_KERNEL_LOST;
		lost += record->lost;
	}
	assert_int_equal(events, n);
	assert_int_equal(lost, (PACKETS - 1) / 9);
	assert_memory_equal(last, tscs, sizeof(last));
	forget(&seen);
}

static int open_stream(const struct writer *w, const char *name)
{
	const int fd = openat(w->dir, name, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* Streams end at what is wrong with them; the others go on. */
static void test_damage(void **state)
{
	struct writer *w = *state;
	uint64_t tscs[STREAMS] = {0};
	uint32_t seed = 8;
	struct ip_kernel_packet_header h;
	const uint64_t early = 1;
	const uint16_t none = 0xfffe;
	struct seen seen;
	int fd;

	write_packets(w, &seed, tscs);
	/* the last packet of one is cut off, the second ones of others have an event of no kind,
	 * and one that is older than the first packet */
	fd = open_stream(w, "all_1");
	assert_int_equal(ftruncate(fd, lseek(fd, 0, SEEK_END) - 7), 0);
	close(fd);
	fd = open_stream(w, "all_3");
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(pwrite(fd, &none, sizeof(none), h.packet_size / 8 + sizeof(h)), 2);
	close(fd);
	fd = open_stream(w, "all_4");
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(pwrite(fd, &early, sizeof(early),
				h.packet_size / 8 + sizeof(h) +
					offsetof(struct ip_kernel_event_header, tsc)),
			 sizeof(early));
	close(fd);
	read_with_jobs(w, &seen);
	assert_int_equal(seen.end, 0);
	assert_non_null(strstr(seen.damage, "all_4: the packet before "));
	assert_non_null(strstr(seen.damage, "all_1: its last packet, at "));
	assert_non_null(strstr(seen.damage, "all_3: the packet before "));
	forget(&seen);
}

/* A file that cannot be read ends the reading, with the same message. */
static void test_failure(void **state)
{
	struct writer *w = *state;
	uint64_t tscs[STREAMS] = {0};
	uint32_t seed = 9;
	struct seen seen;

	write_packets(w, &seed, tscs);
	for (uint32_t cpu = 0; cpu < STREAMS; cpu++) {
		char from[16], to[24];

		snprintf(from, sizeof(from), "%s_%u", cpu == 5 ? "target" : "all", cpu);
		snprintf(to, sizeof(to), "%s-0", from);
		assert_int_equal(renameat(w->dir, from, w->dir, to), 0);
		snprintf(to, sizeof(to), "%s-1", from);
		if (cpu == 2)
			assert_int_equal(mkdirat(w->dir, to, 0700), 0);
	}
	read_with_jobs(w, &seen);
	assert_int_equal(seen.end, -1);
	assert_true(seen.n > 100);
	assert_non_null(strstr(seen.error, "cannot read "));
	assert_non_null(strstr(seen.error, "all_2-1: "));
	forget(&seen);
}

/* A reading that ends early leaves no thread behind. */
static void test_close(void **state)
{
	struct writer *w = *state;
	uint64_t tscs[STREAMS] = {0};
	uint32_t seed = 10;
	struct ip_kernel_record record;

	write_packets(w, &seed, tscs);
	for (unsigned i = 0; i < 200; i++) {
		struct ip_kernel_reader *reader;

		assert_int_equal(ip_kernel_reader_open(w->path, &reader), 1);
		assert_int_equal(ip_kernel_reader_use_jobs(reader, 1 + i % 5), 0);
		for (unsigned k = 0; k < i; k++)
			assert_int_equal(ip_kernel_reader_next(reader, &record), 1);
		ip_kernel_reader_close(reader);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_order),
		TEST(test_damage),
		TEST(test_failure),
		TEST(test_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
