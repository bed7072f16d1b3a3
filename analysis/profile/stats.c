/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up frames when they are closed.
 */
#include "analysis/profile/stats.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/callstack/frames_words.h"
#include "analysis/callstack/trace_parts.h"
#include "common/error.h"

static inline void note_run(const struct ip_stats *stats, struct ip_call_stats *f)
{
	if (f->run != stats->run) {
		f->run = stats->run;
		f->threads++;
	}
}

/* Adds the duration of a call that has ended. */
static inline void add_duration(struct ip_call_stats *f, uint64_t ticks)
{
	if (!f->histogram.count && !f->histogram.dropped)
		f->min = f->max = ticks;
	if (ticks < f->min)
		f->min = ticks;
	if (ticks > f->max)
		f->max = ticks;
	f->sum += ticks;
	f->squares += (unsigned __int128)ticks * ticks;
	ip_histogram_add(&f->histogram, ticks);
}

/* duration goes into min to max. It may be in ticks of another clock. */
static inline __attribute__((always_inline)) void
add_call(struct ip_stats *stats, struct ip_call_stats *f, const struct ip_frame *frame,
	 uint64_t end, enum ip_frame_end how, bool outermost, uint64_t duration)
{
	f->self += frame->self;
	if (outermost || stats->chosen)
		f->total += ip_frame_ticks(frame, end);
	note_run(stats, f);
	if (__builtin_expect(frame->flags & IP_FRAME_EARLIER, 0)) {
		f->earlier++;
		return;
	}
	f->calls++;
	if (how == IP_END_UNKNOWN)
		return;
	f->tails += !!(frame->flags & (IP_FRAME_TAIL | IP_FRAME_JUMPED));
	f->until_tail += !!(frame->flags & IP_FRAME_TAIL);
	if (how != IP_END_EXIT) {
		f->unwound += how == IP_END_UNWOUND;
		f->unfinished += how == IP_END_UNFINISHED;
		if (how == IP_END_UNFINISHED && duration > f->longest_unfinished)
			f->longest_unfinished = duration;
	}
	if (how != IP_END_UNFINISHED) {
		if (frame->flags & IP_FRAME_SUSPECT)
			f->suspect++;
		else
			add_duration(f, duration);
	}
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct ip_stats *stats = context;

	if (!stats->skip)
		add_call(stats, &stats->items[frame->function], frame, end, how,
			 !(frame->flags & IP_FRAME_INNER), ip_frame_ticks(frame, end));
}

/* Adds a call that is closed, with batches. */
static void on_batched(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		       enum ip_frame_end how)
{
	struct ip_stats *stats = context;
	struct ip_call_stats *f = &stats->items[frame->function];
	uint64_t ended = f->histogram.count, ticks = ip_frame_ticks(frame, end);

	if (stats->skip)
		return;
	if (stats->scale != 1)
		ticks = (uint64_t)(ticks * stats->scale + 0.5);
	add_call(stats, f, frame, end, how, !(frame->flags & IP_FRAME_INNER), ticks);
	if (f->histogram.count == ended)
		return;
	if (!f->batches)
		f->batches = calloc(1, sizeof(*f->batches));
	if (f->batches)
		ip_batches_add(f->batches, ticks);
	else
		stats->failed = stats->failed || ip_error("out of memory");
}

/* What the calls of one run add to a function on the common path: one line of the cache. The sums
 * are those of struct ip_call_stats; they go there at the end of the run. */
struct ip_run_sums {
	uint64_t calls, self, ticks, min, max;
	uint64_t inner; /* of ticks: those of recursions */
	unsigned __int128 squares;
} __attribute__((aligned(64)));

static bool make_sums(struct ip_stats *stats)
{
	size_t n = stats->nitems;

	stats->sums = aligned_alloc(64, n * sizeof(*stats->sums));
	stats->called = calloc(n, sizeof(*stats->called));
	for (size_t i = 0; stats->sums && i < n; i++)
		stats->sums[i] = (struct ip_run_sums){.min = UINT64_MAX};
	return stats->sums && stats->called;
}

static void free_sums(struct ip_stats *stats)
{
	free(stats->sums);
	free(stats->called);
	stats->sums = NULL;
	stats->called = NULL;
}

