/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's results.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "fperf/formula.h"
#include "fperf/fperf_private.h"
#include "hotpatcher/ptrace/stop.h"

static uint64_t end_of(const struct ip_fperf *f)
{
	return f->end_ns ? f->end_ns : ip_now_ns();
}

/* If hooks took more than this share of the time, the call rate without them is not known. */
#define MOST_HOOKS 0.5

/* Computes the calls that were counted, and the calls to be expected for the time in which they
 * were not counted. */
static void estimate_calls(const struct ip_fperf *f, const struct ip_fperf_function *fn,
			   struct ip_fperf_row *row)
{
	uint64_t end = end_of(f), placed = end - fn->placed_ns,
		 live = fn->live_ns + (fn->out ? 0 : end - fn->since_ns);
	/* How often the function would have been called without probes is known only as well as
	 * what the hooks took of the time in which it was counted. */
	double hooks = fn->live_cpu_s > 0 ? (1 - fn->live_s / fn->live_cpu_s) / IP_FPERF_LIKELY : 1,
	       missed;

	row->counted = fn->now.calls;
	row->live = placed ? (double)live / placed : 1;
	if (!fn->out && !fn->live_ns) {
		row->live = 1;
		row->calls = fn->now.calls;
		row->calls_ci = 0;
	} else {
		missed = ip_fperf_missed(&fn->gaps, ip_fperf_undisturbed(f), &row->calls_ci);
		row->calls = fn->now.calls + missed;
		if (row->calls_ci >= 0)
			row->calls_ci =
				hooks < MOST_HOOKS ? hypot(row->calls_ci, missed * hooks) : -1;
	}
	/* remap_gap.c, 3 */
	row->calls += fn->bare_calls;
	if (row->calls_ci >= 0)
		row->calls_ci = hypot(row->calls_ci, 2 * sqrt(fn->bare_squares));
}

void ip_fperf_divide(const struct ip_fperf *f, struct ip_fperf_function *fn)
{
	const struct ip_fperf_sums *now = &fn->now, *before = &fn->divided;
	uint64_t now_ns = f->end_ns ? f->end_ns : ip_now_ns();
	bool first = !fn->strata.samples && f->options.budget >= 0;
	double ci, missed = ip_fperf_missed(&fn->gaps, ip_fperf_undisturbed(f), &ci),
		   missed_now = 0;
	struct ip_stratum stretch = {.calls = now->calls - before->calls,
				     .n = now->ended - before->ended};

	double seconds = (now_ns - fn->divided_ns) / 1e9, ran = ip_fperf_undisturbed(f),
	       cpu_s = ran - fn->divided_s;

	fn->divided_ns = now_ns;
	fn->divided_s = ran;
	/* A thread was killed while it changed its cell, or the target has written into the
	 * cells. */
	if (now->calls < before->calls || now->ended < before->ended) {
		fn->divided = *now;
		return;
	}
	/* The calls in gaps are known better when the gaps are over: their number may become
	 * smaller. */
	if (missed > fn->divided_missed) {
		missed_now = missed - fn->divided_missed;
		fn->divided_missed = missed;
	}
	for (unsigned e = 0; e < f->options.nevents; e++) {
		stretch.sum[e] = now->sum[e] - before->sum[e];
		stretch.squares[e] = now->square[e] - before->square[e];
		stretch.missing[e] = now->missing[e] - before->missing[e];
	}
	/* While other processes have the CPU, the function's rate does not change: time is CPU time
	 * of the process. */
	ip_stratum_divide(&stretch, fn->every, fn->used_up, fn->sampled_s, seconds,
			  cpu_s > 0 ? cpu_s : 0);
	if (missed_now > 0) {
		stretch.rest += missed_now;
		/* it had no probes for most of the stretch */
		stretch.rest_s += stretch.calls_s;
		stretch.calls_s = 0;
	}
	fn->measured |= stretch.n > 0;
	if (stretch.n || stretch.calls + stretch.rest > 0)
		ip_strata_add(&fn->strata, f->options.nevents, &stretch, first && stretch.n);
	fn->divided = *now;
}

/* Returns what one more thing adds to the sum of an event's counters. 0: the event is not a
 * count. */
static double one_of(const struct ip_fperf_event *event)
{
	double one = event->ncounters ? 0 : 1;

	if (*event->unit)
		return 0;
	for (unsigned i = 0; i < event->ncounters; i++)
		one = abs(event->counters[i].weight) > one ? abs(event->counters[i].weight) : one;
	return one;
}

