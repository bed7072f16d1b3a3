/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches a live process.
 *
 *   1. F0 alone is live, until its calls have peaks, or the calls that are asked for: that is the
 *      profile. From then on the search is for calls of these durations; probes that come and go
 *      shift the latency of callees, and of F0 a little.
 *   2. The callees of F0, which its code tells, go live, and the search of the trace is made one
 *      level deep, as soon as the rings have as many calls of the peak as a decision takes. Callees
 *      that are root causes are gone on with: their own callees go live, and all others become
 *      idle.
 *   3. Where the cause is a function itself that calls through pointers, all functions with probes
 *      go live, so many at once as is allowed, until the calls of the peak have shown which of them
 *      it calls. Return addresses tell that. Step 2 is made again with these.
 *   4. The search ends where no callee is a root cause any more.
 *
 * Where more callees are to be looked at than may be live, they take turns.
 */
#include "cli/darc/darc_live.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/darc/darc_live_private.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/now.h"
#include "common/print.h"
#include "common/proc.h"
#include "common/selection/selection.h"

#define LOOK_LEAST_NS 10000000ull /* between two looks at the rings */
#define LOOK_MOST_NS  500000000ull
#define GONE_NS	      500000000ull
/* Calls that last so many times longer than a peak may become another one. It is waited for them:
 * so many times the calls of --start-ops, or so long. */
#define FAR_BEHIND    4u
#define SETTLED_TIMES 50u
#define SETTLED_NS    5000000000ull

bool cli_darc_live_is_over(struct cli_darc_live_search *l)
{
	l->over |= ip_interrupted || (l->end_ns && ip_now_ns() >= l->end_ns) ||
		   cli_darc_session_has_ended(&l->session);
	return l->over;
}

static void nap(struct cli_darc_live_search *l, uint64_t ns)
{
	const uint64_t end = ip_now_ns() + ns;

	while (ip_now_ns() < end && !cli_darc_live_is_over(l)) {
		const uint64_t left = end - ip_now_ns(), part = left < 20000000 ? left : 20000000;

		nanosleep(&(struct timespec){.tv_nsec = (long)part}, NULL);
	}
}

void cli_darc_live_tell(const struct cli_darc_live_search *l, const char *what, size_t functions)
{
	if (!l->options->quiet)
		ip_print(stderr, "iprobe: level %u: %s%zu function%s live\n", l->level, what,
			 functions, functions == 1 ? "" : "s");
}

/* When the probes changed last. */
static uint64_t last_change(const struct ip_recording *s)
{
	uint64_t last = 0;

	for (size_t i = 0; i < s->nstops; i++) {
		const uint64_t end = s->stops[i].tsc + (uint64_t)((double)s->stops[i].duration_ns *
								  (double)s->tsc_hz / 1e9);

		last = end > last ? end : last;
	}
	return last;
}

/* Looks at what the rings hold now, and searches it. most: calls of the peak. *ret_overwritten:
 * older ones are gone. */
static int look(struct cli_darc_live_search *l, size_t most, bool *ret_overwritten)
{
	const struct cli_darc_live_options *o = l->options;
	_cleanup_free_ char *f0 = l->f0 ? ip_selection_quote(l->f0, strlen(l->f0)) : NULL;
	struct ip_darc_options search = o->search;
	struct cli_darc_trace seen;
	uint64_t overwritten;
	int ret;

	if (l->f0 && !f0)
		return -1;
	if (cli_darc_session_write(&l->session, &overwritten) < 0)
		return cli_darc_session_has_ended(&l->session) ? 0 : -1;
	*ret_overwritten = overwritten > 0;
	ret = cli_darc_open(l->session.moment, o->filter, o->session.kernel.groups, &seen);
	if (ret == 0)
		ret = cli_darc_find_function(&seen, f0 ? f0 : o->session.functions,
					     &search.function);
	if (ret == 0) {
		search.since = last_change(seen.trace->session);
		search.places = seen.places;
		search.depth = l->level;
		search.decision_operations = most;
		search.profile = l->level ? &l->profile.search : NULL;
		ret = ip_darc_search(seen.trace, seen.waits, &search, &seen.search);
	}
	if (ret < 0) {
		cli_darc_clear(&seen);
		return -1;
	}
	cli_darc_clear(&l->moment);
	l->moment = seen;
	return 0;
}

static bool has_enough(const struct cli_darc_live_search *l, size_t wanted)
{
	const struct ip_darc_range *r = l->moment.search.ranges;

	return r[0].operations.n >= wanted &&
	       (!r[1].most ||
		r[1].operations.n >= (wanted < IP_PEAK_SAMPLES ? wanted : IP_PEAK_SAMPLES));
}

/* Whether the profile is to be searched: there are no calls far behind the peak that may become
 * one, or it has been waited for them. */
static bool is_settled(const struct cli_darc_live_search *l)
{
	const struct ip_darc_search *s = &l->moment.search;
	const struct ip_peak *peak;

	if (!l->moment.trace || s->state == IP_DARC_NO_PEAK)
		return false;
	if (s->options.choice != IP_DARC_RIGHTMOST || !s->peak)
		return true;
	peak = &s->peaks.items[s->peak - 1];
	return s->latencies.bins.max / FAR_BEHIND < peak->top_to_ns ||
	       s->latencies.bins.count / SETTLED_TIMES >= s->options.start_operations ||
	       ip_now_ns() - l->begin_ns >= SETTLED_NS;
}

/* Looks again and again until there are as many calls of the peak as are wanted; or the rings hold
 * no more of them. */