/* Adds what the run has added up to the functions. A trace of many short threads calls few
 * functions in each: no other is looked at. */
static void add_run(struct ip_stats *stats)
{
	for (; stats->ncalled; stats->ncalled--) {
		uint32_t function = stats->called[stats->ncalled - 1];
		struct ip_run_sums *sums = &stats->sums[function];
		struct ip_call_stats *f = &stats->items[function];

		note_run(stats, f);
		if (f->histogram.count || f->histogram.dropped) {
			sums->min = f->min < sums->min ? f->min : sums->min;
			sums->max = f->max > sums->max ? f->max : sums->max;
		}
		f->calls += sums->calls;
		f->self += sums->self;
		f->total += sums->ticks - sums->inner;
		f->min = sums->min;
		f->max = sums->max;
		f->sum += sums->ticks;
		f->squares += sums->squares;
		f->histogram.count += sums->calls;
		*sums = (struct ip_run_sums){.min = UINT64_MAX};
	}
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct ip_stats *stats = context;

	add_run(stats);
	stats->run++;
	stats->thread = run;
	stats->skip = stats->tid && stats->tid != run->tid;
}

static size_t take_words(void *context, struct ip_frames *frames,
			 const struct ip_stream_words *words, uint64_t *ret_ts, uint64_t *ret_sp)
{
	struct ip_frames_call calls[IP_FRAMES_WORDS];
	struct ip_stats *stats = context;
	size_t n, taken;

	taken = ip_frames_take_words(frames, words, true, NULL, NULL, calls, &n, ret_ts, ret_sp);
	for (size_t i = 0; i < n && !stats->skip; i++) {
		const struct ip_frames_call *c = &calls[i];
		struct ip_run_sums *f = &stats->sums[c->function];
		uint64_t ticks = c->ticks;

		if (unlikely(c->flags & ~IP_FRAME_INNER)) {
			const struct ip_frame frame = {
				.self = c->self, .function = c->function, .flags = c->flags};

			add_call(stats, &stats->items[c->function], &frame, ticks, IP_END_EXIT,
				 !(c->flags & IP_FRAME_INNER), ticks);
			continue;
		}
		if (unlikely(!f->calls++))
			stats->called[stats->ncalled++] = c->function;
		f->self += c->self;
		f->ticks += ticks;
		f->inner += ticks & -(uint64_t)(c->flags & IP_FRAME_INNER);
		f->min = ticks < f->min ? ticks : f->min;
		f->max = ticks > f->max ? ticks : f->max;
		f->squares += (unsigned __int128)ticks * ticks;
		ip_histogram_put(&stats->items[c->function].histogram, ticks);
	}
	return taken;
}

static void on_orphan(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct ip_stats *stats = context;

	stats->orphans += !stats->skip && (!stats->selected || stats->selected[function]);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct ip_stats *stats = context;

	if (stats->skip)
		return;
	stats->items[function].points++;
	note_run(stats, &stats->items[function]);
}

/* With groups: a frame's tag is its group. */
#define TAG_OUTSIDE UINT32_MAX /* the frame does not count */
#define TAG_INNER   (1u << 31) /* the frame lies in another call of the group */

static void on_values(void *context, const uint64_t *payload)
{
	((struct ip_stats *)context)->payload = payload;
}

/* Makes room for a group, which may be new. */
static bool reserve(struct ip_stats *stats, uint32_t group)
{
	size_t room = stats->room ? 2 * stats->room : 64;
	struct ip_call_stats *items;
	uint32_t *open;

	if (group == IP_NO_GROUP)
		return false;
	if (group < stats->nitems)
		return true;
	if (group >= stats->room) {
		items = reallocarray(stats->items, room, sizeof(*items));
		stats->items = items ? items : stats->items;
		open = items ? reallocarray(stats->open, room, sizeof(*open)) : NULL;
		if (!open) {
			ip_error("out of memory");
			return false;
		}
		stats->open = open;
		stats->room = room;
	}
	/* group numbers grow one by one */
	stats->items[group] = (struct ip_call_stats){0};
	stats->open[group] = 0;
	stats->nitems = group + 1;
	return true;
}