/* Computes a formula from the means of its parts. */
static double follow(const struct ip_fperf *f, const struct ip_fperf_function *fn,
		     const struct ip_fperf_event *event, double *ret_ci)
{
	double means[IP_PMU_COUNTERS], ci[IP_PMU_COUNTERS];

	for (unsigned i = 0; i < IP_PMU_COUNTERS; i++) {
		int part = i < event->nparts
				   ? ip_fperf_events_find(f->options.events, f->options.nevents,
							  event->parts[i]->name)
				   : -1;

		means[i] = NAN;
		ci[i] = -1;
		if (part >= 0)
			means[i] = ip_fperf_value(f, fn, part, &ci[i]);
	}
	return ip_formula_value(event->formula, means, ci, ret_ci);
}

/* Returns whether each call that there was is in the sums: then nothing is estimated. */
static bool has_measured_all(const struct ip_fperf_function *fn, unsigned e)
{
	return fn->now.ended > 1 && fn->now.ended == fn->now.calls && !fn->now.missing[e] &&
	       !fn->now.scaled[e] && !fn->out && !fn->live_ns && !fn->bare_calls;
}

double ip_fperf_value(const struct ip_fperf *f, const struct ip_fperf_function *fn, unsigned e,
		      double *ret_ci)
{
	const struct ip_fperf_event *event = f->options.events[e];
	double mean, divisor = event->divisor ? event->divisor : 1;

	if (event->formula)
		return follow(f, fn, event, ret_ci);
	*ret_ci = 0;
	if (has_measured_all(fn, e))
		mean = fn->now.sum[e] / fn->now.ended;
	else
		mean = ip_strata_mean(&fn->strata, e, one_of(event), ret_ci);
	if (*ret_ci > 0)
		*ret_ci /= divisor;
	return mean / divisor;
}

static int by_total(const void *a, const void *b)
{
	const struct ip_fperf_row *x = a, *y = b;

	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return strcmp(x->function, y->function);
}

/* Returns the number of samples with a value of the event. */
static uint64_t valued(const struct ip_fperf_sums *s, unsigned event)
{
	return s->ended > s->missing[event] ? s->ended - s->missing[event] : 0;
}

const char *ip_fperf_event_of_counter(const struct ip_fperf_options *o, unsigned counter)
{
	for (unsigned e = 0; e < o->nevents; e++) {
		if (counter < o->events[e]->ncounters)
			return o->events[e]->name;
		counter -= o->events[e]->ncounters;
	}
	return NULL;
}

/* A formula has a value only if all of its parts have one. */
static void note_parts(const struct ip_fperf *f, struct ip_fperf_row *row)
{
	const struct ip_fperf_options *o = &f->options;

	for (unsigned e = 0; e < o->nevents; e++)
		for (unsigned i = 0; i < o->events[e]->nparts; i++) {
			int part = ip_fperf_events_find(o->events, o->nevents,
							o->events[e]->parts[i]->name);

			if (part >= 0 && row->missing[part] > row->missing[e])
				row->missing[e] = row->missing[part];
			if (part >= 0 && row->scaled[part] > row->scaled[e])
				row->scaled[e] = row->scaled[part];
		}
}

/* Returns how far a time may be off, in its unit. The time for the way between hook and function is
 * subtracted (runtime/fperf.c). But the processor may do this way in parallel with the rest of the
 * function, or not: this is not known. This error is the same in all samples. */
static double unsure(const struct ip_fperf *f, const struct ip_fperf_spent *spent, unsigned e)
{
	switch (f->options.events[e]->source) {
	case IP_FPERF_TSC:
		return spent->path;
	case IP_FPERF_TASK_CLOCK:
		return spent->path * f->ns_per_tick;
	default:
		return 0;
	}
}

#define MOST_CUT 0.1 /* share of its samples */

static bool is_within(double ci, double value)
{
	return ci >= 0 && ci <= IP_FPERF_MOST_WIDTH * value;
}

/*
 * Returns whether the figures are meaningful, or more samples are needed first. The first event
 * that has values decides for all: the rows are sorted by it. The error of clocks and hooks stays
 * however many samples there are. So an interval that is hardly wider than this error is good
 * enough. The width for a count of what hardly ever happens is a number of things, and not a share
 * of its mean. If samples were cut, the remaining samples may be of the shorter calls.
 */
