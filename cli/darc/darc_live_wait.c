/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at what the rings of a live search hold, until a step can be decided.
 *
 *   - The profile takes as many calls as are asked for, and the same slowest peak in two looks: a
 *     process that begins, or that another one has disturbed, has other ones. Slower calls that
 *     are not many enough to be a peak yet are waited for.
 *   - A step takes --decision-ops calls of the peak that did not just wait for a CPU. Where they do
 *     not agree on causes, it takes several times as many.
 *   - Calls that are of the peak far more or far less often than in the profile are others: the
 *     search begins again.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli/darc/darc_live_private.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/now.h"
#include "common/print.h"
#include "common/units.h"

#define LOOK_LEAST_NS 10000000ull /* between two looks at the rings */
#define LOOK_MOST_NS  500000000ull
/* Looks take time that the process may need: the later ones of a step so much less of it. The first
 * ones come when there may be enough calls. */
#define LOOK_TIMES 4u
#define LOOK_FIRST 4u
#define LOOK_LATER 1.2 /* so much later: what is a little too early is in vain */
#define TELL_NS	   5000000000ull

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
#define AGREED	     0.6
#define AGREED_TIMES 4u
/* What has several causes is looked at so many times --decision-ops: of 20 calls no share is exact
 * to ten percent. */
#define SHARES_TIMES 5u
/* Calls of the peak are so many times more or less frequent than in the profile, by more than so
 * many: the process does something else. The search begins again so often. */
#define CHANGED_TIMES 4.0
#define CHANGED_CALLS 20.0
#define AGAIN_MOST    2u
/* Without --duration a step takes so many times as long as the profile tells, and so much longer.
 */
#define LONGER_TIMES 10u
#define LONGER_NS    60000000000ull

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

/* Whether F0 is the function that the file is of. */
static int check_kept(struct cli_darc_live_search *l)
{
	const struct cli_darc_resume *resume = l->options->resume;
	const char *name;

	if (!resume->there || l->f0)
		return 0;
	name = cli_darc_live_name(l, 0);
	return strcmp(name, resume->state.linker_name)
		       ? ip_error("%s: that is a search of %s, not of %s", resume->path,
				  resume->state.linker_name, name)
		       : 0;
}

/* Looks at what the rings hold now, and searches it. *ret_overwritten: older calls are gone. */
static int look(struct cli_darc_live_search *l, bool *ret_overwritten)
{
	const struct cli_darc_live_options *o = l->options;
	struct cli_darc_trace seen;
	uint64_t overwritten;
	int ret;

	if (cli_darc_session_write(&l->session, &overwritten) < 0)
		return cli_darc_session_has_ended(&l->session) ? 0 : -1;
	*ret_overwritten = overwritten > 0;
	ret = cli_darc_open(l->session.moment, o->filter, o->session.kernel.groups, &seen);
	if (ret == 0)
		ret = cli_darc_live_search_moment(l, &seen, false);
	if (ret < 0) {
		cli_darc_clear(&seen);
		return -1;
	}
	cli_darc_clear(&l->moment);
	l->moment = seen;
	cli_darc_live_describe(l, false);
	return check_kept(l);
}

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
static bool has_enough(const struct cli_darc_live_search *l, size_t wanted)
{
	const struct ip_darc_search *s = &l->moment.search;
	const size_t n = s->ranges[0].operations.n;

	if (s->ranges[1].most &&
	    s->ranges[1].operations.n < (wanted < IP_PEAK_SAMPLES ? wanted : IP_PEAK_SAMPLES))
		return false;
	return n - s->from_waiting >= wanted || n >= WAITING_TIMES * wanted;
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

static bool has_changed(const struct cli_darc_live_search *l)
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
	const size_t wanted = l->options->search.decision_operations;

	if (kind == CLI_DARC_SEE)
		return l->moment.search.ranges[0].operations.n >= IP_DARC_CALLS;
	if (has_shares(l))
		return has_enough(l, SHARES_TIMES * wanted);
	return has_enough(l, wanted) && (agree(l) || has_enough(l, AGREED_TIMES * wanted));
}

int cli_darc_live_look_deeper(struct cli_darc_live_search *l)
{
	ip_darc_search_clear(&l->moment.search);
	if (cli_darc_live_search_moment(l, &l->moment, false) < 0)
		return -1;
	return is_decided(l, CLI_DARC_DECIDE);
}

static bool is_reached(struct cli_darc_live_search *l, enum cli_darc_live_kind kind)
{
	if (kind != CLI_DARC_PROFILE)
		return is_decided(l, kind);
	return l->options->resume->there && !l->begun ? cli_darc_live_is_compared(l)
						      : is_settled(l);
}