static void on_group_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct ip_stats *stats = context;
	uint32_t group;

	frame->tag = TAG_OUTSIDE;
	if (stats->failed || stats->skip || (stats->selected && !stats->selected[frame->function]))
		return;
	group = ip_groups_of_call(stats->groups, stats->thread, frame, depth, stats->payload);
	if (reserve(stats, group))
		frame->tag = group | (stats->open[group]++ ? TAG_INNER : 0);
	else
		stats->failed = true;
}

static void on_group_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct ip_stats *stats = context;

	if (frame->tag != TAG_OUTSIDE)
		stats->open[frame->tag & ~TAG_INNER]--;
}

static void on_group_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct ip_stats *stats = context;

	if (frame->tag != TAG_OUTSIDE)
		stats->open[frame->tag & ~TAG_INNER]++;
}

static void on_group_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
			    enum ip_frame_end how)
{
	struct ip_stats *stats = context;
	enum ip_group_by by = stats->groups->by;
	uint32_t group = frame->tag & ~TAG_INNER;
	bool by_function = by == IP_GROUP_BY_FUNCTION || by == IP_GROUP_BY_CALLER ||
			   by == IP_GROUP_BY_CALL_SITE;
	int result = 0;
	if (frame->tag == TAG_OUTSIDE)
		return;
	stats->open[group] -= how != IP_END_UNWOUND; /* otherwise the call was left before */
	if (stats->payload && ip_frame_has_result(frame, how)) {
		result = ip_groups_of_result(stats->groups, frame, stats->payload, &group);
		if (result < 0 || (result && !reserve(stats, group))) {
			stats->failed = true;
			return;
		}
	}
	/* in a recursion it is known too late which of the calls around return the same value */
	add_call(stats, &stats->items[group], frame, end, how,
		 by_function || result ? !(frame->flags & IP_FRAME_INNER)
				       : !(frame->tag & TAG_INNER),
		 ip_frame_ticks(frame, end));
}

static void on_group_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct ip_stats *stats = context;
	uint32_t group;

	if (stats->failed || stats->skip || (stats->selected && !stats->selected[function]))
		return;
	group = ip_groups_of_point(stats->groups, stats->thread, function, stats->payload);
	if (!reserve(stats, group)) {
		stats->failed = true;
		return;
	}
	stats->items[group].points++;
	note_run(stats, &stats->items[group]);
}

/* Groups hold only calls of selected functions. */
static void sum_up(struct ip_stats *stats)
{
	for (size_t i = 0; i < stats->nitems; i++) {
		if (!stats->groups && stats->selected && !stats->selected[i])
			continue;
		stats->unwound += stats->items[i].unwound;
		stats->unfinished += stats->items[i].unfinished;
		stats->suspect += stats->items[i].suspect;
		stats->earlier += stats->items[i].earlier;
	}
}

static const struct ip_frames_ops function_ops = {
	.closed = on_closed, .orphan = on_orphan, .point = on_point};

static struct ip_stats *create(const struct ip_stats_options *options)
{
	struct ip_stats *stats = calloc(1, sizeof(*stats));

	if (stats) {
		stats->selected = options->selected;
		stats->tid = options->tid;
		stats->scale = options->scale;
		stats->chosen = ip_value_filter_is_on(options->matches);
	}
	return stats;
}

/* What is collected by function: by several threads. */
struct by_function {
	const struct ip_stats_options *options;
	size_t nfunctions;
};

static void *create_part(void *context)
{
	const struct by_function *by = context;
	struct ip_stats *stats = create(by->options);

	if (stats) {
		stats->nitems = by->nfunctions;
		stats->items = calloc(stats->nitems, sizeof(*stats->items));
		if (make_sums(stats) && stats->items)
			return stats;
	}
	ip_stats_destroy(stats);
	ip_error("out of memory");
	return NULL;
}

static int end_part(void *part)
{
	struct ip_stats *stats = part;

	add_run(stats);
	free_sums(stats);
	return stats->failed ? -1 : 0;
}

