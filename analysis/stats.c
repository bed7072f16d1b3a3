/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding up frames as they close.
 */
#include "analysis/stats.h"

#include <math.h>
#include <stdlib.h>

#include "common/error.h"

static void on_run(void *context, const struct ip_run *run)
{
	struct ip_stats *stats = context;

	stats->run++;
}

static inline void note_run(const struct ip_stats *stats, struct ip_function_stats *f)
{
	if (f->run != stats->run) {
		f->run = stats->run;
		f->threads++;
	}
}

/* The duration of a call that has ended. */
static inline void add_duration(struct ip_function_stats *f, uint64_t ticks)
{
	double d;

	if (!f->histogram.count && !f->histogram.dropped) {
		f->min = f->max = ticks;
		/* Squares of the distance to the first one: those of long durations would drown their
		 * difference. */
		f->offset = ticks;
	}
	if (ticks < f->min)
		f->min = ticks;
	if (ticks > f->max)
		f->max = ticks;
	d = (double)ticks - f->offset;
	f->sum += d;
	f->squares += d * d;
	ip_histogram_add(&f->histogram, ticks);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct ip_stats *stats = context;
	struct ip_function_stats *f = &stats->functions[frame->function];
	uint64_t ticks = end - frame->start;

	f->calls++;
	f->self += frame->self;
	if (!(frame->flags & IP_FRAME_INNER))
		f->total += ticks;
	note_run(stats, f);
	if (how == IP_END_UNKNOWN)
		return;
	f->tails += !!(frame->flags & IP_FRAME_TAIL);
	if (how != IP_END_EXIT) {
		f->unwound += how == IP_END_UNWOUND;
		f->unfinished += how == IP_END_UNFINISHED;
	}
	if (how != IP_END_UNFINISHED) {
		if (frame->flags & IP_FRAME_SUSPECT)
			f->suspect++;
		else
			add_duration(f, ticks);
	}
}

static void on_orphan(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct ip_stats *stats = context;

	stats->orphans++;
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct ip_stats *stats = context;

	stats->functions[function].points++;
	note_run(stats, &stats->functions[function]);
}

int ip_stats_collect(struct ip_trace_reader *trace, struct ip_stats **ret)
{
	static const struct ip_frames_ops ops = {.closed = on_closed, .orphan = on_orphan, .point = on_point};
	struct ip_stats *stats = calloc(1, sizeof(*stats));
	struct ip_trace_visitor visitor = {.ops = &ops, .context = stats, .run = on_run};

	if (stats) {
		stats->nfunctions = trace->session->nfunctions;
		stats->functions = calloc(stats->nfunctions, sizeof(*stats->functions));
	}
	if (!stats || !stats->functions) {
		ip_stats_destroy(stats);
		return ip_error("out of memory");
	}
	if (ip_trace_reader_visit(trace, &visitor, &stats->events) < 0) {
		ip_stats_destroy(stats);
		return -1;
	}
	for (size_t i = 0; i < stats->nfunctions; i++) {
		stats->unwound += stats->functions[i].unwound;
		stats->unfinished += stats->functions[i].unfinished;
		stats->suspect += stats->functions[i].suspect;
	}
	*ret = stats;
	return 0;
}

void ip_stats_destroy(struct ip_stats *stats)
{
	if (!stats)
		return;
	for (size_t i = 0; stats->functions && i < stats->nfunctions; i++)
		if (stats->functions[i].calls)
			ip_histogram_deinit(&stats->functions[i].histogram);
	free(stats->functions);
	free(stats);
}

/* A percentile in nanoseconds, within the true bounds. */
static uint64_t percentile(const struct ip_recording *s, const struct ip_function_stats *f, double share)
{
	uint64_t ticks = ip_histogram_percentile(&f->histogram, share);

	if (ticks < f->min)
		ticks = f->min;
	if (ticks > f->max)
		ticks = f->max;
	return ip_recording_ns(s, ticks);
}

void ip_stats_summarize(const struct ip_recording *s, const struct ip_function_stats *f,
			struct ip_stats_summary *ret)
{
	double n = f->histogram.count + f->histogram.dropped;
	double mean, variance;

	*ret = (struct ip_stats_summary){.total = ip_recording_ns(s, f->total),
					 .self = ip_recording_ns(s, f->self)};
	if (n == 0)
		return;
	mean = f->sum / n;
	variance = f->squares / n - mean * mean;
	ret->stddev = variance > 0 ? sqrt(variance) * 1e9 / s->tsc_hz : 0;
	ret->min = ip_recording_ns(s, f->min);
	ret->max = ip_recording_ns(s, f->max);
	mean += f->offset;
	ret->avg = mean < 1.8e19 && mean > 0 ? ip_recording_ns(s, (uint64_t)(mean + 0.5)) : 0;
	if (ret->avg < ret->min)
		ret->avg = ret->min;
	if (ret->avg > ret->max)
		ret->avg = ret->max;
	ret->p50 = percentile(s, f, 0.5);
	ret->p90 = percentile(s, f, 0.9);
	ret->p99 = percentile(s, f, 0.99);
	ret->p999 = percentile(s, f, 0.999);
}
