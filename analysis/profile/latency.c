/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts calls by their durations.
 */
#include "analysis/profile/latency.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/frames_words.h"
#include "analysis/callstack/trace_parts.h"
#include "analysis/profile/value_choice.h"
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

/* Returns whether a closed frame is a call whose duration is known. */
static bool is_wanted(const struct ip_latencies *l, const struct ip_frame *frame,
		      enum ip_frame_end how)
{
	return !l->skip && l->selected[frame->function] &&
	       !(frame->flags & (IP_FRAME_SUSPECT | IP_FRAME_EARLIER)) &&
	       (how == IP_END_EXIT || how == IP_END_UNWOUND);
}

static void count(struct ip_latencies *l, struct ip_latency *f, const struct ip_frame *frame,
		  uint64_t end)
{
	uint64_t ns = ip_recording_ns(l->trace->session, end - frame->start);
	unsigned bucket = bucket_of(ns);

	if (!f->count++)
		f->min = f->max = ns;
	if (ns < f->min)
		f->min = ns;
	if (ns > f->max)
		f->max = ns;
	f->total += ns;
	f->calls[bucket]++;
	f->until_tail += !!(frame->flags & IP_FRAME_TAIL);
	if (f->durations)
		ip_histogram_add(f->durations, ns);
	if (!l->nslices)
		return;
	if (!f->over_time)
		f->over_time = calloc(l->nslices * IP_LATENCY_BUCKETS, sizeof(*f->over_time));
	if (f->over_time)
		f->over_time[slice_of(l, frame->start) * IP_LATENCY_BUCKETS + bucket]++;
	else
		l->failed = true;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct ip_latencies *l = context;

	if (is_wanted(l, frame, how))
		count(l, &l->functions[frame->function], frame, end);
}

/* Makes room for a group, which may be new. */
static struct ip_latency *reserve(struct ip_latencies *l, uint32_t group)
{
	size_t room = l->room ? 2 * l->room : 64;
	struct ip_latency *items;

	if (group == IP_NO_GROUP)
		return NULL;
	if (group >= l->room) {
		items = reallocarray(l->functions, room, sizeof(*items));
		if (!items)
			return NULL;
		l->functions = items;
		l->room = room;
	}
	/* group numbers grow one by one */
	if (group == l->nfunctions)
		l->functions[l->nfunctions++] = (struct ip_latency){0};
	if (!l->functions[group].durations)
		l->functions[group].durations = calloc(1, sizeof(*l->functions[group].durations));
	return l->functions[group].durations ? &l->functions[group] : NULL;
}

/* By value: a frame's tag is its group + 1. */
static void on_group_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct ip_latencies *l = context;
	uint32_t group;

	if (l->failed || l->skip || !l->selected[frame->function])
		return;
	group = ip_groups_of_call(l->groups, l->thread, frame, depth, l->payload);
	l->failed = !reserve(l, group);
	frame->tag = l->failed ? 0 : group + 1;
}

static void on_group_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
			    enum ip_frame_end how)
{
	struct ip_latencies *l = context;
	uint32_t group = frame->tag - 1;
	struct ip_latency *f;

	if (l->failed || !frame->tag || !is_wanted(l, frame, how))
		return;
	if (l->payload && ip_frame_has_result(frame, how) &&
	    ip_groups_of_result(l->groups, frame, l->payload, &group) < 0)
		l->failed = true;
	f = l->failed ? NULL : reserve(l, group);
	if (f)
		count(l, f, frame, end);
	else
		l->failed = true;
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct ip_latencies *)context)->payload = payload;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct ip_latencies *l = context;

	l->skip = l->tid && l->tid != run->tid;
	l->thread = run;
}

static size_t take_words(void *context, struct ip_frames *frames,
			 const struct ip_stream_words *words, uint64_t *ret_ts, uint64_t *ret_sp)
{
	struct ip_frames_call calls[IP_FRAMES_WORDS];
	struct ip_latencies *l = context;
	size_t n, taken;

	taken = ip_frames_take_words(frames, words, false, NULL, NULL, calls, &n, ret_ts, ret_sp);
	for (size_t i = 0; i < n; i++) {
		const struct ip_frame frame = {.start = calls[i].end - calls[i].ticks,
					       .function = calls[i].function,
					       .flags = calls[i].flags};

		if (is_wanted(l, &frame, IP_END_EXIT))
			count(l, &l->functions[frame.function], &frame, calls[i].end);
	}
	return taken;
}

/* Returns empty ones of all functions, for one part of the trace. */
static void *create_part(void *context)
{
	const struct ip_latencies *options = context;
	struct ip_latencies *l = calloc(1, sizeof(*l));

	if (l) {
		*l = *options;
		l->functions = calloc(l->nfunctions, sizeof(*l->functions));
	}
	if (l && l->functions)
		return l;
	free(l);
	ip_error("out of memory");
	return NULL;
}

static int end_part(void *part)
{
	return ((struct ip_latencies *)part)->failed ? ip_error("out of memory") : 0;
}