static void merge_call_stats(struct ip_call_stats *to, struct ip_call_stats *f)
{
	bool had = to->histogram.count || to->histogram.dropped;

	to->calls += f->calls;
	to->points += f->points;
	to->total += f->total;
	to->self += f->self;
	to->threads += f->threads;
	to->earlier += f->earlier;
	to->tails += f->tails;
	to->until_tail += f->until_tail;
	to->unwound += f->unwound;
	to->unfinished += f->unfinished;
	to->suspect += f->suspect;
	if (f->longest_unfinished > to->longest_unfinished)
		to->longest_unfinished = f->longest_unfinished;
	if (!f->histogram.count && !f->histogram.dropped)
		return;
	to->min = had && to->min < f->min ? to->min : f->min;
	to->max = had && to->max > f->max ? to->max : f->max;
	to->sum += f->sum;
	to->squares += f->squares;
	ip_histogram_merge(&to->histogram, &f->histogram);
}

/* Runs of different parts are different ones. */
static int merge_part(void *first, void *part)
{
	struct ip_stats *to = first, *stats = part;

	for (size_t i = 0; i < to->nitems; i++)
		if (stats->items[i].calls || stats->items[i].points || stats->items[i].earlier)
			merge_call_stats(&to->items[i], &stats->items[i]);
	to->orphans += stats->orphans;
	return 0;
}

static void destroy_part(void *part)
{
	ip_stats_destroy(part);
}

/* The functions of a large program take megabytes, but few of them have histograms. */
static void *copy_part(void *part)
{
	struct ip_stats *stats = part, *copy = malloc(sizeof(*copy));
	bool failed = false;

	if (!copy)
		return NULL;
	add_run(stats);
	*copy = *stats;
	copy->sums = NULL;
	copy->called = NULL;
	copy->items = malloc(copy->nitems * sizeof(*copy->items));
	for (size_t i = 0; copy->items && i < copy->nitems; i++) {
		copy->items[i] = stats->items[i];
		copy->items[i].histogram = (struct ip_histogram){0};
		failed |= stats->items[i].calls &&
			  ip_histogram_copy(&copy->items[i].histogram, &stats->items[i].histogram) <
				  0;
	}
	if (copy->items && !failed)
		return copy;
	ip_stats_destroy(copy);
	return NULL;
}

static void complete(void *part, uint64_t events)
{
	struct ip_stats *stats = part;

	stats->events = events;
	sum_up(stats);
}

static int collect_by_function(struct ip_trace_reader *trace,
			       const struct ip_stats_options *options, struct ip_stats **ret)
{
	struct by_function by = {options, trace->session->nfunctions};
	const struct ip_trace_parts parts = {
		.create = create_part,
		.end = end_part,
		.merge = merge_part,
		.destroy = destroy_part,
		.copy = copy_part,
		.complete = complete,
		.visitor = {.ops = &function_ops, .words = take_words, .run = on_run},
		.context = &by,
		.size = by.nfunctions * (sizeof(struct ip_call_stats) + sizeof(struct ip_run_sums) +
					 sizeof(uint32_t))};
	void *part;
	uint64_t events;

	if (ip_trace_reader_visit_parts(trace, &parts, &part, &events) < 0)
		return -1;
	*ret = part;
	return 0;
}

/* chosen NULL: values are not chosen. */
static int collect(struct ip_trace_reader *trace, const struct ip_stats_options *options,
		   const struct ip_value_choice *chosen, struct ip_stats **ret)
{
	static const struct ip_frames_ops batched = {
		.closed = on_batched, .orphan = on_orphan, .point = on_point};
	const bool chosen_by_values = ip_value_filter_is_on(options->matches);
	static const struct ip_frames_ops groups = {.opened = on_group_opened,
						    .left = on_group_left,
						    .resumed = on_group_resumed,
						    .closed = on_group_closed,
						    .orphan = on_orphan,
						    .point = on_group_point,
						    .values = on_values};
	bool grouped = options->by != IP_GROUP_BY_FUNCTION || options->per_process;
	struct ip_trace_visitor visitor = {.ops = grouped	     ? &groups
						  : options->batches ? &batched
								     : &function_ops,
					   .run = on_run};
	struct ip_stats *stats;

	if (!grouped && !options->batches && !chosen_by_values)
		return collect_by_function(trace, options, ret);
	stats = create(options);
	if (!stats)
		return ip_error("out of memory");
	visitor.context = stats;
	if (!grouped) {
		stats->nitems = trace->session->nfunctions;
		stats->items = calloc(stats->nitems, sizeof(*stats->items));
		stats->failed = !stats->items && ip_error("out of memory");
	} else {
		stats->groups = ip_groups_create(trace, options->by, options->value);
		stats->failed = !stats->groups;
		if (stats->groups)
			stats->groups->per_process = options->per_process;
		if (chosen && stats->groups)
			stats->groups->values->chosen = chosen;
	}
	if (stats->failed ||
	    ip_value_filter_visit(trace, &visitor, options->matches, &stats->events) < 0 ||
	    stats->failed) {
		ip_stats_destroy(stats);
		return -1;
	}
	sum_up(stats);
	*ret = stats;
	return 0;
}

