/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that read traces say where nothing is left of a trace.
 */
#include "cli/filter/filter_check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/selection/selection.h"
#include "common/units.h"

/* So many threads are named. */
#define THREADS_SHOWN 8u

/* When the recording began and ended, in ns since its start. */
struct lasting {
	uint64_t from_ns, to_ns;
};

static struct lasting lasting_of(const struct ip_trace_reader *trace)
{
	uint64_t end = trace->end;

	/* clocks of processors differ: a last event may lie behind the end */
	for (size_t i = 0; i < trace->nruns; i++)
		if (trace->runs[i].end > end)
			end = trace->runs[i].end;
	return (struct lasting){ip_recording_since_start(trace->session, trace->begin),
				ip_recording_since_start(trace->session, end)};
}

static int by_number(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Lists the threads for people: "4711 (nginx), 4712". NULL: out of memory. */
static char *list_threads(const struct ip_trace_reader *trace)
{
	_cleanup_free_ uint32_t *tids = calloc(trace->nruns + 1, sizeof(*tids));
	size_t n = 0, shown = 0, size;
	char *text = NULL;
	FILE *out = tids ? open_memstream(&text, &size) : NULL;

	for (size_t i = 0; out && i < trace->nruns; i++)
		if (!trace->runs[i].off)
			tids[n++] = trace->runs[i].tid;
	if (out)
		qsort(tids, n, sizeof(*tids), by_number);
	for (size_t i = 0; out && i < n; i++) {
		if (i && tids[i] == tids[i - 1])
			continue;
		if (shown++ < THREADS_SHOWN)
			ip_print(out, "%s%u", shown > 1 ? ", " : "", tids[i]);
	}
	if (shown > THREADS_SHOWN)
		ip_print(out, " and %zu more", shown - THREADS_SHOWN);
	return out ? ip_print_end_text(out, &text) : NULL;
}

static int check_thread(const struct ip_trace_reader *trace, uint32_t tid)
{
	_cleanup_free_ char *there = NULL;

	for (size_t i = 0; i < trace->nruns; i++)
		if (!trace->runs[i].off && trace->runs[i].tid == tid)
			return 0;
	there = list_threads(trace);
	if (!there)
		return ip_error("out of memory");
	if (!*there)
		return ip_error("%s: no events of a thread %u, nor of any other", trace->dir, tid);
	return ip_error("%s: no events of a thread %u; its threads are %s", trace->dir, tid, there);
}

static int check_time(const struct ip_trace_reader *trace, const struct cli_filter *f)
{
	const struct lasting lasting = lasting_of(trace);
	char wanted[16], from[16], to[16];
	const bool behind = f->from_ns > lasting.to_ns;

	if (!behind && f->to_ns >= lasting.from_ns)
		return 0;
	return ip_error("%s: no events %s %s: the recording lasts from %s to %s", trace->dir,
			behind ? "from" : "up to",
			ip_format_ns(behind ? f->from_ns : f->to_ns, wanted),
			ip_format_ns(lasting.from_ns, from), ip_format_ns(lasting.to_ns, to));
}

int cli_filter_check(const struct ip_trace_reader *trace, const struct cli_filter *filter)
{
	if (filter->tid && check_thread(trace, filter->tid) < 0)
		return -1;
	return check_time(trace, filter);
}

int cli_filter_check_pid(const struct ip_trace_reader *trace, int pid)
{
	for (size_t i = 0; i < trace->nruns && pid; i++)
		if (!trace->runs[i].off && trace->runs[i].pid == (uint32_t)pid)
			return 0;
	return pid ? ip_error("%s: no events of a process %d (iprobe report --by process shows "
			      "which there are)",
			      trace->dir, pid)
		   : 0;
}

/* Returns the one function that the selection chooses, if all of the chosen ones are in the trace
 * only because recorded functions end by jumping to them: such calls have no rows. Several: the
 * first. NULL: there is another one, or it cannot be told. */
static const char *only_jumped_to(const struct ip_trace_reader *trace, const char *functions)
{
	const struct ip_recording *s = trace->session;
	struct ip_selection *selection;
	_cleanup_free_ bool *selected = NULL;
	const char *name = NULL;
	size_t n, silent = 0;

	if (!functions || ip_selection_parse(functions, &selection) < 0)
		return NULL;
	selected = cli_match_functions(s, selection, &n);
	ip_selection_destroy(selection);
	if (!selected)
		return NULL;
	for (size_t i = 0; i < s->nnumbers; i++) {
		const struct ip_recording_number *number = &s->numbers[i];

		if (!number->function || !selected[number->function])
			continue;
		if (!number->silent)
			return NULL;
		silent++;
		name = name ? name : s->functions[number->function].linker_name;
	}
	return silent ? name : NULL;
}

void cli_filter_warn_none(const struct ip_trace_reader *trace, const struct cli_filter *filter,
			  uint64_t events)
{
	const struct ip_value_matches *matches = &filter->matches;
	const struct lasting lasting = lasting_of(trace);
	_cleanup_free_ char *shown = NULL;
	char count[32], from[16], to[16];
	const char *name;

	if (!events)
		return;
	name = only_jumped_to(trace, filter->functions);
	shown = name ? ip_demangle(name, false) : NULL;
	if (shown) {
		ip_print(stderr,
			 "iprobe: %s: calls of %s were not recorded; it is in the trace only to "
			 "know where recorded functions return that end by jumping to it (a tail "
			 "call): record it, too (-f)\n",
			 trace->dir, shown);
		return;
	}
	ip_print(stderr, "iprobe: %s: the options choose none of %s event%s", trace->dir,
		 ip_format_count(events, count), events == 1 ? "" : "s");
	if (filter->from_ns || filter->to_ns < UINT64_MAX)
		ip_print(stderr, "; the recording lasts from %s to %s",
			 ip_format_ns(lasting.from_ns, from), ip_format_ns(lasting.to_ns, to));
	for (unsigned i = 0; i < matches->n; i++)
		ip_print(stderr, "%s'%s'", i ? " and " : "; nothing meets ",
			 matches->items[i].whole);
	if (matches->n)
		ip_print(stderr, " (iprobe report --by 'value:%s' shows which values there are)\n",
			 matches->items[0].name);
	else
		ip_print(stderr, " (iprobe report shows what was called)\n");
}

void cli_filter_warn_no_calls(const struct ip_trace_reader *trace, const struct cli_filter *filter,
			      uint64_t events, uint64_t points)
{
	char count[32];

	if (points)
		ip_print(
			stderr,
			"iprobe: %s: the options choose %s point%s and no calls: points have no "
			"time; iprobe dump shows them, iprobe report --by value:NAME counts them\n",
			trace->dir, ip_format_count(points, count), points == 1 ? "" : "s");
	else
		cli_filter_warn_none(trace, filter, events);
}
