/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reading that is shown while it goes on: each copy has what its threads have read up to the end
 * of a packet, no more and no less, and changes nothing of the result. A reading that ends early
 * has such a result, too.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis/callstack/trace_parts.h"
#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define STREAMS	     4u
#define PACKETS	     16u
#define CALLS	     5u /* that end, in each packet; one more begins and does not end */
#define EVENTS	     (2 * CALLS + 1)
#define STREAM_BYTES (PACKETS * EVENTS * IP_EXT_WORDS * 8)
#define PART_BYTES   (2u << 20)

static const char session[] = "iprobe-session\t1\ntsc_start\t1000\ntsc_hz\t1000000000\n"
			      "tsc_end\t999999999\nmodule\t0\tm\tff\t0\t1\tinstrument\n"
			      "function\t1\t0\ta\t\t0\t-\t64\nend\tdone\n";

static char dir[64];

static void write_file(const char *name, const void *data, size_t size)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void put_event(uint64_t *w, unsigned kind, uint64_t ts, uint64_t sp)
{
	w[0] = IP_ID_EXTENDED | (uint64_t)(kind + IP_ID_EXT_BASE) << 3 | ts << 32;
	w[1] = ts >> 32 | 1ull << 32 | ((sp >> IP_SP_SHIFT) & 2047) << 53;
	w[2] = sp;
}

/* Each packet enters one frame deeper, and makes calls from there. */
static void write_stream(unsigned number)
{
	struct {
		struct ip_packet_header h;
		uint64_t words[EVENTS][IP_EXT_WORDS];
	} packets[PACKETS];
	char name[16];
	uint64_t ts = 2000, sp = 0x7fff00000000;

	for (unsigned p = 0; p < PACKETS; p++) {
		memset(&packets[p], 0, sizeof(packets[p]));
		packets[p].h = (struct ip_packet_header){.magic = IP_CTF_MAGIC,
							 .timestamp_begin = ts,
							 .timestamp_end = ts + EVENTS,
							 .content_size = 8 * sizeof(packets[p]),
							 .packet_size = 8 * sizeof(packets[p]),
							 .packet_seq_num = p,
							 .pid = 7,
							 .tid = 7 + number};
		sp -= 64;
		put_event(packets[p].words[0], IP_PROBE_ENTRY, ts++, sp);
		for (unsigned i = 0; i < CALLS; i++) {
			put_event(packets[p].words[1 + 2 * i], IP_PROBE_ENTRY, ts++, sp - 64);
			put_event(packets[p].words[2 + 2 * i], IP_PROBE_EXIT, ts++, sp - 64);
		}
	}
	snprintf(name, sizeof(name), "stream-%u", number);
	write_file(name, packets, sizeof(packets));
}

static struct ip_trace_reader *make_trace(void)
{
	struct ip_trace_reader *trace;
	char path[96];

	strcpy(dir, "/tmp/iprobe-trace-progress-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file("iprobe/session", session, strlen(session));
	for (unsigned i = 0; i < STREAMS; i++)
		write_stream(i);
	assert_int_equal(ip_trace_reader_open(dir, &trace), 0);
	assert_int_equal(trace->nruns, STREAMS);
	return trace;
}

static void remove_trace(struct ip_trace_reader *trace)
{
	char path[96];

	ip_trace_reader_close(trace);
	for (unsigned i = 0; i < STREAMS; i++) {
		snprintf(path, sizeof(path), "%s/stream-%u", dir, i);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/iprobe/session", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	rmdir(path);
	assert_int_equal(rmdir(dir), 0);
}

struct sums {
	uint64_t exits, open, events;
	unsigned ends, completes;
	bool is_copy;
};

static atomic_int alive;

static void *create_part(void *context)
{
	alive++;
	return calloc(1, sizeof(struct sums));
}

static void *copy_part(void *part)
{
	struct sums *copy = malloc(sizeof(*copy));

	alive++;
	*copy = *(struct sums *)part;
	copy->is_copy = true;
	return copy;
}

static void *no_copy(void *part)
{
	return NULL;
}

static int end_part(void *part)
{
	((struct sums *)part)->ends++;
	return 0;
}

static int merge_part(void *first, void *part)
{
	struct sums *to = first, *s = part;

	to->exits += s->exits;
	to->open += s->open;
	return 0;
}

static void destroy_part(void *part)
{
	alive--;
	free(part);
}

static void complete(void *part, uint64_t events)
{
	struct sums *s = part;

	s->completes++;
	s->events = events;
}

/* Packets last for a while, so that copies are of different ones. */
static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	nanosleep(&nap, NULL);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct sums *s = context;

	s->exits += how == IP_END_EXIT;
	s->open += how == IP_END_UNFINISHED;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
}

/* What the caller has seen. */
static struct {
	unsigned looks, shows, results;
	uint64_t last_open, last_bytes;
	unsigned stop_after;   /* shows; 0: never */
	uint64_t stream_bytes; /* what the trace tells of each stream */
} seen;

static enum ip_progress_request look(void *context, const struct ip_trace_progress *p)
{
	seen.looks++;
	assert_true(p->read_bytes >= seen.last_bytes && p->read_bytes <= p->all_bytes);
	assert_int_equal(p->all_bytes, STREAMS * seen.stream_bytes);
	seen.last_bytes = p->read_bytes;
	return seen.stop_after && seen.shows == seen.stop_after ? IP_PROGRESS_STOP
								: IP_PROGRESS_SHOW;
}

static void show(void *context, const struct ip_trace_progress *p, void *result)
{
	const struct sums *s = result;

	seen.shows++;
	if (!s)
		return;
	seen.results++;
	assert_true(s->is_copy && s->completes == 1);
	/* whole packets, and each of their open calls ends once */
	assert_int_equal(s->exits, CALLS * s->open);
	assert_int_equal(s->events, EVENTS * s->open);
	assert_true(s->open >= seen.last_open);
	seen.last_open = s->open;
}

static struct ip_trace_parts make_parts(void)
{
	static const struct ip_frames_ops ops = {.opened = on_opened, .closed = on_closed};

