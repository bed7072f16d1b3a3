/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's results.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "hotpatcher/fperf_internal.h"
#include "hotpatcher/stop.h"

static uint64_t end_of(const struct ip_fperf *f)
{
	return f->end_ns ? f->end_ns : ip_now_ns();
}

/* Calls that were counted, and what is to be expected of the time in which nobody did. */
static void estimate_calls(const struct ip_fperf *f, const struct ip_fperf_function *fn,
			   struct ip_fperf_row *row)
{
	uint64_t end = end_of(f), placed = end - fn->placed_ns,
		 live = fn->live_ns + (fn->out ? 0 : end - fn->since_ns);

	row->counted = fn->now.calls;
	row->live = placed ? (double)live / placed : 1;
	if (!fn->out && !fn->live_ns) {
		row->live = 1;
		row->calls = fn->now.calls;
		row->calls_ci = 0;
		return;
	}
	row->calls = fn->now.calls + ip_fperf_missed(&fn->gaps, ip_fperf_undisturbed(f), &row->calls_ci);
}

static int by_total(const void *a, const void *b)
{
	const struct ip_fperf_row *x = a, *y = b;

	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return strcmp(x->function, y->function);
}

/* Samples with a value of the event. */
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

struct ip_fperf_row *ip_fperf_rows(struct ip_fperf *f, size_t *ret_n)
{
	struct ip_fperf_row *rows = calloc(f->nfunctions + 1, sizeof(*rows));
	size_t n = 0;

	if (!rows) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < f->nfunctions; i++) {
		const struct ip_fperf_function *fn = &f->functions[i];
		struct ip_fperf_row *row = &rows[n];

		if (!fn->now.calls && !fn->now.ended)
			continue;
		*row = (struct ip_fperf_row){.function = fn->name,
					     .module = fn->module,
					     .samples = fn->now.ended,
					     .cut = fn->now.cut};
		estimate_calls(f, fn, row);
		for (unsigned e = 0; e < f->options.nevents; e++)
			row->mean[e] = ip_fperf_mean(valued(&fn->now, e), fn->now.sum[e], fn->now.square[e],
						     &row->ci[e]);
		memcpy(row->missing, fn->now.missing, sizeof(row->missing));
		memcpy(row->scaled, fn->now.scaled, sizeof(row->scaled));
		row->total = valued(&fn->now, 0) ? row->mean[0] * row->calls : 0;
		n++;
	}
	qsort(rows, n, sizeof(*rows), by_total);
	*ret_n = n;
	return rows;
}

void ip_fperf_summary(struct ip_fperf *f, struct ip_fperf_summary *ret)
{
	*ret = (struct ip_fperf_summary){.functions = f->nfunctions, .changes = f->changes};
	ret->run_s = f->cpu_ns / 1e9;
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
		f->ended.refused ? ip_fperf_event_of_counter(&f->options, f->ended.refused_counter) : NULL;
	for (size_t i = 0; i < f->nfunctions; i++) {
		ret->samples += f->functions[i].now.ended;
		ret->called += f->functions[i].now.calls > 0;
		ret->sampled += f->functions[i].now.ended > 0;
		for (unsigned e = 0; e < f->options.nevents; e++) {
			ret->missing += f->functions[i].now.missing[e];
			ret->scaled += f->functions[i].now.scaled[e];
		}
	}
}
