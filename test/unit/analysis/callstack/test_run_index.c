/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices of a run are what a reading of the whole run sees in them: the same events with the same
 * tags, depths and times, and the same frames that are open before. The run is of a random program
 * that calls, returns, leaves frames by jumps and loses events; a run of another thread lies before
 * it in the stream. The stream is one file, or has many pieces (--rotate).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/callstack/run_index.h"
#include "common/elf/probe_list.h"
#include "common/error.h"
#include "test/unit/test.h"

#define BASE	  0x7ffd00100000ull
#define PACKETS	  200u
#define EVENTS	  40u /* of a packet */
#define FUNCTIONS 5u
#define DEPTH_MAX 12u

static const char session_text[] = "iprobe-session\t1\ntsc_start\t1000\ntsc_hz\t1000000000\n"
				   "tsc_end\t999999999\nends\tpackets\n"
				   "module\t0\tm\tff\t0\t1\tinstrument\n"
				   "function\t1\t0\ta\t\t0\t-\t64\nfunction\t2\t0\tb\t\t0\t-\t64\n"
				   "function\t3\t0\tc\t\t0\t-\t64\nfunction\t4\t0\td\t\t0\t-\t64\n"
				   "function\t5\t0\te\t\t0\t-\t64\nend\tdone\n";

/* The program whose events are written. */
static struct {
	uint32_t functions[DEPTH_MAX], depth;
	uint64_t now;
	unsigned seed;
} program;

static unsigned rnd(unsigned n)
{
	program.seed = program.seed * 1103515245 + 12345;
	return (program.seed >> 16) % n;
}

static size_t put(uint64_t *words, uint32_t kind, uint32_t number, uint64_t sp)
{
	uint64_t payload = number | (sp >> 3 & 2047) << 21;

	words[0] = 7 | (kind + 16) << 3 | program.now << 32;
	words[1] = program.now >> 32 | payload << 32;
	words[2] = sp;
	return 3;
}

static size_t step(uint64_t *words)
{
	program.now += rnd(30);
	if (program.depth && (program.depth == DEPTH_MAX || rnd(100) < 45)) {
		uint32_t at;

		/* some frames are left by a jump: the exit that follows shows it */
		if (program.depth > 3 && rnd(100) < 10)
			program.depth -= 2;
		at = --program.depth;
		return put(words, IP_PROBE_EXIT, program.functions[at], BASE - 64 * (at + 1));
	}
	program.functions[program.depth] = 1 + rnd(FUNCTIONS);
	program.depth++;
	return put(words, IP_PROBE_ENTRY, program.functions[program.depth - 1],
		   BASE - 64 * program.depth);
}

static void write_packet(FILE *file, uint32_t tid, uint64_t sequence, uint64_t discarded)
{
	uint64_t words[3 * EVENTS];
	uint64_t begin = program.now;
	size_t n = 0;
	struct ip_packet_header h = {.magic = IP_CTF_MAGIC,
				     .timestamp_begin = begin,
				     .packet_seq_num = sequence,
				     .events_discarded = discarded,
				     .pid = 7,
				     .tid = tid};

	for (unsigned i = 0; i < EVENTS; i++)
		n += step(words + n);
	h.timestamp_end = program.now;
	h.content_size = h.packet_size = 8 * (sizeof(h) + 8 * n);
	assert_int_equal(fwrite(&h, sizeof(h), 1, file), 1);
	assert_int_equal(fwrite(words, 8, n, file), n);
}

#define OF_A_PIECE 20u /* packets */

static char dir[64];
static bool in_pieces;

