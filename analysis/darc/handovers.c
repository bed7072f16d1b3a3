/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second reading: which time of each operation was the wait.
 */
#include "analysis/darc/handovers.h"

#include <stdlib.h>

#include "analysis/callstack/open_calls.h"
#include "analysis/darc/handover_calls.h"
#include "analysis/darc/handover_pairs.h"
#include "common/cleanup.h"
#include "common/error.h"

/* A wait ends with the serving, but for so much of what both have in common, or so long. */
#define TOLERANCE 4u
/* A time that ends with the serving counts, where another one has more in common with it, up to so
 * many times as much: that one may be work that is done meanwhile. */
#define PREFERENCE   8u
#define TOLERANCE_NS 200000u

/* From one event of a thread to the next. */
struct time {
	uint64_t from, to;
	uint32_t in; /* the innermost function */
};

struct reader {
	const struct ip_trace_reader *trace;
	struct ip_handovers *found;
	/* by handover: the time that has most in common with it, and that of those that end with
	 * the serving */
	struct times {
		struct time most, fit;
	} * times;
	size_t run;
	uint64_t last; /* the time of the thread's last event */
	size_t waits;  /* the first handover of the run that may still be waited for */
};

static uint64_t common_of(const struct ip_handover *h, const struct time *t)
{
	const uint64_t begin = t->from > h->given ? t->from : h->given,
		       end = t->to < h->end ? t->to : h->end;

	return end > begin ? end - begin : 0;
}

/* Whether the time ended about when the serving did. */
static bool ends_with_it(const struct reader *r, const struct ip_handover *h, const struct time *t)
{
	const uint64_t apart = t->to > h->end ? t->to - h->end : h->end - t->to;

	return apart <= common_of(h, t) / TOLERANCE ||
	       ip_recording_ns(r->trace->session, apart) <= TOLERANCE_NS;
}

/* The thread has an event: the time since its last one may be a wait. */
static void on_pass(void *context, const uint32_t *innermost, uint64_t ts)
{
	struct reader *r = context;
	const struct ip_handover *items = r->found->items;
	const struct time now = {.from = r->last, .to = ts, .in = innermost ? *innermost : 0};

	/* operations of a thread follow one another */
	while (r->waits < r->found->n && items[r->waits].run == r->run &&
	       (items[r->waits].end <= r->last || items[r->waits].operation_end < r->last))
		r->waits++;
	for (size_t i = r->waits;
	     i < r->found->n && items[i].run == r->run && items[i].operation <= r->last; i++) {
		struct times *best = &r->times[i];
		const uint64_t common = common_of(&items[i], &now);

		if (ts > items[i].operation_end)
			continue;
		if (common > common_of(&items[i], &best->most))
			best->most = now;
		if (common > common_of(&items[i], &best->fit) && ends_with_it(r, &items[i], &now))
			best->fit = now;
	}
	r->last = ts > r->last ? ts : r->last;
}

/* Threads that hand nothing over are skipped. */
static bool on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	r->run = run - r->trace->runs;
	r->last = run->begin;
	r->waits = ip_handovers_at(r->found, r->run, 0);
	return r->waits < r->found->n && r->found->items[r->waits].run == r->run;
}

/* The number of a call is its function. */
static int on_opened(void *context, const struct ip_frame *frame, const uint32_t *above,
		     uint32_t *ret)
{
	(void)context;
	(void)above;
	*ret = frame->function;
	return 0;
}

/* Whether the thread was blocked for a while of the time that the wait and the serving have in
 * common. -1: not known. */
static int was_blocked(const struct reader *r, const struct ip_trace_waits *waits,
		       const struct ip_handover *h, const struct time *time)
{
	const uint64_t from = time->from > h->given ? time->from : h->given,
		       to = time->to < h->end ? time->to : h->end;
	const struct ip_thread_states *t =
		waits ? ip_states_find(waits->states, r->trace->runs[h->run].machine_tid, from)
		      : NULL;
	size_t i = t ? ip_states_span_at(t, from) : 0;

	if (!t || from < waits->states->begin || to > waits->states->end)
		return -1;
	for (i = i < t->nspans ? i : 0; i < t->nspans && t->spans[i].from < to; i++)
		if (t->spans[i].state == IP_THREAD_BLOCKED)
			return 1;
	return 0;
}

/* Chooses which time was the wait. Returns whether it was one; -1: that has to be judged by other
 * times in the same function. */
static int judge(const struct reader *r, const struct ip_trace_waits *waits, size_t item)
{
	struct ip_handover *h = &r->found->items[item];
	const struct times *t = &r->times[item];
	const uint64_t most = common_of(h, &t->most), fit = common_of(h, &t->fit);
	const struct time *time = &t->most;
	int blocked = most ? was_blocked(r, waits, h, time) : 0;

	if (fit && (blocked < 0 ? fit >= most / PREFERENCE : !blocked)) {
		time = &t->fit;
		blocked = was_blocked(r, waits, h, time);
	}
	h->from = time->from;
	h->to = time->to;
	h->in = time->in;
	return blocked;
}

