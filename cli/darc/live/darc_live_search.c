/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches what the rings of a live search held at a moment.
 */
#include <string.h>

#include "cli/darc/live/darc_live_private.h"
#include "common/cleanup.h"
#include "common/interrupted.h"
#include "common/selection/selection.h"
#include "fperf/recording_budget.h"

/* When the functions that are live were chosen last. That a budget takes all out for a while, and
 * in again, is no choice; meanwhile a choice needs no stop. */
static uint64_t last_change(const struct cli_darc_live_search *l, const struct ip_recording *s)
{
	const struct ip_clock_reading *changed = &l->session.changed;
	uint64_t last = s->monotonic ? changed->raw_ns : changed->tsc;

	for (size_t i = 0; i < s->nstops; i++) {
		const uint64_t end = s->stops[i].tsc + (uint64_t)((double)s->stops[i].duration_ns *
								  (double)s->tsc_hz / 1e9);

		if (strcmp(s->stops[i].kind, IP_BUDGET_STOP) != 0)
			last = end > last ? end : last;
	}
	return last;
}

/* From when on no call of any thread was overwritten: what an operation waits for may be one. */
static uint64_t whole_since(const struct ip_trace_reader *trace)
{
	const uint64_t end = ip_trace_reader_last_moment(trace), kept = ip_trace_reader_kept(trace);

	return end > kept ? end - kept : 0;
}

int cli_darc_live_search_moment(struct cli_darc_live_search *l, struct cli_darc_trace *seen,
				bool strict)
{
	const struct cli_darc_live_options *o = l->options;
	_cleanup_free_ char *f0 = l->f0 ? ip_selection_quote(l->f0, strlen(l->f0)) : NULL;
	struct ip_darc_options search = l->search;
	int ret;

	if ((l->f0 && !f0) || cli_darc_find_function(seen, "-f", f0 ? f0 : o->session.functions,
						     &search.function) < 0)
		return -1;
	search.since = last_change(l, seen->trace->session);
	if (l->level && o->handovers->n) {
		const uint64_t whole = whole_since(seen->trace);

		search.since = search.since > whole ? search.since : whole;
		if (cli_darc_handovers_find(o->handovers, seen, &search) < 0)
			return -1;
	}
	search.places = seen->places;
	search.depth = l->level;
	search.profile = l->level ? &l->profile.search : NULL;
	search.keeps_chance = !strict;
	/* few calls do not tell how frequent a cause is */
	search.maxcount_percent /= strict ? 1 : 2;
	ret = ip_darc_search(seen->trace, seen->waits, &search, &seen->search);
	/* the rules are those of the last search only */
	seen->search.options.handovers = NULL;
	seen->search.options.nhandovers = 0;
	return ret;
}

int cli_darc_live_conclude(struct cli_darc_live_search *l)
{
	const int signal_number = ip_interrupted;
	int ret;

	if (!l->level || !l->moment.trace)
		return 0;
	ip_darc_search_clear(&l->moment.search);
	/* the signal that has ended the search does not end this: another one does */
	ip_interrupted = 0;
	ret = cli_darc_live_search_moment(l, &l->moment, true);
	ip_interrupted = ip_interrupted ? ip_interrupted : signal_number;
	return ret;
}

int cli_darc_live_find_stretches(struct cli_darc_live_search *l, struct cli_darc_trace *t)
{
	const int signal_number = ip_interrupted;
	int ret;

	/* of more callees than may be live at once the others were idle: their time would be the
	 * cause's */
	if (!l->level || !t->trace || t->stretches || l->sets.callees.n > l->options->max_functions)
		return 0;
	ip_interrupted = 0;
	ret = ip_stretches_find(t->trace, t->waits, &t->search, &t->stretches);
	ip_interrupted = ip_interrupted ? ip_interrupted : signal_number;
	return ret;
}

int cli_darc_live_search_decided(struct cli_darc_live_search *l)
{
	const struct ip_clock_reading changed = l->session.changed;
	const uint32_t level = l->level;
	int ret = cli_darc_open(l->session.kept, l->options->filter,
				l->options->session.kernel.groups, &l->decided);

	l->session.changed = l->decided_changed;
	l->level = l->decided_level;
	if (ret == 0)
		ret = cli_darc_live_search_moment(l, &l->decided, true);
	l->session.changed = changed;
	l->level = level;
	return ret;
}
