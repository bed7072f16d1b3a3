/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stays of a timeline, which takes most calls from the words of a stream, against the events of
 * the same trace one by one. The program calls at random, leaves stacks and comes back to them,
 * jumps out of calls, and has points.
 */
#include "analysis/export/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define EVENTS 20000u
#define STACKS 3u
#define DEPTH  60u
#define BEGIN  2000u

static const char session[] =
	"iprobe-session\t1\ntsc_start\t1000\ntsc_hz\t1000000000\ntsc_end\t999999999\n"
	"module\t0\tm\tff\t0\t1\tinstrument\nfunction\t1\t0\ta\t\t0\t-\t64\n"
	"function\t2\t0\tb\t\t0\t-\t64\nfunction\t3\t0\tc\t\t0\t-\t64\nend\tdone\n";

static uint64_t random_state = 1;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % below;
}

struct writing {
	uint64_t words[EVENTS * IP_EXT_WORDS];
	size_t n;
	uint64_t ts, sp;
};

static void put_event(struct writing *w, unsigned kind, uint32_t number, uint64_t sp)
{
	const int64_t distance = (int64_t)(sp - w->sp);
	const int64_t half = IP_SP_WINDOW / 2;

	w->ts += draw(4);
	if (w->n && distance < half && distance >= -half) {
		w->words[w->n++] = kind | (w->ts & IP_TIME_MASK) << 3 | (uint64_t)number << 32 |
				   (sp >> IP_SP_SHIFT) << (64 - IP_SP_BITS);
	} else {
		w->words[w->n++] =
			IP_ID_EXTENDED | (uint64_t)(kind + IP_ID_EXT_BASE) << 3 | w->ts << 32;
		w->words[w->n++] =
			w->ts >> 32 | (uint64_t)number << 32 | (sp >> IP_SP_SHIFT & 2047) << 53;
		w->words[w->n++] = sp;
	}
	w->sp = sp;
}

/* Coroutines: each stack has frames of its own, and may go on wherever another one was left. */
static void make_events(struct writing *w)
{
	static struct {
		uint32_t numbers[DEPTH];
		size_t depth;
	} stacks[STACKS], *s = stacks;

	for (unsigned i = 0; i < EVENTS; i++) {
		uint64_t base, sp;

		if (!draw(40))
			s = &stacks[draw(STACKS)];
		base = 0x7fff00000000 - (uint64_t)(s - stacks) * (16u << 20);
		if (s->depth && !draw(100))
			s->depth -= draw(s->depth); /* longjmp */
		sp = base - 64 * s->depth;
		if (!draw(30)) {
			put_event(w, IP_PROBE_POINT, 1 + draw(3), sp);
		} else if (s->depth && (s->depth == DEPTH || draw(2))) {
			bool tail = !draw(6);

			put_event(w, tail ? IP_PROBE_TAIL_EXIT : IP_PROBE_EXIT,
				  s->numbers[--s->depth], sp + (tail ? 8 : 0));
		} else {
			s->numbers[s->depth++] = 1 + draw(3);
			put_event(w, IP_PROBE_ENTRY, s->numbers[s->depth - 1], sp - 64);
		}
	}
}

static void write_file(const char *dir, const char *name, const void *head, size_t head_size,
		       const void *data, size_t size)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(head, 1, head_size, file), head_size);
	if (size)
		assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void make_trace(char *dir)
{
	static struct writing w;
	struct ip_packet_header h = {
		.magic = IP_CTF_MAGIC, .timestamp_begin = BEGIN, .pid = 7, .tid = 7};
	char path[96];

	w.ts = BEGIN;
	make_events(&w);
	h.timestamp_end = w.ts;
	h.content_size = h.packet_size = 8 * (sizeof(h) + 8 * w.n);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file(dir, "iprobe/session", session, strlen(session), NULL, 0);
	write_file(dir, "stream-0", &h, sizeof(h), w.words, 8 * w.n);
}

struct stay {
	uint64_t start, end;
	uint32_t function, depth;
};

static struct {
	struct stay items[2 * EVENTS];
	size_t n;
	uint64_t since[IP_TIMELINE_DEPTHS];
	unsigned resumed;
} seen;

static void put_stay(uint32_t function, size_t depth, uint64_t end)
{
	seen.items[seen.n++] = (struct stay){seen.since[depth], end, function, depth};
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	seen.since[depth] = frame->start;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	seen.since[depth] = ts;
	seen.resumed++;
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	put_stay(frame->function, depth, ts);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	if (how != IP_END_UNWOUND)
		put_stay(frame->function, depth, end);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	seen.since[depth] = ts;
	put_stay(function, depth, ts);
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
}

static int by_all(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct stay));
}

static void test_stays(void **state)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .resumed = on_resumed,
						 .closed = on_closed,
						 .point = on_point};
	const struct ip_trace_visitor visitor = {.ops = &ops, .run = on_run};
	char dir[] = "/tmp/iprobe-timeline-XXXXXX", path[96];
	static struct stay stays[2 * EVENTS];
	struct ip_trace_reader *trace;
	struct ip_timeline *t;
	uint64_t events;

	make_trace(dir);
	assert_int_equal(ip_trace_reader_open(dir, &trace), 0);
	trace->begin = BEGIN;
	assert_int_equal(ip_trace_reader_visit(trace, &visitor, &events), 0);
	assert_int_equal(events, EVENTS);
	/* what this is about came about, and often */
	assert_true(seen.resumed > 100 && seen.n > EVENTS / 3);
	assert_int_equal(ip_timeline_collect(trace, NULL, 0, 2 * EVENTS, 64, &t), 0);
	assert_int_equal(t->events, EVENTS);
	assert_int_equal(t->nstays, seen.n);
	for (size_t i = 0; i < t->nstays; i++) {
		const struct ip_timeline_call *c = &t->stays[i];

		stays[i] = (struct stay){c->start + BEGIN, c->end + BEGIN, c->function,
					 t->rows[c->row].depth};
	}
	qsort(stays, t->nstays, sizeof(*stays), by_all);
	qsort(seen.items, seen.n, sizeof(*stays), by_all);
	for (size_t i = 0; i < seen.n; i++)
		assert_memory_equal(&stays[i], &seen.items[i], sizeof(*stays));
	ip_timeline_destroy(t);
	ip_trace_reader_close(trace);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, i ? "iprobe/session" : "stream-0");
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	rmdir(path);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_stays)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