static void merge_latency(struct ip_latency *to, struct ip_latency *f, size_t nslices)
{
	to->min = to->count && to->min < f->min ? to->min : f->min;
	to->max = to->count && to->max > f->max ? to->max : f->max;
	to->count += f->count;
	to->until_tail += f->until_tail;
	to->total += f->total;
	for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++)
		to->calls[b] += f->calls[b];
	if (!to->over_time) {
		to->over_time = f->over_time;
		f->over_time = NULL;
		return;
	}
	for (size_t i = 0; f->over_time && i < nslices * IP_LATENCY_BUCKETS; i++)
		to->over_time[i] += f->over_time[i];
}

static int merge_part(void *first, void *part)
{
	struct ip_latencies *to = first, *l = part;

	for (size_t i = 0; i < to->nfunctions; i++)
		if (l->functions[i].count)
			merge_latency(&to->functions[i], &l->functions[i], to->nslices);
	return 0;
}

static void destroy_part(void *part)
{
	ip_latencies_destroy(part);
}

static void *copy_part(void *part)
{
	struct ip_latencies *l = part, *copy = malloc(sizeof(*copy));
	const size_t n = l->nslices * IP_LATENCY_BUCKETS;

	if (!copy)
		return NULL;
	*copy = *l;
	copy->functions = calloc(copy->nfunctions, sizeof(*copy->functions));
	for (size_t i = 0; copy->functions && i < copy->nfunctions; i++) {
		struct ip_latency *f = &copy->functions[i];

		if (!l->functions[i].count)
			continue;
		*f = l->functions[i];
		if (!f->over_time)
			continue;
		f->over_time = malloc(n * sizeof(*f->over_time));
		if (f->over_time)
			memcpy(f->over_time, l->functions[i].over_time, n * sizeof(*f->over_time));
		else
			copy->failed = true;
	}
	if (copy->functions && !copy->failed)
		return copy;
	ip_latencies_destroy(copy);
	return NULL;
}

static void complete(void *part, uint64_t events)
{
	((struct ip_latencies *)part)->events = events;
}

int ip_latencies_collect(struct ip_trace_reader *trace, const bool *selected, size_t nslices,
			 uint32_t tid, struct ip_latencies **ret)
{
	static const struct ip_frames_ops ops = {.closed = on_closed};
	struct ip_latencies options = {.nfunctions = trace->session->nfunctions,
				       .trace = trace,
				       .selected = selected,
				       .tid = tid,
				       .nslices = nslices};
	const struct ip_trace_parts parts = {
		.create = create_part,
		.end = end_part,
		.merge = merge_part,
		.destroy = destroy_part,
		.copy = copy_part,
		.complete = complete,
		.visitor = {.ops = &ops, .run = on_run, .words = take_words},
		.context = &options,
		.size = options.nfunctions *
			(sizeof(*options.functions) +
			 nslices * IP_LATENCY_BUCKETS * sizeof(*options.functions->over_time))};
	uint64_t events;
	void *part;

	if (nslices)
		options.slice_ns =
			ip_recording_ns(trace->session, trace->end - trace->begin) / nslices + 1;
	if (ip_trace_reader_visit_parts(trace, &parts, &part, &events) < 0)
		return -1;
	*ret = part;
	return 0;
}

/* chosen NULL: values are not chosen. */
static int collect_by_value(struct ip_trace_reader *trace, const bool *selected, const char *value,
			    uint32_t tid, const struct ip_value_choice *chosen,
			    struct ip_latencies **ret)
{
	static const struct ip_frames_ops ops = {
		.opened = on_group_opened, .closed = on_group_closed, .values = on_values};
	struct ip_latencies *l = calloc(1, sizeof(*l));
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = l, .run = on_run};

	if (!l)
		return ip_error("out of memory");
	l->trace = trace;
	l->selected = selected;
	l->tid = tid;
	l->groups = ip_groups_create(trace, IP_GROUP_BY_VALUE, value);
	if (l->groups)
		l->groups->values->chosen = chosen;
	if (!l->groups || ip_trace_reader_visit(trace, &visitor, &l->events) < 0 || l->failed) {
		if (l->failed)
			ip_error("out of memory");
		ip_latencies_destroy(l);
		return -1;
	}
	*ret = l;
	return 0;
}

int ip_latencies_collect_by_value(struct ip_trace_reader *trace, const bool *selected,
				  const char *value, uint32_t tid, struct ip_latencies **ret)
{
	struct ip_latencies *l;
	struct ip_value_choice *chosen = NULL;
	int done = collect_by_value(trace, selected, value, tid, NULL, &l);

	if (done < 0)
		return -1;
	if (!l->groups->values->others || (trace->progress && trace->progress->stopped)) {
		*ret = l;
		return 0;
	}
	done = ip_value_choice_find(trace, l->groups->values, selected, tid, IP_VALUES_BY_TOTAL,
				    &chosen);
	ip_latencies_destroy(l);
	if (done == 0)
		done = collect_by_value(trace, selected, value, tid, chosen, ret);
	if (done == 0)
		(*ret)->groups->values->chosen = NULL;
	ip_value_choice_destroy(chosen);
	return done;
}

void ip_latencies_destroy(struct ip_latencies *l)
{
	if (!l)
		return;
	for (size_t i = 0; l->functions && i < l->nfunctions; i++) {
		free(l->functions[i].over_time);
		if (l->functions[i].durations)
			ip_histogram_deinit(l->functions[i].durations);
		free(l->functions[i].durations);
	}
	ip_groups_destroy(l->groups);
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
