/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts calls by their durations.
 */
#include "analysis/profile/latency/latency.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/frames_words.h"
#include "analysis/callstack/trace_parts.h"
#include "analysis/profile/value_choice.h"
#include "analysis/profile/value_filter.h"
#include "common/error.h"
#include "common/units.h"

static unsigned bucket_of(uint64_t ns)
{
	return ns ? 64 - __builtin_clzll(ns) : 0;
}

/* Returns whether a closed frame is a call whose duration is known. */
static bool is_wanted(const struct ip_latencies *l, const struct ip_frame *frame,
		      enum ip_frame_end how)
{
	return !l->skip && l->selected[frame->function] &&
	       !(frame->flags & (IP_FRAME_SUSPECT | IP_FRAME_EARLIER)) &&
	       (how == IP_END_EXIT || how == IP_END_UNWOUND);
}

/* Counts a call in the slice in which it began. */
static void count_in_slice(struct ip_latencies *l, struct ip_latency *f, uint64_t start,
			   unsigned bucket)
{
	const size_t slice = ip_latency_slice_of(&l->slices, l->trace->session, start);
	const size_t cells = l->slices.n * IP_LATENCY_BUCKETS;

	if (!f->over_time && !l->too_large) {
		l->bytes += cells * sizeof(*f->over_time);
		l->too_large = l->slices.n > SIZE_MAX / (IP_LATENCY_BUCKETS * 8) ||
			       l->bytes > IP_LATENCY_OVER_TIME_MAX;
		f->over_time = l->too_large ? NULL : calloc(cells, sizeof(*f->over_time));
		l->failed |= !f->over_time;
	}
	if (f->over_time)
		f->over_time[slice * IP_LATENCY_BUCKETS + bucket]++;
}