int cli_darc_live_wait(struct cli_darc_live_search *l, size_t wanted)
{
	uint64_t pause = LOOK_LEAST_NS;
	bool overwritten = false;
	size_t before = 0, same = 0;

	while (!cli_darc_live_is_over(l)) {
		size_t n;

		nap(l, pause);
		pause = pause * 3 / 2 < LOOK_MOST_NS ? pause * 3 / 2 : LOOK_MOST_NS;
		if (look(l, wanted, &overwritten) < 0)
			return -1;
		if (!l->level && is_settled(l))
			return 0;
		if (!l->level)
			continue;
		n = l->moment.search.ranges[0].operations.n;
		if (has_enough(l, wanted))
			return 0;
		same = n <= before ? same + 1 : 0;
		before = n;
		if (overwritten && same > 3 && has_enough(l, IP_DARC_CALLS))
			return 0;
	}
	return 0;
}

/* Goes on to the callees that are root causes. Returns whether there are some; -1 with an error. */
static int descend(struct cli_darc_live_search *l)
{
	const struct ip_darc_search *s = &l->moment.search;

	cli_darc_names_clear(&l->below);
	cli_darc_names_clear(&l->callees);
	cli_darc_names_clear(&l->path);
	for (size_t i = 0; i < s->causes.n; i++) {
		const struct ip_darc_cause *c = &s->causes.items[i];

		for (uint32_t node = c->node; node != IP_FTREE_NONE;
		     node = s->ftree.nodes[node].parent)
			if (cli_darc_names_add(&l->path, cli_darc_live_name(l, node), SIZE_MAX) < 0)
				return -1;
		if (c->stop == IP_DARC_DEPTH &&
		    cli_darc_names_add(&l->below, cli_darc_live_name(l, c->node), SIZE_MAX) < 0)
			return -1;
	}
	return l->below.n > 0;
}

/* Step 1. Returns whether there is something to search; -1 with an error. */
static int find_profile(struct cli_darc_live_search *l)
{
	const struct ip_darc_search *s = &l->moment.search;

	cli_darc_live_tell(l, "", 1);
	if (cli_darc_live_wait(l, l->options->search.decision_operations) < 0)
		return -1;
	if (!l->moment.trace || s->state == IP_DARC_NO_PEAK)
		return 0;
	l->f0 = strdup(cli_darc_live_name(l, 0));
	if (!l->f0)
		return ip_error("out of memory");
	if (cli_darc_names_add(&l->path, l->f0, SIZE_MAX) < 0 ||
	    cli_darc_names_add(&l->below, l->f0, SIZE_MAX) < 0)
		return -1;
	l->profile = l->moment;
	l->moment = (struct cli_darc_trace){0};
	return 1;
}

/* Steps 2 and 3 of one level. Returns whether there is another one; -1 with an error. */
static int search_level(struct cli_darc_live_search *l)
{
	int more = 1;

	if (cli_darc_live_find(l) < 0)
		return -1;
	while (more > 0 && !cli_darc_live_is_over(l)) {
		if (cli_darc_live_look(l) < 0)
			return -1;
		more = !cli_darc_live_is_over(l) && cli_darc_live_is_unseen(l)
			       ? cli_darc_live_see(l)
			       : 0;
	}
	if (more < 0)
		return -1;
	if (cli_darc_live_is_over(l) || l->level == l->options->search.depth ||
	    !cli_darc_live_goes_on(l))
		return 0;
	return descend(l);
}

/* Whether the process has ended, or is about to: then what failed did so for that. */
static bool is_gone(struct cli_darc_live_search *l)
{
	const uint64_t end = ip_now_ns() + GONE_NS;

	while (ip_proc_has_memory(l->options->session.pid) &&
	       !cli_darc_session_has_ended(&l->session)) {
		if (ip_interrupted || ip_now_ns() >= end)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_LEAST_NS}, NULL);
	}
	return true;
}

static int search(struct cli_darc_live_search *l)
{
	int more = find_profile(l);

	while (more > 0) {
		l->level++;
		more = search_level(l);
	}
	if (more == 0)
		return 0;
	l->over = ip_interrupted || is_gone(l);
	return l->over ? 0 : -1;
}

/* Prints as much as is known. */
static int print(struct cli_darc_live_search *l)
{
	struct cli_darc_trace *last = l->moment.trace ? &l->moment : &l->profile;

	if (!last->trace)
		return ip_error("nothing was recorded");
	if (l->over)
		last->search.state = IP_DARC_IN_PROGRESS;
	return cli_darc_print(last, l->profile.trace ? &l->profile.search : NULL, l->options->json);
}

int cli_darc_live(const struct cli_darc_live_options *options)
{
	struct cli_darc_live_search l = {.options = options};
	bool told;
	int code, ret = cli_darc_session_begin(&options->session, &l.session, &told);

	if (ret == 0) {
		l.begin_ns = ip_now_ns();
		l.end_ns = options->duration_ns ? ip_now_ns() + options->duration_ns : 0;
		ret = search(&l);
		if (ret == 0)
			ret = print(&l);
	}
	code = ret < 0 && !told ? cli_fail() : ret < 0;
	cli_darc_clear(&l.moment);
	cli_darc_clear(&l.profile);
	cli_darc_names_clear(&l.path);
	cli_darc_names_clear(&l.below);
	cli_darc_names_clear(&l.pointers);
	cli_darc_names_clear(&l.known);
	cli_darc_names_clear(&l.callees);
	free(l.f0);
	free(l.name);
	ret = cli_darc_session_end(&l.session);
	return code ? code : ret;
}
