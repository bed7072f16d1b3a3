/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts calls by their durations.
 */
#include "analysis/profile/latency.h"

#include <stdlib.h>

#include "common/error.h"

#define PEAK_SHARE 100 /* a peak has at least one call in so many */

static unsigned bucket_of(uint64_t ns)
{
	return ns ? 64 - __builtin_clzll(ns) : 0;
}

uint64_t ip_latency_from(unsigned bucket)
{
	return bucket ? 1ull << (bucket - 1) : 0;
}

uint64_t ip_latency_to(unsigned bucket)
{
	return bucket < 64 ? 1ull << bucket : UINT64_MAX;
}

/* Returns the slice in which a call began. */
static size_t slice_of(const struct ip_latencies *l, uint64_t start)
{
	uint64_t ns = start > l->trace->begin
			      ? ip_recording_ns(l->trace->session, start - l->trace->begin)
			      : 0;
	size_t slice = ns / l->slice_ns;

	return slice < l->nslices ? slice : l->nslices - 1;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct ip_latencies *l = context;
	struct ip_latency *f = &l->functions[frame->function];
	unsigned bucket;
	uint64_t ns;

	if (l->skip || !l->selected[frame->function] || frame->flags & IP_FRAME_SUSPECT ||
	    (how != IP_END_EXIT && how != IP_END_UNWOUND))
		return;
	ns = ip_recording_ns(l->trace->session, end - frame->start);
	bucket = bucket_of(ns);
	if (!f->count++)
		f->min = f->max = ns;
	if (ns < f->min)
		f->min = ns;
	if (ns > f->max)
		f->max = ns;
	f->total += ns;
	f->calls[bucket]++;
	f->until_tail += !!(frame->flags & IP_FRAME_TAIL);
	if (!l->nslices)
		return;
	if (!f->over_time)
		f->over_time = calloc(l->nslices * IP_LATENCY_BUCKETS, sizeof(*f->over_time));
	if (f->over_time)
		f->over_time[slice_of(l, frame->start) * IP_LATENCY_BUCKETS + bucket]++;
	else
		l->failed = true;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct ip_latencies *l = context;

	l->skip = l->tid && l->tid != run->tid;
}

int ip_latencies_collect(struct ip_trace_reader *trace, const bool *selected, size_t nslices,
			 uint32_t tid, struct ip_latencies **ret)
{
	static const struct ip_frames_ops ops = {.closed = on_closed};
	struct ip_latencies *l = calloc(1, sizeof(*l));
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = l, .run = on_run};

	if (l)
		l->functions = calloc(trace->session->nfunctions, sizeof(*l->functions));
	if (!l || !l->functions) {
		ip_latencies_destroy(l);
		return ip_error("out of memory");
	}
	l->nfunctions = trace->session->nfunctions;
	l->trace = trace;
	l->selected = selected;
	l->tid = tid;
	l->nslices = nslices;
	if (nslices)
		l->slice_ns =
			ip_recording_ns(trace->session, trace->end - trace->begin) / nslices + 1;
	if (ip_trace_reader_visit(trace, &visitor, &l->events) < 0 || l->failed) {
		if (l->failed)
			ip_error("out of memory");
		ip_latencies_destroy(l);
		return -1;
	}
	*ret = l;
	return 0;
}

void ip_latencies_destroy(struct ip_latencies *l)
{
	if (!l)
		return;
	for (size_t i = 0; l->functions && i < l->nfunctions; i++)
		free(l->functions[i].over_time);
	free(l->functions);
	free(l);
}

void ip_latency_peaks(const struct ip_latency *latency, bool ret[IP_LATENCY_BUCKETS])
{
	const uint64_t *n = latency->calls;
	int last = -1;	     /* the last peak so far */
	uint64_t lowest = 0; /* lowest bucket since last */

	for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++) {
		uint64_t before = b ? n[b - 1] : 0,
			 behind = b + 1 < IP_LATENCY_BUCKETS ? n[b + 1] : 0;
		/* of equal neighbours the first is the peak */
		bool top = n[b] && n[b] > before && n[b] >= behind &&
			   n[b] * PEAK_SHARE >= latency->count;

		ret[b] = false;
		if (last >= 0 && n[b] < lowest)
			lowest = n[b];
		if (!top)
			continue;
		if (last < 0 || 2 * lowest <= (n[last] < n[b] ? n[last] : n[b])) {
			ret[b] = true;
		} else if (n[b] > n[last]) {
			/* there is no valley between them: they are one peak, and the higher
			 * bucket stands for it */
			ret[last] = false;
			ret[b] = true;
		} else {
			continue;
		}
		last = b;
		lowest = n[b];
	}
}
