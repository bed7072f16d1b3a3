/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what a live search has looked at is enough.
 *
 *   - The profile takes as many calls as are asked for, and the same slowest peak in two looks: a
 *     process that begins, or that another one has disturbed, has other ones. Slower calls that
 *     are not many enough to be a peak yet are waited for.
 *   - A step takes --decision-ops calls of the peak that did not just wait for a CPU. Where they do
 *     not agree on causes, it takes several times as many.
 *   - Calls that are of the peak far more or far less often than in the profile are others: the
 *     search begins again.
 */
#include "cli/darc/live/darc_live_private.h"
#include "common/now.h"
#include "common/print.h"

/* Calls that last so many times longer than a peak may become another one. It is waited for them:
 * so many times the calls of --start-ops, or so long. */
#define FAR_BEHIND    4u
#define SETTLED_TIMES 50u
#define SETTLED_NS    5000000000ull
/* A profile is of so many times the calls of --start-ops, or takes so long; and it has so many
 * percent more calls than the one with the same peak before it. */
#define STEADY_TIMES   10u
#define STEADY_NS      1000000000ull
#define STEADY_PERCENT 25u

/* Calls of the peak that waited for a CPU are an answer where there are so many times
 * --decision-ops of them. */
#define WAITING_TIMES 10u
/* Causes explain so much of the calls, or it is looked at so many times --decision-ops. */
#define AGREED	     0.85
#define AGREED_TIMES 4u
/* What has several causes is looked at so many times --decision-ops: of 20 calls no share is exact
 * to ten percent. */
#define SHARES_TIMES 10u
/* Calls of the peak are so many times more or less frequent than in the profile, by more than so
 * many: the process does something else. The search begins again so often. */
#define CHANGED_TIMES 4.0
#define CHANGED_CALLS 20.0
#define AGAIN_MOST    2u

/* Whether slower calls may become another peak than the one that was chosen. */
static bool may_rise(const struct ip_darc_search *s)
{
	const struct ip_peak *peak = &s->peaks.items[s->peak - 1];

	for (const struct ip_peak *p = peak + 1; p < s->peaks.items + s->peaks.n; p++)
		if (p->refused)
			return true;
	return s->latencies.bins.max / FAR_BEHIND >= peak->top_to_ns;
}

/* Whether the profile is to be searched. */
static bool is_settled(struct cli_darc_live_search *l)
{
	const struct ip_darc_search *s = &l->moment.search;
	const uint64_t calls = s->latencies.bins.count, start = s->options.start_operations,
		       took = ip_now_ns() - l->begin_ns;
	const struct ip_peak *peak;
	uint64_t top = 0;
	bool same;

	if (!l->moment.trace)
		return false;
	if (s->state == IP_DARC_NO_PEAK) {
		l->top_ns = 0;
		return false;
	}
	if (!s->peak)
		return true;
	peak = &s->peaks.items[s->peak - 1];
	top = peak->top_from_ns + 1;
	same = l->top_ns && top / 2 <= l->top_ns && l->top_ns / 2 <= top;
	if (same && calls - l->calls < l->calls * STEADY_PERCENT / 100)
		return false;
	l->top_ns = top;
	l->calls = calls;
	if (!same || (calls / STEADY_TIMES < start && took < STEADY_NS))
		return false;
	return s->options.choice != IP_DARC_RIGHTMOST || !may_rise(s) ||
	       calls / SETTLED_TIMES >= start || took >= SETTLED_NS;
}

bool cli_darc_live_is_compared(struct cli_darc_live_search *l)
{
	const struct ip_darc_search *s = &l->moment.search;
	const uint64_t calls = s->latencies.bins.count, start = s->options.start_operations,
		       took = ip_now_ns() - l->begin_ns;
	struct ip_profile_distance distance;

	if (!l->moment.trace || calls < start || calls < IP_PROFILE_CALLS ||
	    (calls / STEADY_TIMES < start && took < STEADY_NS))
		return false;
	switch (cli_darc_resume_compare(l->options->resume, s, &distance)) {
	case IP_PROFILES_ALIKE:
		return true;
	case IP_PROFILES_DIFFER:
		/* a process that begins, or that another one has disturbed, has other ones */
		return took >= SETTLED_NS;
	default:
		/* more calls than the kept profile has tell little more */
		return took >= SETTLED_NS || calls >= distance.n1;
	}
}

/* Whether there are as many calls of the peak as are wanted, and of the usual ones. */
bool cli_darc_live_has_calls(const struct cli_darc_live_search *l, size_t wanted)
{
	const struct ip_darc_search *s = &l->moment.search;
	const size_t n = s->ranges[0].operations.n;

	if (s->ranges[1].most &&
	    s->ranges[1].operations.n < (wanted < IP_PEAK_SAMPLES ? wanted : IP_PEAK_SAMPLES))
		return false;
	return n - s->from_waiting >= wanted || n >= WAITING_TIMES * wanted;
}

