/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first reading of a trace, which finds what is worth a look.
 */
#include "analysis/profile/interest.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/profile/merge.h"
#include "common/array.h"
#include "common/error.h"

struct finder {
	const struct ip_interest_options *options;
	struct ip_trace_reader *trace;
	struct ip_interest *interest;
	uint64_t min_ticks, slow_ticks, margin;
	uint64_t capacity; /* in bits */
	bool stop;
};

static uint64_t ticks_of(const struct ip_recording *s, uint64_t ns)
{
	return (uint64_t)((long double)ns * s->tsc_hz / 1e9L);
}

/* Makes room for one more bit in both arrays. */
static bool grow_bits(struct finder *f)
{
	uint64_t capacity = f->capacity ? 2 * f->capacity : 1 << 16;
	uint8_t **both[] = {&f->interest->is_long, &f->interest->is_slow};

	for (size_t i = 0; i < 2; i++) {
		uint8_t *grown = realloc(*both[i], capacity / 8);

		if (!grown)
			return false;
		memset(grown + f->capacity / 8, 0, (capacity - f->capacity) / 8);
		*both[i] = grown;
	}
	f->capacity = capacity;
	return true;
}

/* A frame's tag is its ordinal. A call whose ordinal does not fit into a tag counts as long:
 * showing too much is better than showing too little. */
static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct finder *f = context;

	frame->tag = UINT32_MAX;
	if (f->interest->ncalls >= UINT32_MAX)
		return;
	if (f->interest->ncalls == f->capacity && !grow_bits(f)) {
		f->stop = true;
		return;
	}
	frame->tag = f->interest->ncalls++;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct finder *f = context;
	uint64_t ticks = end - frame->start;

	if (frame->tag == UINT32_MAX || how == IP_END_UNKNOWN)
		return;
	if (ticks >= f->min_ticks)
		f->interest->is_long[frame->tag / 8] |= 1 << frame->tag % 8;
	if (!f->options->around || !f->options->around[frame->function] || ticks <= f->slow_ticks)
		return;
	f->interest->is_slow[frame->tag / 8] |= 1 << frame->tag % 8;
	f->interest->nslow++;
	if (ip_array_grow(&f->interest->spans, f->interest->nspans, sizeof(*f->interest->spans)) <
	    0) {
		f->stop = true;
		return;
	}
	f->interest->spans[f->interest->nspans++] = (struct ip_interest_span){
		frame->start > f->margin ? frame->start - f->margin : 0, end + f->margin};
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
}

static int by_begin(const void *a, const void *b)
{
	const struct ip_interest_span *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* Makes one span of spans that touch. */
static void join_spans(struct ip_interest *f)
{
	size_t n = 0;

	if (!f->nspans)
		return;
	qsort(f->spans, f->nspans, sizeof(*f->spans), by_begin);
	for (size_t i = 1; i < f->nspans; i++) {
		if (f->spans[i].from > f->spans[n].to)
			f->spans[++n] = f->spans[i];
		else if (f->spans[i].to > f->spans[n].to)
			f->spans[n].to = f->spans[i].to;
	}
	f->nspans = n + 1;
}

int ip_interest_find(struct ip_trace_reader *trace, const struct ip_interest_options *options,
		     struct ip_interest **ret)
{
	static const struct ip_frames_ops ops = {.opened = on_opened, .closed = on_closed};
	struct finder f = {
		.options = options, .trace = trace, .interest = calloc(1, sizeof(*f.interest))};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &f, .run = on_run};
	uint64_t events;

	if (!f.interest)
		return ip_error("out of memory");
	f.min_ticks = ticks_of(trace->session, options->min_duration_ns);
	f.slow_ticks = ticks_of(trace->session, options->slower_than_ns);
	f.margin = ticks_of(trace->session, options->margin_ns);
	if (ip_merge(trace, options->tid, &visitor, &f.stop, &events) < 0 || f.stop) {
		if (f.stop)
			ip_error("out of memory");
		ip_interest_destroy(f.interest);
		return -1;
	}
	join_spans(f.interest);
	*ret = f.interest;
	return 0;
}

void ip_interest_destroy(struct ip_interest *interest)
{
	if (!interest)
		return;
	free(interest->is_long);
	free(interest->is_slow);
	free(interest->spans);
	free(interest);
}

const struct ip_interest_span *ip_interest_span_at(const struct ip_interest *interest, uint64_t ts)
{
	size_t low = 0, high = interest->nspans;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (interest->spans[middle].to < ts)
			low = middle + 1;
		else
			high = middle;
	}
	return low < interest->nspans && interest->spans[low].from <= ts ? &interest->spans[low]
									 : NULL;
}