static FILE *open_stream(unsigned piece)
{
	char path[96];
	FILE *file;

	if (in_pieces)
		snprintf(path, sizeof(path), "%s/stream-0-%u", dir, piece);
	else
		snprintf(path, sizeof(path), "%s/stream-0", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	return file;
}

static void write_trace(void)
{
	uint64_t discarded = 0;
	char path[96];
	FILE *file;

	strcpy(dir, "/tmp/iprobe-run-index-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/iprobe/session", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(session_text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	file = open_stream(0);
	program.now = 2000;
	program.seed = 42;
	for (unsigned i = 0; i < 3; i++)
		write_packet(file, 8, i, 0);
	program.depth = 0;
	for (unsigned i = 0; i < PACKETS; i++) {
		if (i % 37 == 36)
			discarded += 5;
		if (in_pieces && i && i % OF_A_PIECE == 0) {
			assert_int_equal(fclose(file), 0);
			file = open_stream(i / OF_A_PIECE);
		}
		write_packet(file, 9, i + 3, discarded);
	}
	assert_int_equal(fclose(file), 0);
}

static void remove_trace(void)
{
	static const char *const parts[] = {"/iprobe/session", "/iprobe", "/stream-0", ""};
	char path[96];

	for (unsigned i = 0; i < PACKETS / OF_A_PIECE; i++) {
		snprintf(path, sizeof(path), "%s/stream-0-%u", dir, i);
		remove(path);
	}
	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s%s", dir, parts[i]);
		remove(path);
	}
}

/* What a visitor was told. */
struct told {
	char what; /* + opened - closed ~ left * resumed ? orphan */
	uint32_t function, tag;
	uint64_t ts, start;
	size_t depth;
};

struct record {
	struct told *items;
	size_t n;
	uint64_t calls;
	bool stop;
	size_t stop_at; /* number of items; 0: never */
	struct ip_frame open[DEPTH_MAX + 4];
	size_t nopen;
};

static void tell(struct record *r, struct told told)
{
	r->items = reallocarray(r->items, r->n + 1, sizeof(told));
	assert_non_null(r->items);
	r->items[r->n++] = told;
	r->stop = r->stop_at && r->n >= r->stop_at;
}

static void on_opened(void *context, struct ip_frame *f, size_t depth)
{
	struct record *r = context;

	f->tag = r->calls++;
	tell(r, (struct told){'+', f->function, f->tag, f->start, f->start, depth});
}

static void on_left(void *context, const struct ip_frame *f, size_t depth, uint64_t ts)
{
	tell(context, (struct told){'~', f->function, f->tag, ts, f->start, depth});
}

static void on_resumed(void *context, const struct ip_frame *f, size_t depth, uint64_t ts)
{
	tell(context, (struct told){'*', f->function, f->tag, ts, f->start, depth});
}

static void on_closed(void *context, const struct ip_frame *f, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	if (how != IP_END_UNWOUND)
		tell(context, (struct told){'-', f->function, f->tag, end, f->start, depth});
}

static void on_orphan(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	tell(context, (struct told){'?', function, 0, ts, 0, depth});
}

static void on_open(void *context, const struct ip_frame *frames, size_t n, uint64_t now, bool end)
{
	struct record *r = context;

	assert_true(n <= DEPTH_MAX + 4);
	if (end)
		return;
	memcpy(r->open, frames, n * sizeof(*frames));
	r->nopen = n;
}

static const struct ip_frames_ops ops = {.opened = on_opened,
					 .left = on_left,
					 .resumed = on_resumed,
					 .closed = on_closed,
					 .orphan = on_orphan};

static struct ip_trace_reader *trace;

static struct ip_slice_visitor visitor_of(struct record *r)
{
	return (struct ip_slice_visitor){
		.ops = &ops, .context = r, .calls = &r->calls, .open = on_open, .stop = &r->stop};
}

static const struct ip_thread_packets *run_of_9(void)
{
	assert_int_equal(trace->nruns, 2);
	assert_int_equal(trace->runs[1].tid, 9);
	return &trace->runs[1];
}

static bool is_same(const struct told *a, const struct told *b)
{
	return a->what == b->what && a->function == b->function && a->tag == b->tag &&
	       a->ts == b->ts && a->start == b->start && a->depth == b->depth;
}

/* What the slice was told is a part of what the whole run was told, and all of [from, to]. */
static void check_slice(const struct ip_run_index *x, const struct record *all, uint64_t from,
			uint64_t to)
{
	struct record slice = {0};
	const struct ip_slice_visitor v = visitor_of(&slice);
	uint64_t begin = ip_run_index_before(x, from);
	size_t first = 0, n = 0;

	assert_int_equal(ip_run_index_visit(x, from, to, &v), 0);
	assert_true(ip_run_index_cost(x, from, to) <= x->events);
	assert_true(!begin || begin < from);
	if (!slice.n)
		return;
	while (first < all->n && !is_same(&all->items[first], &slice.items[0]))
		first++;
	for (; n < slice.n; n++) {
		assert_true(first + n < all->n);
		assert_true(is_same(&all->items[first + n], &slice.items[n]));
	}
	/* nothing of the slice is missing before and behind it */
	assert_true(first == 0 || all->items[first - 1].ts < from);
	assert_true(first + n == all->n || all->items[first + n].ts > to);
	for (size_t i = 0; i < slice.nopen; i++) {
		size_t k = 0;

		while (k < first &&
		       !(all->items[k].what == '+' && all->items[k].tag == slice.open[i].tag))
			k++;
		assert_true(k < first && all->items[k].start == slice.open[i].start &&
			    all->items[k].function == slice.open[i].function);
	}
	free(slice.items);
}

static void test_slices_are_parts_of_the_run(void **state)
{
	struct record all = {0};
	const struct ip_slice_visitor v = visitor_of(&all);
	const struct ip_thread_packets *run = run_of_9();
	struct ip_run_index *x;

	assert_int_equal(ip_run_index_make(trace, run, &v, 100, &x), 0);
	assert_true(x->n > 50 && x->events == PACKETS * EVENTS && all.n >= x->events);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t life = run->end - run->begin,
			 from = run->begin + rnd(30000) * life / 30000, to = from + rnd(2000);

		check_slice(x, &all, from, to);
	}
	check_slice(x, &all, 0, UINT64_MAX);
	check_slice(x, &all, run->begin, run->begin);
	check_slice(x, &all, run->end, run->end);
	ip_run_index_destroy(x);
	free(all.items);
}

static void test_a_slice_reads_few_events(void **state)
{
	struct record all = {0};
	const struct ip_slice_visitor v = visitor_of(&all);
	const struct ip_thread_packets *run = run_of_9();
	uint64_t middle = run->begin + (program.now - run->begin) / 2;
	struct ip_run_index *x;

	assert_int_equal(ip_run_index_make(trace, run, &v, 100, &x), 0);
	assert_true(ip_run_index_cost(x, middle, middle + 10) <= 2 * (100 + EVENTS));
	assert_int_equal(ip_run_index_cost(x, 0, UINT64_MAX), x->events);
	ip_run_index_destroy(x);
	free(all.items);
}

static void test_a_visitor_may_stop(void **state)
{
	struct record all = {0}, some = {.stop_at = 10};
	const struct ip_slice_visitor v = visitor_of(&all), w = visitor_of(&some);
	struct ip_run_index *x;

	assert_int_equal(ip_run_index_make(trace, run_of_9(), &v, 0, &x), 0);
	assert_int_equal(x->n, 1);
	assert_int_equal(ip_run_index_visit(x, 0, UINT64_MAX, &w), 0);
	/* the rest of the batch comes, too */
	assert_true(some.n >= 10 && some.n < 2 * 256 + 10 && some.n < all.n);
	ip_run_index_destroy(x);
	free(all.items);
	free(some.items);
}

static void test_a_file_that_became_shorter(void **state)
{
	struct record all = {0}, some = {0};
	const struct ip_slice_visitor v = visitor_of(&all), w = visitor_of(&some);
	struct ip_run_index *x;
	char path[96];

	assert_int_equal(ip_run_index_make(trace, run_of_9(), &v, 100, &x), 0);
	snprintf(path, sizeof(path), "%s/stream-0%s", dir, in_pieces ? "-9" : "");
	assert_int_equal(truncate(path, 500), 0);
	assert_int_equal(ip_run_index_visit(x, run_of_9()->end, UINT64_MAX, &w), -1);
	assert_non_null(strstr(ip_error_message(), "changed while it was being read"));
	ip_run_index_destroy(x);
	free(all.items);
	free(some.items);
}

static int begin(void **state)
{
	in_pieces = *state;
	program = (typeof(program)){0};
	write_trace();
	if (ip_trace_reader_open(dir, &trace) < 0) {
		remove_trace();
		fail_msg("%s", ip_error_message());
	}
	return 0;
}

static int end(void **state)
{
	ip_trace_reader_close(trace);
	remove_trace();
	return 0;
}

#define BOTH(test)                                                                                 \
	cmocka_unit_test_setup_teardown(test, begin, end),                                         \
	{                                                                                          \
#test " in pieces", test, begin, end, &trace                                       \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_slices_are_parts_of_the_run),
		BOTH(test_a_slice_reads_few_events),
		BOTH(test_a_visitor_may_stop),
		BOTH(test_a_file_that_became_shorter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
