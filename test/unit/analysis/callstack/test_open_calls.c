/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is told which call is the innermost one: each piece of a thread's time has the number that
 * the caller gave to the call which was open in it, also after a jump over frames; threads that are
 * not wanted are skipped; an error ends the reading.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/callstack/open_calls.h"
#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define BASE	0x7ffd00100000ull
#define SKIPPED 9u
#define NONE	0u

static const char session_text[] = "iprobe-session\t1\ntsc_start\t1000\ntsc_hz\t1000000000\n"
				   "tsc_end\t999999999\nmodule\t0\tm\tff\t0\t1\tinstrument\n"
				   "function\t1\t0\ta\t\t0\t-\t64\nfunction\t2\t0\tb\t\t0\t-\t64\n"
				   "function\t3\t0\tc\t\t0\t-\t64\nend\tdone\n";

struct step {
	unsigned kind; /* IP_PROBE_... */
	uint32_t number;
	unsigned depth;
	uint64_t time;
};

/* c is left by a jump: the exit of a at 2050 shows it; then b alone. */
static const struct step steps[] = {
	{IP_PROBE_ENTRY, 1, 1, 2000}, {IP_PROBE_ENTRY, 2, 2, 2010}, {IP_PROBE_EXIT, 2, 2, 2020},
	{IP_PROBE_ENTRY, 2, 2, 2030}, {IP_PROBE_ENTRY, 3, 3, 2040}, {IP_PROBE_EXIT, 1, 1, 2050},
	{IP_PROBE_ENTRY, 2, 1, 2060}, {IP_PROBE_EXIT, 2, 1, 2070},
};

struct piece {
	uint32_t innermost; /* NONE, or what opened() gave */
	uint64_t until;
};

/* Each call has its own number: the function's, and how many calls were before it, in tens. */
static const struct piece wanted[] = {{NONE, 2000}, {1, 2010},	{12, 2020},   {1, 2030},
				      {22, 2040},   {33, 2050}, {NONE, 2060}, {42, 2070}};

struct log {
	struct piece pieces[64];
	size_t n, runs;
	uint32_t calls;
	uint32_t fails; /* at this call; 0: at none */
	int64_t above[8];
	uint32_t ended;
};

static bool on_run(void *context, const struct ip_thread_packets *run)
{
	struct log *log = context;

	log->runs++;
	return run->tid != SKIPPED;
}

/* Several frames may end at once: nothing passes between them. */
static void pass(void *context, const uint32_t *innermost, uint64_t ts)
{
	struct log *log = context;

	if (log->n && log->pieces[log->n - 1].until == ts)
		return;
	assert_true(log->n < 64);
	log->pieces[log->n++] = (struct piece){innermost ? *innermost : NONE, ts};
}

static int on_opened(void *context, const struct ip_frame *frame, const uint32_t *above,
		     uint32_t *ret)
{
	struct log *log = context;

	assert_true(log->calls < 8);
	log->above[log->calls] = above ? (int64_t)*above : -1;
	*ret = 10 * log->calls++ + frame->function;
	return log->calls == log->fails ? -1 : 0;
}

static void on_closed(void *context, const struct ip_frame *frame, uint64_t end,
		      enum ip_frame_end how)
{
	struct log *log = context;

	log->ended += end > frame->start && how != IP_END_UNFINISHED;
}

static const struct ip_open_calls_ops ops = {on_run, pass, on_opened, on_closed};

static void write_file(const char *path, const void *data, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void write_stream(const char *path, uint32_t tid)
{
	const size_t n = sizeof(steps) / sizeof(*steps);
	uint8_t data[sizeof(struct ip_packet_header) + 24 * (sizeof(steps) / sizeof(*steps))];
	struct ip_packet_header h = {.magic = IP_CTF_MAGIC,
				     .timestamp_begin = steps[0].time,
				     .timestamp_end = steps[n - 1].time,
				     .content_size = 8 * sizeof(data),
				     .packet_size = 8 * sizeof(data),
				     .pid = 7,
				     .tid = tid};

	memcpy(data, &h, sizeof(h));
	for (size_t i = 0; i < n; i++) {
		const uint64_t sp = BASE - 64 * steps[i].depth;
		const uint64_t payload = steps[i].number | (sp >> 3 & 2047) << 21;
		const uint64_t words[3] = {7 | (steps[i].kind + 16) << 3 | steps[i].time << 32,
					   steps[i].time >> 32 | payload << 32, sp};

		memcpy(data + sizeof(h) + sizeof(words) * i, words, sizeof(words));
	}
	write_file(path, data, sizeof(data));
}

static const char *const parts[] = {"/stream-0", "/stream-1", "/iprobe/session"};
static char dir[64];

static int setup(void **state)
{
	char path[96];

	(void)state;
	strcpy(dir, "/tmp/iprobe-open-calls-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s%s", dir, parts[0]);
	write_stream(path, 7);
	snprintf(path, sizeof(path), "%s%s", dir, parts[1]);
	write_stream(path, SKIPPED);
	snprintf(path, sizeof(path), "%s%s", dir, parts[2]);
	write_file(path, session_text, strlen(session_text));
	return 0;
}

static int teardown(void **state)
{
	char path[96];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s%s", dir, parts[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	rmdir(path);
	return rmdir(dir);
}

static void test_each_piece_of_time(void **state)
{
	static const int64_t above[] = {-1, 1, 1, 22, -1};
	struct ip_trace_reader *trace;
	struct log log = {0};
	uint64_t events;

	(void)state;
	assert_int_equal(ip_trace_reader_open(dir, &trace), 0);
	assert_int_equal(ip_open_calls_read(trace, &ops, &log, 99, &events), 0);
	ip_trace_reader_close(trace);
	assert_int_equal(events, 2 * sizeof(steps) / sizeof(*steps));
	assert_int_equal(log.runs, 2);
	assert_int_equal(log.calls, 5);
	assert_int_equal(log.ended, 5);
	assert_memory_equal(log.above, above, sizeof(above));
	assert_int_equal(log.n, sizeof(wanted) / sizeof(*wanted));
	for (size_t i = 0; i < log.n; i++) {
		assert_int_equal(log.pieces[i].innermost, wanted[i].innermost);
		assert_int_equal(log.pieces[i].until, wanted[i].until);
	}
}

static void test_an_error_ends_it(void **state)
{
	struct ip_trace_reader *trace;
	struct log log = {.fails = 3};
	uint64_t events;

	(void)state;
	assert_int_equal(ip_trace_reader_open(dir, &trace), 0);
	assert_int_equal(ip_open_calls_read(trace, &ops, &log, 99, &events), -1);
	ip_trace_reader_close(trace);
	assert_int_equal(log.calls, 3);
	assert_int_equal(log.pieces[log.n - 1].until, 2030);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_piece_of_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_error_ends_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
