/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the histograms of a trace.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/filter/filter_check.h"
#include "cli/hist/hist.h"
#include "cli/screen/reading_screen.h"
#include "cli/trace_args.h"

#include "analysis/profile/trace_counts.h"

int cli_hist_open(const char *dir, const struct cli_hist_options *o,
		  struct cli_reading_screen *screen, struct cli_hist_trace *t)
{
	int ret = cli_reading_screen_open(screen, dir, o->filter.process, &t->reader);

	if (ret < 0)
		return -1;
	cli_reader_use_jobs(t->reader, o->filter.jobs);
	t->selected = cli_reader_select(t->reader, o->filter.functions);
	t->names = ip_names_create(t->reader->session);
	if (t->names && o->filter.full_names)
		ip_names_use_full(t->names);
	if (!t->selected || !t->names || ip_counts_of_trace(t->reader, &t->counts) < 0)
		return -1;
	t->hist = (struct cli_hist){.dir = dir,
				    .session = t->reader->session,
				    .lost = t->reader->lost,
				    .names = t->names,
				    .counts = t->counts,
				    .by = o->by,
				    .interval_ns = o->interval_ns};
	/* measured calls belong to threads that are not known: cli_hist_order() tells that */
	if (!cli_hist_any_measured(&t->hist))
		ret = cli_filter_check(t->reader, &o->filter);
	if (ret == 0 && o->filter.tid)
		ret = ip_tree_threads_create(t->reader, false, &t->threads);
	t->hist.threads = t->threads;
	return ret;
}

int cli_hist_collect(struct cli_hist_trace *t, struct cli_hist_options *o,
		     const struct ip_latency_slices *slices, bool durations)
{
	const struct ip_latency_options wanted = {.selected = t->selected,
						  .tid = o->filter.tid,
						  .slices = *slices,
						  .durations = durations,
						  .matches = &o->filter.matches};
	int ret = ip_value_matches_find(&o->filter.matches, t->reader->session, t->hist.dir);

	if (ret == 0)
		ret = o->by ? ip_latencies_collect_by_value(t->reader, &wanted,
							    o->by + strlen(CLI_HIST_BY),
							    &t->latencies)
			    : ip_latencies_collect(t->reader, &wanted, &t->latencies);
	t->hist.latencies = t->latencies;
	return ret;
}

void cli_hist_close(struct cli_hist_trace *t)
{
	free(t->hist.order);
	free(t->selected);
	ip_latencies_destroy(t->latencies);
	ip_counts_destroy(t->counts);
	ip_tree_threads_destroy(t->threads);
	ip_names_destroy(t->names);
	ip_trace_reader_close(t->reader);
}