/* Tells what it is waited for. */
static void tell_waiting(const struct cli_darc_live_search *l, uint64_t took)
{
	const struct ip_darc_search *s = &l->moment.search;

	if (l->options->quiet || !l->moment.trace)
		return;
	if (!l->level)
		ip_print(stderr,
			 "iprobe: level 0: %" PRIu64 " calls in %" PRIu64
			 " s; it is waited for calls that are slow\n",
			 s->latencies.bins.count, took / 1000000000);
	else
		ip_print(stderr,
			 "iprobe: level %u: %zu slow calls in %" PRIu64 " s, of %zu or more%s\n",
			 l->level, s->ranges[0].operations.n - s->from_waiting, took / 1000000000,
			 l->options->search.decision_operations,
			 s->from_waiting ? "; others had no CPU for long" : "");
}

/* How long it took on average until a slow call came, as the profile tells. */
static double time_of_each(const struct cli_darc_live_search *l)
{
	return (double)l->profile_ns / (double)(l->profile.search.ranges[0].count + 1);
}

/* Whether slow calls take much longer to come than they did, and nobody has told for how long it is
 * to be waited. */
static bool takes_too_long(const struct cli_darc_live_search *l, uint64_t took)
{
	return l->level && !l->end_ns &&
	       (double)took > LONGER_NS + LONGER_TIMES * time_of_each(l) *
						  l->options->search.decision_operations;
}

/* How many more calls of the peak decide, as it seems. */
static size_t missing(const struct cli_darc_live_search *l, enum cli_darc_live_kind kind, size_t n)
{
	size_t wanted =
		kind == CLI_DARC_SEE ? IP_DARC_CALLS : l->options->search.decision_operations;

	if (kind == CLI_DARC_DECIDE && n && has_shares(l))
		wanted *= SHARES_TIMES;
	else if (kind == CLI_DARC_DECIDE && n >= wanted)
		wanted *= AGREED_TIMES;
	return wanted > n ? wanted - n : 1;
}

/* How long it is waited for a look: for the first one, or after one that saw n calls of the peak,
 * which came in that time. */
static uint64_t pause_for(const struct cli_darc_live_search *l, enum cli_darc_live_kind kind,
			  size_t n, uint64_t took)
{
	const double each = n ? (double)took / (double)n : time_of_each(l),
		     pause = LOOK_LATER * each * (double)missing(l, kind, n);

	return pause < LOOK_LEAST_NS  ? LOOK_LEAST_NS
	       : pause > LOOK_MOST_NS ? LOOK_MOST_NS
				      : (uint64_t)pause;
}

/* With a budget the looks take no more of a CPU than the process may lose of one: it may be the
 * same one. */
static double look_times(const struct cli_darc_live_search *l)
{
	const double budget = l->options->session.budget;

	return budget > 0 && LOOK_TIMES * budget < 1 ? 1 / budget : LOOK_TIMES;
}

int cli_darc_live_wait(struct cli_darc_live_search *l, enum cli_darc_live_kind kind)
{
	const uint64_t begin = ip_now_ns();
	uint64_t pause = kind == CLI_DARC_PROFILE ? LOOK_LEAST_NS : pause_for(l, kind, 0, 0),
		 told = begin;
	bool overwritten = false;
	size_t before = 0, same = 0, looks = 0;

	while (!cli_darc_live_is_over(l)) {
		uint64_t now, looked;
		size_t n;

		nap(l, pause);
		looked = ip_now_ns();
		if (look(l, &overwritten) < 0)
			return -1;
		now = ip_now_ns();
		pause = pause * 3 / 2 < LOOK_MOST_NS ? pause * 3 / 2 : LOOK_MOST_NS;
		if (is_reached(l, kind))
			return 0;
		if (kind != CLI_DARC_PROFILE) {
			l->changed = has_changed(l);
			if (l->changed)
				return 0;
			n = l->moment.search.ranges[0].operations.n;
			pause = pause_for(l, kind, n - l->moment.search.from_waiting,
					  looked - begin);
			same = n <= before ? same + 1 : 0;
			before = n;
			if (overwritten && same > 3 && has_enough(l, IP_DARC_CALLS))
				return 0;
		}
		if ((++looks > LOOK_FIRST || l->options->session.budget > 0) &&
		    pause < look_times(l) * (double)(now - looked))
			pause = look_times(l) * (double)(now - looked);
		if (now - told >= TELL_NS) {
			tell_waiting(l, now - begin);
			told = now;
		}
		if (takes_too_long(l, now - begin)) {
			ip_print(stderr,
				 "iprobe: slow calls have become rare: the search ends here; "
				 "--duration tells how long it is waited for them\n");
			l->over = true;
		}
	}
	return 0;
}