int ip_stats_collect(struct ip_trace_reader *trace, const struct ip_stats_options *options,
		     struct ip_stats **ret)
{
	struct ip_stats *stats;
	struct ip_value_choice *chosen = NULL;
	int done = collect(trace, options, NULL, &stats);

	if (done < 0)
		return -1;
	if (!stats->groups || !stats->groups->values || !stats->groups->values->others ||
	    options->order == IP_VALUES_AS_RECORDED ||
	    (trace->progress && trace->progress->stopped)) {
		*ret = stats;
		return 0;
	}
	/* too many values: those that come first in the trace are not the wanted ones */
	done = ip_value_choice_find(trace, stats->groups->values, options->selected, options->tid,
				    options->matches, options->order, &chosen);
	if (done == 0 && trace->progress && trace->progress->stopped) {
		*ret = stats; /* what was read at first is whole */
		ip_value_choice_destroy(chosen);
		return 0;
	}
	ip_stats_destroy(stats);
	if (done == 0)
		done = collect(trace, options, chosen, ret);
	if (done == 0)
		(*ret)->groups->values->chosen = NULL;
	ip_value_choice_destroy(chosen);
	return done;
}

void ip_stats_destroy(struct ip_stats *stats)
{
	if (!stats)
		return;
	add_run(stats); /* after a failure: a function's histogram is freed where it has calls */
	for (size_t i = 0; stats->items && i < stats->nitems; i++)
		if (stats->items[i].calls) {
			ip_histogram_deinit(&stats->items[i].histogram);
			free(stats->items[i].batches);
		}
	ip_groups_destroy(stats->groups);
	free(stats->items);
	free(stats->open);
	free_sums(stats);
	free(stats);
}

static uint64_t percentile(const struct ip_recording *s, const struct ip_call_stats *f,
			   double share)
{
	return ip_recording_ns(s, ip_histogram_percentile(&f->histogram, share, f->min, f->max));
}

void ip_stats_summarize(const struct ip_recording *s, const struct ip_call_stats *f,
			struct ip_stats_summary *ret)
{
	uint64_t n = f->histogram.count + f->histogram.dropped, mean;
	unsigned __int128 rest, squares;
	double variance;

	*ret = (struct ip_stats_summary){.total = ip_recording_ns(s, f->total),
					 .self = ip_recording_ns(s, f->self)};
	if (n == 0)
		return;
	mean = f->sum / n;
	rest = f->sum % n;
	/* the squares of the distances to mean, which is rounded down */
	squares = f->squares - mean * (f->sum + rest);
	/* exact as long as it fits */
	if (squares < ~(unsigned __int128)0 / n)
		variance = (double)(squares * n - rest * rest) / n / n;
	else
		variance = (double)squares / n - ((double)rest / n) * ((double)rest / n);
	ret->stddev = variance > 0 ? sqrt(variance) * 1e9 / s->tsc_hz : 0;
	ret->min = ip_recording_ns(s, f->min);
	ret->max = ip_recording_ns(s, f->max);
	ret->avg = ip_recording_ns(s, mean + (rest >= n - rest));
	if (ret->avg < ret->min)
		ret->avg = ret->min;
	if (ret->avg > ret->max)
		ret->avg = ret->max;
	ret->p50 = percentile(s, f, 0.5);
	ret->p90 = percentile(s, f, 0.9);
	ret->p99 = percentile(s, f, 0.99);
	ret->p999 = percentile(s, f, 0.999);
}