static void count(struct ip_latencies *l, struct ip_latency *f, const struct ip_frame *frame,
		  uint64_t end)
{
	const uint64_t ticks = end - frame->start, ns = ip_recording_ns(l->trace->session, ticks);
	const unsigned bucket = bucket_of(ns);

	if (!f->count++)
		f->min = f->max = ticks;
	if (ticks < f->min)
		f->min = ticks;
	if (ticks > f->max)
		f->max = ticks;
	f->total += ticks;
	f->calls[bucket]++;
	f->until_tail += !!(frame->flags & IP_FRAME_TAIL);
	if (l->durations && !f->durations) {
		f->durations = calloc(1, sizeof(*f->durations));
		l->failed |= !f->durations;
	}
	if (f->durations)
		ip_histogram_add(f->durations, l->durations ? ns : ticks);
	if (l->slices.n)
		count_in_slice(l, f, frame->start, bucket);
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

static int tell_failure(const struct ip_latencies *l)
{
	char most[16];

	if (!l->too_large)
		return ip_error("out of memory");
	return ip_error("%s: calls over time in %zu intervals would take more than %s of memory: "
			"choose fewer functions, or longer intervals",
			l->trace->dir, l->slices.n, ip_format_size(IP_LATENCY_OVER_TIME_MAX, most));
}

static int end_part(void *part)
{
	const struct ip_latencies *l = part;

	return l->failed ? tell_failure(l) : 0;
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
	if (!to->durations) {
		to->durations = f->durations;
		f->durations = NULL;
	} else if (f->durations) {
		ip_histogram_merge(to->durations, f->durations);
	}
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
			merge_latency(&to->functions[i], &l->functions[i], to->slices.n);
	return 0;
}

static void destroy_part(void *part)
{
	ip_latencies_destroy(part);
}

static void *copy_part(void *part)
{
	struct ip_latencies *l = part, *copy = malloc(sizeof(*copy));
	const size_t n = l->slices.n * IP_LATENCY_BUCKETS;

	if (!copy)
		return NULL;
	*copy = *l;
	copy->functions = calloc(copy->nfunctions, sizeof(*copy->functions));
	for (size_t i = 0; copy->functions && i < copy->nfunctions; i++) {
		struct ip_latency *f = &copy->functions[i];

		if (!l->functions[i].count)
			continue;
		*f = l->functions[i];
		f->durations = NULL; /* what is shown meanwhile has no percentiles */
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

/* Returns bytes that the latencies take at most. */
static size_t size_of(const struct ip_latencies *l)
{
	const size_t over_time =
		l->slices.n * IP_LATENCY_BUCKETS * sizeof(*l->functions->over_time);
	size_t n = 0;

	for (size_t i = 0; i < l->nfunctions; i++)
		n += l->selected[i];
	return l->nfunctions * sizeof(*l->functions) + n * over_time;
}

/* By function, of calls that are chosen by their values. */
static int collect_chosen(struct ip_trace_reader *trace, struct ip_latencies *begun,
			  const struct ip_frames_ops *ops, struct ip_latencies **ret)
{
	struct ip_latencies *l = create_part(begun);
	const struct ip_trace_visitor visitor = {.ops = ops, .context = l, .run = on_run};

	if (!l || ip_value_filter_visit(trace, &visitor, l->matches, &l->events) < 0 ||
	    end_part(l) < 0) {
		ip_latencies_destroy(l);
		return -1;
	}
	*ret = l;
	return 0;
}

int ip_latencies_collect(struct ip_trace_reader *trace, const struct ip_latency_options *options,
			 struct ip_latencies **ret)
{
	static const struct ip_frames_ops ops = {.closed = on_closed};
	struct ip_latencies begun = {.nfunctions = trace->session->nfunctions,
				     .trace = trace,
				     .selected = options->selected,
				     .tid = options->tid,
				     .slices = options->slices,
				     .durations = options->durations,
				     .matches = options->matches};
	const struct ip_trace_parts parts = {
		.create = create_part,
		.end = end_part,
		.merge = merge_part,
		.destroy = destroy_part,
		.copy = copy_part,
		.complete = complete,
		.visitor = {.ops = &ops, .run = on_run, .words = take_words},
		.context = &begun,
		.size = size_of(&begun)};
	uint64_t events;
	void *part;

	if (ip_value_filter_is_on(options->matches))
		return collect_chosen(trace, &begun, &ops, ret);
	if (ip_trace_reader_visit_parts(trace, &parts, &part, &events) < 0)
		return -1;
	*ret = part;
	return 0;
}

/* chosen NULL: values are not chosen. */
static int collect_by_value(struct ip_trace_reader *trace, const struct ip_latency_options *options,
			    const char *value, const struct ip_value_choice *chosen,
			    struct ip_latencies **ret)
{
	static const struct ip_frames_ops ops = {
		.opened = on_group_opened, .closed = on_group_closed, .values = on_values};
	struct ip_latencies *l = calloc(1, sizeof(*l));
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = l, .run = on_run};

	if (!l)
		return ip_error("out of memory");
	l->trace = trace;
	l->selected = options->selected;
	l->tid = options->tid;
	l->slices = options->slices;
	l->durations = options->durations;
	l->matches = options->matches;
	l->groups = ip_groups_create(trace, IP_GROUP_BY_VALUE, value);
	if (l->groups)
		l->groups->values->chosen = chosen;
	if (!l->groups || ip_value_filter_visit(trace, &visitor, l->matches, &l->events) < 0 ||
	    l->failed) {
		if (l->failed)
			tell_failure(l);
		ip_latencies_destroy(l);
		return -1;
	}
	*ret = l;
	return 0;
}

int ip_latencies_collect_by_value(struct ip_trace_reader *trace,
				  const struct ip_latency_options *options, const char *value,
				  struct ip_latencies **ret)
{
	struct ip_latencies *l;
	struct ip_value_choice *chosen = NULL;
	int done = collect_by_value(trace, options, value, NULL, &l);

	if (done < 0)
		return -1;
	if (!l->groups->values->others || (trace->progress && trace->progress->stopped)) {
		*ret = l;
		return 0;
	}
	done = ip_value_choice_find(trace, l->groups->values, options->selected, options->tid,
				    options->matches, IP_VALUES_BY_TOTAL, &chosen);
	ip_latencies_destroy(l);
	if (done == 0)
		done = collect_by_value(trace, options, value, chosen, ret);
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