	return (struct ip_trace_parts){.create = create_part,
				       .end = end_part,
				       .merge = merge_part,
				       .destroy = destroy_part,
				       .copy = copy_part,
				       .complete = complete,
				       .visitor = {.ops = &ops, .run = on_run}};
}

static struct sums read_with(unsigned jobs, const struct ip_trace_parts *parts, unsigned stop_after,
			     struct ip_trace_progress *ret)
{
	struct ip_trace_reader *trace = make_trace();
	struct sums sums;
	uint64_t events;
	void *part;

	memset(&seen, 0, sizeof(seen));
	seen.stop_after = stop_after;
	seen.stream_bytes = jobs > 1 ? PART_BYTES : STREAM_BYTES;
	*ret = (struct ip_trace_progress){.look = look, .show = show};
	trace->jobs = jobs;
	trace->progress = ret;
	/* as if each were worth a thread */
	for (unsigned i = 0; i < STREAMS && jobs > 1; i++)
		trace->runs[i].bytes = PART_BYTES;
	assert_int_equal(ip_trace_reader_visit_parts(trace, parts, &part, &events), 0);
	sums = *(struct sums *)part;
	assert_false(sums.is_copy);
	assert_int_equal(sums.completes, 1);
	assert_int_equal(sums.events, events);
	destroy_part(part);
	assert_int_equal(alive, 0);
	remove_trace(trace);
	return sums;
}

static void test_copies(void **state)
{
	const struct ip_trace_parts parts = make_parts();
	struct ip_trace_progress progress;

	for (unsigned jobs = 1; jobs <= 3; jobs += 2) {
		struct sums sums = read_with(jobs, &parts, 0, &progress);

		assert_int_equal(sums.open, STREAMS * PACKETS);
		assert_int_equal(sums.exits, STREAMS * PACKETS * CALLS);
		assert_false(progress.stopped);
		assert_int_equal(progress.read_bytes, STREAMS * STREAM_BYTES);
		assert_true(seen.results > 1 && seen.last_open > 0);
	}
}

static void test_early_end(void **state)
{
	const struct ip_trace_parts parts = make_parts();
	struct ip_trace_progress progress;

	for (unsigned jobs = 1; jobs <= 3; jobs += 2) {
		struct sums sums = read_with(jobs, &parts, 2, &progress);

		assert_true(progress.stopped);
		assert_true(sums.open >= seen.last_open && sums.open < STREAMS * PACKETS);
		assert_int_equal(sums.exits, CALLS * sums.open);
		assert_int_equal(sums.events, EVENTS * sums.open);
		assert_int_equal(progress.read_bytes, sums.events * IP_EXT_WORDS * 8);
	}
}

static void test_no_copies(void **state)
{
	struct ip_trace_parts parts = make_parts();
	struct ip_trace_progress progress;

	for (unsigned i = 0; i < 2; i++) {
		parts.copy = i ? NULL : no_copy;
		assert_int_equal(read_with(3, &parts, 0, &progress).open, STREAMS * PACKETS);
		assert_true(seen.shows > 1 && !seen.results);
	}
}

/* The caller's own thread reads. */
static void test_without_parts(void **state)
{
	const struct ip_trace_parts parts = make_parts();
	struct ip_trace_progress progress = {.look = look, .show = show};
	struct ip_trace_reader *trace = make_trace();
	struct sums sums = {0};
	struct ip_trace_visitor visitor = parts.visitor;
	uint64_t events;

	visitor.context = &sums;
	trace->progress = &progress;
	for (unsigned stop = 0; stop < 2; stop++) {
		memset(&seen, 0, sizeof(seen));
		memset(&sums, 0, sizeof(sums));
		seen.stop_after = stop;
		seen.stream_bytes = STREAM_BYTES;
		assert_int_equal(ip_trace_reader_visit(trace, &visitor, &events), 0);
		assert_true(seen.shows >= 1 && !seen.results);
		assert_int_equal(progress.stopped, stop);
		assert_int_equal(events, EVENTS * sums.open);
		assert_int_equal(sums.exits, CALLS * sums.open);
		assert_true(stop ? sums.open < STREAMS * PACKETS : sums.open == STREAMS * PACKETS);
	}
	remove_trace(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies), cmocka_unit_test(test_early_end),
		cmocka_unit_test(test_no_copies), cmocka_unit_test(test_without_parts)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