/* Whether usual calls have become far rarer than in the profile: where they take some nanoseconds,
 * their live callees make each of them longer than that. Such calls are those of no other peak
 * either, so whatever is faster than the peak that is searched is usual. */
static bool usual_are_shifted(const struct cli_darc_live_search *l)
{
	const struct ip_darc_search *s = &l->moment.search, *profile = &l->profile.search;
	const double expected = (double)profile->ranges[1].count /
				(double)profile->latencies.bins.count * (double)s->seen;
	const size_t n = s->ranges[1].operations.n;

	return s->ranges[1].most && !l->search.all_faster && n < IP_PEAK_SAMPLES &&
	       expected > CHANGED_TIMES * (double)n + CHANGED_CALLS &&
	       (l->search.choice == IP_DARC_PEAK || l->search.choice == IP_DARC_RIGHTMOST);
}

bool cli_darc_live_take_all_faster(struct cli_darc_live_search *l)
{
	if (!usual_are_shifted(l))
		return false;
	if (!l->options->quiet)
		ip_print(stderr,
			 "iprobe: level %u: usual calls take longer while their callees are live: "
			 "all faster ones count as usual\n",
			 l->level);
	l->search.all_faster = l->profile.search.options.all_faster = true;
	/* the same calls are searched */
	ip_darc_search_choose_others(&l->profile.search, l->profile.search.options.choice,
				     l->profile.search.options.number);
	return true;
}

/* Whether the calls of the peak agree on what their causes are. */
static bool agree(const struct cli_darc_live_search *l)
{
	const struct ip_root_causes *c = &l->moment.search.causes;
	double explained = 0;

	for (size_t i = 0; i < c->n; i++)
		if (c->items[i].stop != IP_DARC_SPREAD && !c->items[i].chance)
			explained += c->items[i].share;
	return explained >= AGREED;
}

bool cli_darc_live_has_changed(const struct cli_darc_live_search *l)
{
	const struct ip_darc_search *s = &l->moment.search, *profile = &l->profile.search;
	const double expected = (double)profile->ranges[0].count /
				(double)profile->latencies.bins.count * (double)s->seen,
		     n = (double)(s->ranges[0].operations.n - s->from_waiting);

	return l->begun < AGAIN_MOST && s->seen >= s->options.start_operations &&
	       (n > CHANGED_TIMES * expected + CHANGED_CALLS ||
		(!s->from_waiting && expected > CHANGED_TIMES * n + CHANGED_CALLS));
}

/* Whether there are several causes, which are found, and their shares are to be exact. */
static bool has_shares(const struct cli_darc_live_search *l)
{
	const struct ip_root_causes *c = &l->moment.search.causes;

	const struct ip_darc_cause *first = NULL;

	for (size_t i = 0; i < c->n; i++) {
		if (c->items[i].chance)
			continue;
		first = first ? first : &c->items[i];
		if (c->items[i].path != first->path)
			return !cli_darc_live_goes_on(l);
	}
	return false;
}

static bool is_decided(const struct cli_darc_live_search *l, enum cli_darc_live_kind kind)
{
	const size_t wanted = l->search.decision_operations;

	if (kind == CLI_DARC_SEE)
		return l->moment.search.ranges[0].operations.n >= IP_DARC_CALLS;
	if (has_shares(l))
		return cli_darc_live_has_calls(l, SHARES_TIMES * wanted);
	return cli_darc_live_has_calls(l, wanted) &&
	       (agree(l) || cli_darc_live_has_calls(l, AGREED_TIMES * wanted));
}

int cli_darc_live_look_deeper(struct cli_darc_live_search *l)
{
	ip_darc_search_clear(&l->moment.search);
	if (cli_darc_live_search_moment(l, &l->moment, false) < 0)
		return -1;
	return is_decided(l, CLI_DARC_DECIDE);
}

bool cli_darc_live_is_reached(struct cli_darc_live_search *l, enum cli_darc_live_kind kind)
{
	if (kind != CLI_DARC_PROFILE)
		return is_decided(l, kind);
	return l->options->resume->there && !l->begun ? cli_darc_live_is_compared(l)
						      : is_settled(l);
}

/* How many more calls of the peak decide, as it seems. */
size_t cli_darc_live_missing(const struct cli_darc_live_search *l, enum cli_darc_live_kind kind,
			     size_t n)
{
	size_t wanted = kind == CLI_DARC_SEE ? IP_DARC_CALLS : l->search.decision_operations;

	if (kind == CLI_DARC_DECIDE && n && has_shares(l))
		wanted *= SHARES_TIMES;
	else if (kind == CLI_DARC_DECIDE && n >= wanted)
		wanted *= AGREED_TIMES;
	return wanted > n ? wanted - n : 1;
}