static int by_wait(const void *left, const void *right)
{
	const struct ip_handover *a = left, *b = right;

	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	if (a->operation != b->operation)
		return a->operation < b->operation ? -1 : 1;
	if (a->to != b->to)
		return a->to < b->to ? -1 : 1;
	/* what was served last comes first */
	return a->end > b->end ? -1 : a->end < b->end;
}

/* Keeps what was waited for. */
static int choose(struct reader *r, const struct ip_trace_waits *waits)
{
	struct ip_handovers *found = r->found;
	/* by function: of the times spent in it, how many more end with the serving than do not */
	_cleanup_free_ int64_t *votes =
		calloc((size_t)r->trace->session->nfunctions + 1, sizeof(*votes));
	_cleanup_free_ int8_t *judged = calloc(found->n + 1, sizeof(*judged));
	size_t n = 0, kept = 0;

	if (!votes || !judged)
		return ip_error("out of memory");
	for (size_t i = 0; i < found->n; i++) {
		const struct ip_handover *h = &found->items[i];
		struct time t;

		judged[i] = judge(r, waits, i);
		t = (struct time){.from = h->from, .to = h->to};
		if (judged[i] < 0)
			votes[h->in] += ends_with_it(r, h, &t) ? 1 : -1;
	}
	for (size_t i = 0; i < found->n; i++)
		if (judged[i] < 0 ? votes[found->items[i].in] > 0 : judged[i])
			found->items[n++] = found->items[i];
	if (n)
		qsort(found->items, n, sizeof(*found->items), by_wait);
	for (size_t i = 0; i < n; i++) {
		struct ip_handover h = found->items[i],
				   *later = kept ? &found->items[kept - 1] : NULL;
		const bool same = later && later->run == h.run && later->operation == h.operation &&
				  later->to == h.to;

		h.until = h.to < h.end ? h.to : h.end;
		if (same && later->start < h.until)
			h.until = later->start;
		if (h.until <= h.start || h.until <= h.from)
			continue;
		if (same && later->from < h.until)
			later->from = h.until;
		found->items[kept++] = h;
	}
	found->n = kept;
	return 0;
}

static int by_run(const void *left, const void *right)
{
	const struct ip_darc_operation *const *a = left, *const *b = right;

	if ((*a)->run != (*b)->run)
		return (*a)->run < (*b)->run ? -1 : 1;
	return (*a)->start < (*b)->start ? -1 : (*a)->start > (*b)->start;
}

static int read_waits(struct reader *r, struct ip_trace_reader *trace)
{
	static const struct ip_open_calls_ops ops = {
		.run = on_run, .pass = on_pass, .opened = on_opened};
	uint64_t events;

	r->times = calloc(r->found->n + 1, sizeof(*r->times));
	if (!r->times)
		return ip_error("out of memory");
	return ip_open_calls_read(trace, &ops, r, 0, &events);
}

int ip_handovers_find(struct ip_trace_reader *trace, const struct ip_handover_rule *rules,
		      size_t nrules, const struct ip_darc_operations *const *operations,
		      size_t noperations, const struct ip_trace_waits *waits,
		      struct ip_handovers *ret)
{
	struct reader r = {.trace = trace, .found = ret};
	const struct ip_darc_operation **all;
	size_t n = 0, room = 1;
	int code;

	*ret = (struct ip_handovers){0};
	for (size_t i = 0; i < noperations; i++)
		room += operations[i]->n;
	all = calloc(room, sizeof(*all));
	if (!all)
		return ip_error("out of memory");
	for (size_t i = 0; i < noperations; i++)
		for (size_t k = 0; k < operations[i]->n; k++)
			all[n++] = &operations[i]->items[k];
	qsort(all, n, sizeof(*all), by_run);
	code = ip_handover_pairs_find(trace, rules, nrules, all, n, ret);
	free(all);
	if (code == 0)
		code = read_waits(&r, trace);
	if (code == 0)
		code = choose(&r, waits);
	free(r.times);
	return code == 0 ? ip_handover_calls_read(trace, ret) : -1;
}

void ip_handovers_clear(struct ip_handovers *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free(h->items[i].meanwhile.events);
		free(h->items[i].within.events);
	}
	free(h->items);
	*h = (struct ip_handovers){0};
}

size_t ip_handovers_at(const struct ip_handovers *h, size_t run, uint64_t operation)
{
	size_t low = 0, high = h->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct ip_handover *x = &h->items[middle];

		if (x->run < run || (x->run == run && x->operation < operation))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
