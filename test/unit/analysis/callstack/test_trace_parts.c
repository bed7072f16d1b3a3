/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many threads read the parts of a trace: as many as there is memory for their receivers, not
 * one where there is too little for all.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis/callstack/trace_parts.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define STREAMS 24u
#define WAIT_S	30
#define MIB	((size_t)1 << 20)

static const char session_format[] = "iprobe-session\t1\ntsc_start\t1000\ntsc_hz\t1000000000\n"
				     "tsc_end\t999999999\nmodule\t0\tm\tff\t0\t1\tinstrument\n"
				     "function\t%u\t0\ta\t\t0\t-\t64\nend\tdone\n";

static char dir[64];

static void path_of(char *ret, size_t size, unsigned stream)
{
	snprintf(ret, size, "%s/stream-%u", dir, stream);
}

static void write_file(const char *path, const void *data, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

/* Each stream has one packet, of a thread of its own, without events. */
static struct ip_trace_reader *make_trace(uint32_t number)
{
	struct ip_trace_reader *trace;
	char path[96], text[sizeof(session_format) + 16];

	strcpy(dir, "/tmp/iprobe-trace-parts-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	strcat(path, "/session");
	snprintf(text, sizeof(text), session_format, number);
	write_file(path, text, strlen(text));
	for (unsigned i = 0; i < STREAMS; i++) {
		struct ip_packet_header h = {.magic = IP_CTF_MAGIC,
					     .timestamp_begin = 2000,
					     .timestamp_end = 3000,
					     .content_size = 8 * sizeof(h),
					     .packet_size = 8 * sizeof(h),
					     .pid = 7,
					     .tid = 7 + i};

		path_of(path, sizeof(path), i);
		write_file(path, &h, sizeof(h));
	}
	assert_int_equal(ip_trace_reader_open(dir, &trace), 0);
	assert_int_equal(trace->nruns, STREAMS);
	/* as if each were worth a thread */
	for (unsigned i = 0; i < STREAMS; i++)
		trace->runs[i].bytes = 64 * MIB;
	return trace;
}

static void remove_trace(struct ip_trace_reader *trace)
{
	char path[96];

	ip_trace_reader_close(trace);
	for (unsigned i = 0; i < STREAMS; i++) {
		path_of(path, sizeof(path), i);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/iprobe/session", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	rmdir(path);
	assert_int_equal(rmdir(dir), 0);
}

/* Each thread waits with its first receiver until as many have come as shall read. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t threads[STREAMS];
	unsigned n, wanted, alive, most_alive;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *create_part(void *context)
{
	struct timespec until;
	bool known = false;
	int waited = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&seen.lock);
	for (unsigned i = 0; i < seen.n; i++)
		known = known || pthread_equal(seen.threads[i], pthread_self());
	if (!known && seen.n < STREAMS)
		seen.threads[seen.n++] = pthread_self();
	seen.alive++;
	if (seen.alive > seen.most_alive)
		seen.most_alive = seen.alive;
	pthread_cond_broadcast(&seen.changed);
	while (seen.n < seen.wanted && !waited)
		waited = pthread_cond_timedwait(&seen.changed, &seen.lock, &until);
	pthread_mutex_unlock(&seen.lock);
	return malloc(1);
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
}

static int end_part(void *part)
{
	return 0;
}

static int merge_part(void *first, void *part)
{
	return 0;
}

static void destroy_part(void *part)
{
	pthread_mutex_lock(&seen.lock);
	seen.alive--;
	pthread_mutex_unlock(&seen.lock);
	free(part);
}

/* Reads with at most 6 threads. */
static void expect_threads(struct ip_trace_reader *trace, size_t size, unsigned wanted)
{
	static const struct ip_frames_ops ops = {0};
	const struct ip_trace_parts parts = {.create = create_part,
					     .end = end_part,
					     .merge = merge_part,
					     .destroy = destroy_part,
					     .visitor = {.ops = &ops, .run = on_run},
					     .size = size};
	uint64_t events;
	void *part;

	trace->jobs = 6;
	seen.n = seen.alive = seen.most_alive = 0;
	seen.wanted = wanted;
	assert_int_equal(ip_trace_reader_visit_parts(trace, &parts, &part, &events), 0);
	assert_int_equal(seen.n, wanted);
	assert_true(!size || seen.most_alive * size <= 256 * MIB || seen.most_alive == 1);
	destroy_part(part);
	assert_int_equal(seen.alive, 0);
}

static void test_memory_bounds_threads(void **state)
{
	struct ip_trace_reader *trace = make_trace(1);

	expect_threads(trace, 0, 6);
	expect_threads(trace, 40 * MIB, 6);
	expect_threads(trace, 60 * MIB, 4);
	expect_threads(trace, 100 * MIB, 2);
	expect_threads(trace, 200 * MIB, 1);
	expect_threads(trace, 2000 * MIB, 1);
	remove_trace(trace);
}

/* A machine has 8 bytes for each number. */
static void test_machines_count(void **state)
{
	struct ip_trace_reader *trace = make_trace(IP_NUMBER_MAX);

	expect_threads(trace, 0, 6);
	expect_threads(trace, 40 * MIB, 4);
	expect_threads(trace, 120 * MIB, 1);
	remove_trace(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_bounds_threads),
					   cmocka_unit_test(test_machines_count)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
