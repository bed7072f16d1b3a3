/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures per function of a trace of many short threads: those of the common path are those of the
 * machine, and what they cost does not grow with functions that no thread calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis/profile/stats.h"
#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define BASE	0x7ffd00100000ull
#define RUNS	20000u
#define CALLED	40u /* functions that are called at all */
#define CALLS	6u  /* of a thread, in its outermost one */
#define NUMBERS 100000u

static char dir[64];
static unsigned seed;

static unsigned rnd(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static uint64_t compact(uint32_t kind, uint64_t now, uint32_t number, uint64_t sp)
{
	return kind | (now & IP_TIME_MASK) << 3 | (uint64_t)number << 32 |
	       (sp >> IP_SP_SHIFT) << (64 - IP_SP_BITS);
}

static FILE *create(const char *name)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	return file;
}

/* The first call of a thread goes on while others begin and end in it; some of them call
 * themselves, and some threads end while it is open. */
static void write_thread(FILE *file, uint32_t tid, uint64_t sequence, uint64_t *now)
{
	uint64_t words[3 + 4 * CALLS + 1], begin = *now;
	uint32_t outer = 1 + rnd(CALLED);
	size_t n = 0;

	words[n++] = 7 | (IP_PROBE_ENTRY + 16) << 3 | *now << 32;
	words[n++] = *now >> 32 | (outer | ((BASE >> 3) & 2047) << 21) << 32;
	words[n++] = BASE;
	for (unsigned i = 0; i < CALLS; i++) {
		uint32_t number = 1 + rnd(CALLED);
		unsigned deep = 1 + !rnd(3);

		for (unsigned k = 1; k <= deep; k++)
			words[n++] =
				compact(IP_PROBE_ENTRY, *now += rnd(90), number, BASE - 64ull * k);
		for (unsigned k = deep; k; k--)
			words[n++] =
				compact(IP_PROBE_EXIT, *now += rnd(90), number, BASE - 64ull * k);
	}
	if (rnd(8))
		words[n++] = compact(IP_PROBE_EXIT, *now += rnd(90), outer, BASE);

	struct ip_packet_header h = {.magic = IP_CTF_MAGIC,
				     .timestamp_begin = begin,
				     .timestamp_end = *now,
				     .content_size = 8 * (sizeof(h) + 8 * n),
				     .packet_size = 8 * (sizeof(h) + 8 * n),
				     .packet_seq_num = sequence,
				     .pid = 7,
				     .tid = tid};

	assert_int_equal(fwrite(&h, sizeof(h), 1, file), 1);
	assert_int_equal(fwrite(words, 8, n, file), n);
}

static struct ip_trace_reader *make_trace(unsigned numbers)
{
	struct ip_trace_reader *trace;
	uint64_t now = 2000;
	char path[96];
	FILE *file;

	strcpy(dir, "/tmp/iprobe-stats-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	file = create("iprobe/session");
	fputs("iprobe-session\t1\ntsc_start\t1000\ntsc_hz\t1000000000\ntsc_end\t999999999\n"
	      "module\t0\tm\tff\t0\t1\tinstrument\n",
	      file);
	for (unsigned i = 1; i <= numbers; i++)
		fprintf(file, "function\t%u\t0\tf%u\t\t0\t-\t64\n", i, i);
	fputs("end\tdone\n", file);
	assert_int_equal(fclose(file), 0);
	file = create("stream-0");
	seed = 42;
	for (unsigned i = 0; i < RUNS; i++)
		write_thread(file, 100 + i, i, &now);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(ip_trace_reader_open(dir, &trace), 0);
	assert_int_equal(trace->nruns, RUNS);
	assert_int_equal(trace->session->nfunctions, 1 + numbers);
	return trace;
}

static void remove_trace(struct ip_trace_reader *trace)
{
	static const char *const names[] = {"stream-0", "iprobe/session"};
	char path[96];

	ip_trace_reader_close(trace);
	for (unsigned i = 0; i < N_ELEMENTS(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		assert_int_equal(unlink(path), 0);
	}
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	rmdir(path);
	assert_int_equal(rmdir(dir), 0);
}

static void test_same(void **state)
{
	static const struct ip_stats_options common = {.scale = 1},
					     machine = {.scale = 1, .batches = true};
	struct ip_trace_reader *trace = make_trace(CALLED + 5);
	struct ip_stats *a, *b;
	uint64_t calls = 0, threads = 0;

	assert_int_equal(ip_stats_collect(trace, &common, &a), 0);
	assert_int_equal(ip_stats_collect(trace, &machine, &b), 0);
	assert_int_equal(a->nitems, b->nitems);
	assert_int_equal(a->events, b->events);
	assert_int_equal(a->unfinished, b->unfinished);
	assert_true(a->unfinished);
	for (size_t i = 0; i < a->nitems; i++) {
		const struct ip_call_stats *f = &a->items[i], *g = &b->items[i];

		assert_int_equal(f->calls, g->calls);
		assert_int_equal(f->total, g->total);
		assert_int_equal(f->self, g->self);
		assert_int_equal(f->min, g->min);
		assert_int_equal(f->max, g->max);
		assert_int_equal(f->threads, g->threads);
		assert_int_equal(f->unfinished, g->unfinished);
		assert_true(f->sum == g->sum && f->squares == g->squares);
		assert_int_equal(f->histogram.count, g->histogram.count);
		for (unsigned k = 1; k < 100; k++)
			assert_int_equal(
				ip_histogram_percentile(&f->histogram, k / 100.0, 0, UINT64_MAX),
				ip_histogram_percentile(&g->histogram, k / 100.0, 0, UINT64_MAX));
		calls += f->calls;
		threads += f->threads;
	}
	assert_true(calls > RUNS * CALLS && threads > RUNS && threads < calls);
	ip_stats_destroy(a);
	ip_stats_destroy(b);
	remove_trace(trace);
}

static double cost_s(struct ip_trace_reader *trace)
{
	static const struct ip_stats_options options = {.scale = 1};
	struct timespec from, to;
	struct ip_stats *stats;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	assert_int_equal(ip_stats_collect(trace, &options, &stats), 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	ip_stats_destroy(stats);
	return to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) / 1e9;
}

/* To walk through all functions for each thread takes seconds: 128 GB are read. */
static void test_many_functions(void **state)
{
	struct ip_trace_reader *trace = make_trace(NUMBERS);
	double most = cost_s(trace);

	for (unsigned i = 0; i < 4 && most > 0.3; i++) {
		double again = cost_s(trace);

		most = again < most ? again : most;
	}
	print_message("%u threads, %u functions: %.3f s\n", RUNS, NUMBERS, most);
	assert_true(most < 0.7);
	remove_trace(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_same),
					   cmocka_unit_test(test_many_functions)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
