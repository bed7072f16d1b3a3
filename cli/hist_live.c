/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows histograms of a session that goes on. The session's iprobe is asked to write them into
 * its trace, where this command reads them. The target is neither stopped nor read.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/hist.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/print.h"

static int show(int pid, const char *dir, const struct cli_hist_options *o)
{
	struct ip_trace_reader trace = {.dir = (char *)dir}; /* streams are not read */
	struct cli_hist h = {.dir = dir, .pid = pid};
	struct ip_names *names = NULL;
	struct ip_counts *counts = NULL;
	_cleanup_free_ bool *selected = NULL;
	int ret = ip_recording_load(dir, &trace.session);

	if (ret == 0) {
		h.session = trace.session;
		selected = cli_reader_select(&trace, o->filter.functions);
		h.names = names = ip_names_create(trace.session);
		if (names && o->filter.full_names)
			ip_names_use_full(names);
		ret = selected && names ? ip_counts_load(dir, trace.session, &counts) : -1;
		h.counts = counts;
	}
	if (ret == 0)
		ret = cli_hist_order(&h, selected, o->filter.limit);
	if (ret == 0) {
		if (o->json)
			cli_hist_json(&h);
		else
			ret = cli_hist_text(&h);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	free(h.order);
	ip_counts_destroy(counts);
	ip_names_destroy(names);
	ip_recording_destroy(trace.session);
	return ret;
}

/* The first output must succeed. After it the session may end, and that is no error. */
int cli_hist_live(int pid, const struct cli_hist_options *o)
{
	const struct timespec nap = {.tv_sec = o->interval_ns / 1000000000,
				     .tv_nsec = o->interval_ns % 1000000000};
	bool terminal = isatty(STDOUT_FILENO);

	cli_catch_signals();
	for (unsigned i = 0;; i++) {
		_cleanup_free_ char *dir = NULL;

		if (ip_session_ask_counts(pid, &dir) < 0)
			return i ? 0 : -1;
		if (i && !o->json && terminal)
			ip_print(stdout, "\033[H\033[J");
		else if (i && !o->json)
			ip_print(stdout, "\n");
		if (show(pid, dir, o) < 0)
			return -1;
		if (!o->interval_ns || ip_interrupted)
			return 0;
		nanosleep(&nap, NULL);
		if (ip_interrupted)
			return 0;
	}
}
