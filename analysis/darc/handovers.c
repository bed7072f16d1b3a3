/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second reading: which time of each operation was the wait, and what the calls that serve
 * call.
 */
#include "analysis/darc/handovers.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/darc/handover_pairs.h"
#include "common/array.h"
#include "common/error.h"

/* A wait ends with the serving, but for so much of what both have in common, or so long. */
#define TOLERANCE    4u
#define TOLERANCE_NS 200000u

#define NO_HANDOVER SIZE_MAX

/* What a thread serves. */
struct served {
	size_t run;
	uint64_t start;
	size_t handover;
};

struct reader {
	const struct ip_trace_reader *trace;
	struct ip_handovers *found;
	struct served *served; /* by run and start */
	size_t nserved;
	size_t run;
	const uint64_t *payload;
	uint64_t last;	 /* the time of the thread's last event */
	size_t waits;	 /* the first handover of the run that may still be waited for */
	size_t serves;	 /* the next one that the thread serves, in served */
	size_t current;	 /* the one that it serves now; NO_HANDOVER: none */
	uint32_t member; /* of the run */
	bool failed;
};

static uint64_t common_of(const struct ip_handover *h, uint64_t from, uint64_t to)
{
	const uint64_t begin = from > h->given ? from : h->given, end = to < h->end ? to : h->end;

	return end > begin ? end - begin : 0;
}

/* The thread has an event: the time since its last one may be a wait. */
static void pass(struct reader *r, uint64_t ts)
{
	struct ip_handover *items = r->found->items;

	/* operations of a thread follow one another */
	while (r->waits < r->found->n && items[r->waits].run == r->run &&
	       items[r->waits].end <= r->last)
		r->waits++;
	for (size_t i = r->waits; i < r->found->n && items[i].run == r->run && items[i].given < ts;
	     i++)
		if (ts <= items[i].operation_end &&
		    common_of(&items[i], r->last, ts) >
			    common_of(&items[i], items[i].from, items[i].to)) {
			items[i].from = r->last;
			items[i].to = ts;
		}
	r->last = ts > r->last ? ts : r->last;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	r->run = run - r->trace->runs;
	r->member = run->member;
	r->last = run->begin;
	r->waits = ip_handovers_at(r->found, r->run, 0);
	r->current = NO_HANDOVER;
	for (r->serves = 0; r->serves < r->nserved && r->served[r->serves].run < r->run;)
		r->serves++;
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct reader *)context)->payload = payload;
}

/* Begins or ends to serve, by the time. */
static void serve(struct reader *r, uint64_t ts)
{
	/* what comes behind the operation was not waited for */
	if (r->current != NO_HANDOVER && (ts > r->found->items[r->current].end ||
					  ts > r->found->items[r->current].operation_end))
		r->current = NO_HANDOVER;
	while (r->current == NO_HANDOVER && r->serves < r->nserved &&
	       r->served[r->serves].run == r->run && r->served[r->serves].start <= ts) {
		const struct served *s = &r->served[r->serves++];

		if (r->found->items[s->handover].end >= ts)
			r->current = s->handover;
	}
}

static uint32_t add(struct reader *r, const struct ip_handover_event *event)
{
	struct ip_handover *h = &r->found->items[r->current];

	if (h->n >= UINT32_MAX - 1 || ip_array_grow(&h->events, h->n, sizeof(*event)) < 0) {
		r->failed = true;
		return 0;
	}
	h->events[h->n++] = *event;
	return h->n;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct reader *r = context;
	const struct ip_handover *h;

	(void)depth;
	pass(r, frame->start);
	serve(r, frame->start);
	if (r->failed || r->current == NO_HANDOVER)
		return;
	h = &r->found->items[r->current];
	/* the call itself */
	if (frame->start == h->start && frame->function == h->server)
		return;
	frame->tag = add(r, &(struct ip_handover_event){
				    .tsc = frame->start,
				    .function = frame->function,
				    .member = r->member,
				    .call_site = frame->flags & IP_FRAME_JOINED
							 ? 0
							 : ip_recording_call_site(r->payload),
				    .begin = UINT32_MAX});
}

static void leave(struct reader *r, const struct ip_frame *frame, uint64_t ts)
{
	const struct ip_handover *h;

	pass(r, ts);
	if (r->failed || r->current == NO_HANDOVER || !frame->tag)
		return;
	h = &r->found->items[r->current];
	if (frame->tag <= h->n && h->events[frame->tag - 1].tsc == frame->start)
		add(r, &(struct ip_handover_event){.tsc = ts, .begin = frame->tag - 1});
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	(void)depth;
	leave(context, frame, ts);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	(void)depth;
	if (how != IP_END_UNWOUND) /* else it was left before */
		leave(context, frame, end);
}

/* Whether the thread was blocked for a while of the time that the wait and the serving have in
 * common. -1: not known. */
static int was_blocked(const struct reader *r, const struct ip_trace_waits *waits,
		       const struct ip_handover *h)
{
	const uint64_t from = h->from > h->given ? h->from : h->given,
		       to = h->to < h->end ? h->to : h->end;
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

static bool is_wait(const struct reader *r, const struct ip_trace_waits *waits,
		    const struct ip_handover *h)
{
	const uint64_t common = common_of(h, h->from, h->to),
		       apart = h->to > h->end ? h->to - h->end : h->end - h->to;
	const int blocked = common ? was_blocked(r, waits, h) : 0;

	if (!common || !blocked)
		return false;
	return blocked > 0 || apart <= common / TOLERANCE ||
	       ip_recording_ns(r->trace->session, apart) <= TOLERANCE_NS;
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
static void choose(struct reader *r, const struct ip_trace_waits *waits)
{
	struct ip_handovers *found = r->found;
	size_t n = 0;

	if (found->n)
		qsort(found->items, found->n, sizeof(*found->items), by_wait);
	for (size_t i = 0; i < found->n; i++) {
		struct ip_handover *h = &found->items[i];
		const struct ip_handover *before = n ? &found->items[n - 1] : NULL;

		if (!is_wait(r, waits, h) ||
		    (before && before->run == h->run && before->operation == h->operation &&
		     before->to == h->to)) {
			free(h->events);
			h->events = NULL;
			continue;
		}
		if (n != i) {
			found->items[n] = *h;
			h->events = NULL;
		}
		n++;
	}
	found->n = n;
}

static int by_server(const void *left, const void *right)
{
	const struct served *a = left, *b = right;

	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	return a->start < b->start ? -1 : a->start > b->start;
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
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .left = on_left, .closed = on_closed, .values = on_values};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = r, .run = on_run};
	uint64_t events;
	int ret;

	r->served = calloc(r->found->n + 1, sizeof(*r->served));
	if (!r->served)
		return ip_error("out of memory");
	for (; r->nserved < r->found->n; r->nserved++)
		r->served[r->nserved] =
			(struct served){.run = r->found->items[r->nserved].server_run,
					.start = r->found->items[r->nserved].start,
					.handover = r->nserved};
	if (r->nserved)
		qsort(r->served, r->nserved, sizeof(*r->served), by_server);
	ret = ip_trace_reader_visit(trace, &visitor, &events);
	free(r->served);
	return r->failed ? -1 : ret;
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
		choose(&r, waits);
	return code;
}

void ip_handovers_clear(struct ip_handovers *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->items[i].events);
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