static bool is_known(const struct ip_fperf *f, const struct ip_fperf_function *fn,
		     const struct ip_fperf_row *row, const struct ip_fperf_spent *spent)
{
	if (!is_within(row->calls_ci, row->calls) || row->cut > MOST_CUT * row->samples)
		return false;
	for (unsigned e = 0; e < f->options.nevents; e++) {
		double mean = fabs(row->mean[e]), doubt = unsure(f, spent, e);

		if (row->samples <= row->missing[e])
			continue;
		if (!*f->options.events[e]->unit && mean < 1)
			mean = 1;
		return is_within(row->ci[e], mean) || is_within(row->ci[e], 4 * doubt);
	}
	return fn->entry_only; /* none of its calls can be a sample */
}

struct ip_fperf_row *ip_fperf_rows(struct ip_fperf *f, size_t *ret_n)
{
	struct ip_fperf_spent spent = f->area ? ip_fperf_spent(f) : f->ended;
	struct ip_fperf_row *rows = calloc(f->nfunctions + 1, sizeof(*rows));
	size_t n = 0;

	if (!rows) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < f->nfunctions; i++) {
		/* What has come since the last stretch is a stretch by itself, but only in the
		 * copy: the function goes on. */
		struct ip_fperf_function copy = f->functions[i], *fn = &copy;
		struct ip_fperf_row *row = &rows[n];

		if (fn->hidden || (!fn->now.calls && !fn->now.ended))
			continue;
		*row = (struct ip_fperf_row){
			.function = fn->name,
			.bare_name = fn->bare_name,
			.mangled = fn->mangled,
			.module = fn->module,
			.samples = fn->now.ended,
			.cut = fn->now.cut,
			/* an exclusive sample is complete up to the jump */
			.until_tail = fn->tails && !f->options.exclusive ? fn->now.tailed : 0};
		estimate_calls(f, fn, row);
		ip_fperf_divide(f, fn);
		for (unsigned e = 0; e < f->options.nevents; e++) {
			row->mean[e] = ip_fperf_value(f, fn, e, &row->ci[e]);
			if (row->ci[e] >= 0)
				row->ci[e] += unsure(f, &spent, e);
		}
		memcpy(row->missing, fn->now.missing, sizeof(row->missing));
		memcpy(row->scaled, fn->now.scaled, sizeof(row->scaled));
		note_parts(f, row);
		row->known = is_known(f, fn, row, &spent);
		row->total = valued(&fn->now, 0) ? row->mean[0] * row->calls : 0;
		n++;
	}
	qsort(rows, n, sizeof(*rows), by_total);
	*ret_n = n;
	return rows;
}

void ip_fperf_summary(struct ip_fperf *f, struct ip_fperf_summary *ret)
{
	*ret = (struct ip_fperf_summary){.changes = f->changes,
					 .changes_without_stop = f->changes_remapped,
					 .longest_stop_ns = f->longest_stop_ns,
					 .longest_gap_ns = f->longest_gap_ns,
					 .changes_failed = f->changes_failed,
					 .change_failure = f->changes_failed ? f->failure : NULL};
	ret->run_s = f->cpu_ns / 1e9;
	ret->own_s = f->own_s;
	ret->confined = f->confined;
	ret->overhead = f->cpu_ns ? f->spent_ns / f->cpu_ns : 0;
	ret->stops_share = f->cpu_ns ? f->stops_ns / f->cpu_ns : 0;
	ret->length_s = f->start_ns ? (end_of(f) - f->start_ns) / 1e9 : 0;
	ret->left_out = f->ended.crowded + f->ended.reentered;
	ret->ns_per_tick = f->ns_per_tick;
	ret->gone = f->ended.gone;
	ret->counting = f->ended.counting;
	ret->refused = f->ended.refused;
	ret->refused_error = f->ended.refused_error;
	ret->refused_event =
		f->ended.refused ? ip_fperf_event_of_counter(&f->options, f->ended.refused_counter)
				 : NULL;
	for (size_t i = 0; i < f->nfunctions; i++) {
		if (f->functions[i].hidden)
			continue;
		ret->functions++;
		ret->samples += f->functions[i].now.ended;
		ret->called += f->functions[i].now.calls > 0;
		ret->sampled += f->functions[i].now.ended > 0;
		for (unsigned e = 0; e < f->options.nevents; e++) {
			ret->missing += f->functions[i].now.missing[e];
			ret->scaled += f->functions[i].now.scaled[e];
		}
	}
}
