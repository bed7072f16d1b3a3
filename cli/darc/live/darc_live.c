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
 *      it calls. Return addresses tell that. Step 2 is made again, with these.
 *   4. The search ends where no callee is a root cause any more, and the callees of each cause were
 *      live when it was found to be one.
 *
 * Where more callees are to be looked at than may be live, they take turns.
 */
#include "cli/darc/live/darc_live.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/darc/live/darc_live_private.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/now.h"
#include "common/print.h"
#include "common/proc.h"

#define GONE_NS	    500000000ull
#define GONE_NAP_NS 10000000ull
#define VIEW_NAP_NS 1000000000ull

/* Goes on to the callees that are root causes. Callees of a function that is the cause by itself
 * stay live: else what they take would be taken for its own. Returns whether there is something to
 * look at; -1 with an error. */
static int descend(struct cli_darc_live_search *l)
{
	const struct ip_darc_search *s = &l->moment.search;
	const bool deeper = l->level < l->search.depth && cli_darc_live_goes_on(l);
	int ret = 0;

	cli_darc_names_clear(&l->sets.path);
	if (deeper) {
		cli_darc_names_clear(&l->sets.below);
		cli_darc_names_clear(&l->sets.callees);
		l->level++;
	}
	for (size_t i = 0; i < s->causes.n; i++) {
		const struct ip_darc_cause *c = &s->causes.items[i];
		const char *name;
		bool goes_on;
		int added = 0;

		for (uint32_t node = c->node; node != IP_FTREE_NONE;
		     node = s->ftree.nodes[node].parent)
			if (cli_darc_names_add(&l->sets.path, cli_darc_live_name(l, node),
					       SIZE_MAX) < 0)
				return -1;
		name = cli_darc_live_name(l, c->node);
		if (c->stop == IP_DARC_DEPTH || c->stop == IP_DARC_PREEMPTED) {
			goes_on = c->stop == IP_DARC_DEPTH && deeper;
		} else if (!c->chance || !cli_darc_names_has(&l->sets.looked, name)) {
			goes_on = true;
		} else {
			/* a callee may have been taken for chance that was one of a few */
			added = deeper ? 0 : cli_darc_names_add(&l->sets.again, name, SIZE_MAX);
			goes_on = added > 0;
		}
		if (goes_on)
			added = cli_darc_names_add(&l->sets.below, name, SIZE_MAX);
		/* what a thread does before it serves tells no code */
		if (added > 0 && s->ftree.nodes[c->node].call_site == IP_FTREE_QUEUED &&
		    cli_darc_names_add(&l->sets.pointers, name, SIZE_MAX) < 0)
			added = -1;
		if (added < 0)
			return -1;
		ret |= added;
	}
	if (cli_darc_names_add(&l->sets.path, l->f0, SIZE_MAX) < 0 ||
	    (ret && cli_darc_live_add_seen(l) < 0))
		return -1;
	return ret;
}

/* The calls are not those that the search has begun with: that is its answer. */
static int tell_changed(struct cli_darc_live_search *l, const char *how)
{
	struct ip_darc_search *s = &l->moment.search;

	ip_darc_search_forget_causes(s);
	s->state = IP_DARC_CHANGED;
	snprintf(s->reason, sizeof(s->reason), "%s", how);
	return 0;
}

/* Takes the state of the file in the place of the new profile, which is like its own. */
static int take_kept(struct cli_darc_live_search *l)
{
	struct cli_darc_state *kept = &l->options->resume->state;
	struct ip_darc_search *s = &l->profile.search, *from = &kept->profile;
	const uint32_t function = l->moment.search.options.function;

	l->profile = l->moment;
	l->moment = (struct cli_darc_trace){0};
	ip_darc_search_clear(s);
	*s = *from;
	s->session = l->profile.trace->session;
	s->options.function = function;
	from->latencies = (struct ip_darc_latencies){0};
	l->sets = kept->sets;
	kept->sets = (struct cli_darc_sets){0};
	l->profile_ns = kept->profile_ns;
	l->search.all_faster = s->options.all_faster;
	l->level = kept->level;
	l->resumed = true;
	return ip_ftree_begin(&s->ftree, function);
}

/* Goes on from the file where the latencies are what they were. Returns as find_profile() does. */
static int resume(struct cli_darc_live_search *l)
{
	struct ip_profile_distance distance;
	char how[128];

	if (cli_darc_live_is_over(l))
		return 0;
	switch (cli_darc_resume_compare(l->options->resume, &l->moment.search, &distance)) {
	case IP_PROFILES_DIFFER:
		snprintf(how, sizeof(how),
			 "the Earth Mover's Distance to the kept one is %.2f powers of two, at "
			 "most %.2f by chance",
			 distance.distance, distance.by_chance);
		return tell_changed(l, how);
	case IP_PROFILES_ALIKE:
		break;
	default:
		if (!l->options->quiet)
			ip_print(stderr, "iprobe: too few calls tell whether the latencies are "
					 "those that were kept: taken as the same\n");
	}
	if (take_kept(l) < 0)
		return -1;
	if (!l->options->quiet)
		ip_print(stderr, "iprobe: the search goes on at level %u\n", l->level);
	return 1;
}

/* The profile is there, and what of it is searched. Returns 1, or -1 with an error. */
static int begin_steps(struct cli_darc_live_search *l)
{
	if (cli_darc_names_add(&l->sets.path, l->f0, SIZE_MAX) < 0 ||
	    cli_darc_names_add(&l->sets.below, l->f0, SIZE_MAX) < 0)
		return -1;
	l->level = 1;
	return 1;
}

/* Step 1. Returns whether there is something to search; -1 with an error. */
static int find_profile(struct cli_darc_live_search *l)
{
	const struct ip_darc_search *s = &l->moment.search;

	cli_darc_live_tell(l, "", 1 + l->session.nlive);
	l->begin_ns = ip_now_ns();
	l->top_ns = l->calls = 0;
	cli_darc_live_describe(l, false);
	if (cli_darc_live_wait(l, CLI_DARC_PROFILE) < 0)
		return -1;
	if (!l->moment.trace)
		return 0;
	if (!l->f0)
		l->f0 = strdup(cli_darc_live_name(l, 0));
	if (!l->f0)
		return ip_error("out of memory");
	if (l->options->resume->there && !l->begun)
		return resume(l);
	if (s->state == IP_DARC_NO_PEAK)
		return 0;
	l->profile = l->moment;
	l->profile_ns = ip_now_ns() - l->begin_ns;
	l->moment = (struct cli_darc_trace){0};
	return begin_steps(l);
}

/* Forgets what the steps behind the profile have found. */
static void forget_steps(struct cli_darc_live_search *l)
{
	l->changed = l->rechosen = l->seeing = l->concluded = false;
	*l->session.kept = '\0';
	cli_darc_clear(&l->moment);
	cli_darc_names_clear(&l->sets.path);
	cli_darc_names_clear(&l->sets.below);
	cli_darc_names_clear(&l->sets.looked);
	cli_darc_names_clear(&l->sets.again);
	cli_darc_names_clear(&l->sets.callees);
}

/* F0 is live, and what handovers need. Returns 0, or -1 with an error. */
static int select_first(struct cli_darc_live_search *l)
{
	const struct cli_darc_names *more = &l->options->handovers->names;

	return cli_darc_session_select(&l->session, more->items, more->n);
}

/* The calls are not those of the profile any more. Returns as find_profile() does. */
static int start_over(struct cli_darc_live_search *l)
{
	if (!l->options->quiet)
		ip_print(stderr, "iprobe: the latencies have changed: the search begins again\n");
	l->begun++;
	l->level = 0;
	l->search.all_faster = false;
	forget_steps(l);
	cli_darc_clear(&l->profile);
	return select_first(l) < 0 ? -1 : find_profile(l);
}

/* The user has chosen another peak of the profile. Returns as find_profile() does. */
static int choose_others(struct cli_darc_live_search *l)
{
	forget_steps(l);
	l->search.all_faster = l->profile.search.options.all_faster = false;
	/* a peak that the view has shown is there */
	return ip_darc_search_choose_others(&l->profile.search, l->search.choice, l->search.number)
		       ? begin_steps(l)
		       : 0;
}

/* Steps 2 and 3 of one level. Returns whether there is something more to look at; -1 with an error.
 */
static int search_level(struct cli_darc_live_search *l)
{
	const uint32_t level = l->level;
	int more = 1;

	if (cli_darc_live_find(l) < 0)
		return -1;
	while (more > 0 && !cli_darc_live_is_left(l)) {
		if (cli_darc_live_look(l) < 0)
			return -1;
		l->seeing = l->seeing && cli_darc_live_is_left(l);
		more = 0;
		if (cli_darc_live_is_left(l) || !cli_darc_live_is_unseen(l))
			break;
		more = cli_darc_live_see(l);
		if (more < 0 || cli_darc_live_is_left(l))
			break;
		/* others may be causes by now that have not been seen either */
		if (!more && cli_darc_live_is_unseen(l)) {
			more = 1;
			continue;
		}
		/* meanwhile the callees were idle, and what they took was their caller's */
		if (l->seeing && !more && cli_darc_live_look(l) < 0)
			return -1;
		l->seeing = false;
	}
	for (size_t i = 0; more >= 0 && i < l->sets.below.n; i++)
		if (cli_darc_names_add(&l->sets.looked, l->sets.below.items[i], SIZE_MAX) < 0)
			more = -1;
	if (more < 0)
		return -1;
	if (cli_darc_live_is_over(l))
		return 0;
	if (l->rechosen)
		return choose_others(l);
	if (l->changed && l->resumed)
		return tell_changed(l, "slow calls are far more frequent, or rarer, than in the "
				       "kept one");
	if (l->changed)
		return start_over(l);
	more = descend(l);
	if (more > 0) {
		/* of the next level nothing is known yet */
		cli_darc_session_keep(&l->session);
		l->decided_level = level;
		l->decided_changed = l->session.changed;
	}
	return more;
}

/* Whether the process has ended, or is about to: then what failed did so for that. */
static bool is_gone(struct cli_darc_live_search *l)
{
	const uint64_t end = ip_now_ns() + GONE_NS;

	while (ip_proc_has_memory(l->options->session.pid) &&
	       !cli_darc_session_has_ended(&l->session)) {
		if (ip_interrupted || ip_now_ns() >= end)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = GONE_NAP_NS}, NULL);
	}
	return true;
}

static int conclude(struct cli_darc_live_search *l)
{
	if (l->moment.trace && l->moment.search.state == IP_DARC_CHANGED)
		return 0;
	if (cli_darc_live_conclude(l) < 0)
		return -1;
	l->concluded = !l->over && l->level && l->moment.trace;
	if (l->concluded)
		cli_darc_live_describe(l, true);
	return 0;
}

/* The view shows what was found, while F0 alone is live, until the user leaves it or wants another
 * peak. Returns as find_profile() does. */
static int show_found(struct cli_darc_live_search *l)
{
	struct cli_darc d;

	if (cli_darc_live_find_stretches(l, &l->moment) < 0)
		return -1;
	/* it cannot be stopped now, or has ended: what was found is printed all the same */
	if (select_first(l) < 0)
		return 0;
	cli_darc_live_describe(l, false);
	d = cli_darc_live_found(l, &l->moment);
	if (cli_darc_view_found(l->view, &d) < 0)
		return -1;
	while (!cli_darc_live_is_over(l) && !l->rechosen)
		cli_darc_live_nap(l, VIEW_NAP_NS);
	/* it is the view that is over: the search was so before */
	l->over &= !l->concluded;
	return l->rechosen ? choose_others(l) : 0;
}

static int search(struct cli_darc_live_search *l)
{
	int more = find_profile(l);
	bool stepped = false;

	while (more > 0) {
		/* what was kept has more in it than what a search has that has just been resumed */
		cli_darc_live_describe(l, !l->resumed || stepped);
		stepped = true;
		more = search_level(l);
		if (more == 0 && conclude(l) < 0)
			return -1;
		if (more == 0 && l->view && l->concluded)
			more = show_found(l);
	}
	if (more == 0)
		return 0;
	/* what has ended the search has also ended what failed */
	l->over |= ip_interrupted || is_gone(l);
	return l->over ? 0 : -1;
}

/* The session waits for a moment at which the process can be stopped. */
static bool rest(void *context, uint64_t ns)
{
	struct cli_darc_live_search *l = context;
	const uint64_t end = ip_now_ns() + ns;

	cli_darc_live_nap(l, ns);
	/* another peak that was chosen meanwhile has to wait as well */
	if (l->rechosen && ip_now_ns() < end)
		nanosleep(&(struct timespec){.tv_nsec = (long)(end - ip_now_ns())}, NULL);
	return !cli_darc_live_is_over(l);
}

/* The search, with its view if there is one. Returns 0, or -1 with an error. */
static int search_in_view(struct cli_darc_live_search *l)
{
	struct cli_darc_view view = {.functions = l->options->session.functions,
				     .pid = l->options->session.pid,
				     .begin_ns = ip_now_ns()};
	int ret;

	if (!l->options->live)
		return search(l);
	if (cli_darc_view_open(&view) < 0)
		return -1;
	l->view = &view;
	ret = search(l);
	l->view = NULL;
	cli_darc_view_close(&view);
	return ret;
}

int cli_darc_live(const struct cli_darc_live_options *options)
{
	struct cli_darc_session_options session = options->session;
	struct cli_darc_live_search l = {.options = options, .search = options->search};
	struct cli_darc_handovers *handovers = options->handovers;
	bool told;
	int code, ret;

	if ((options->live && cli_darc_view_check() < 0) ||
	    cli_darc_resume_check_process(options->resume, session.pid) < 0 ||
	    cli_darc_handovers_find_live(handovers, session.pid, session.functions) < 0) {
		cli_darc_handovers_clear(handovers);
		return cli_fail();
	}
	session.more = handovers->names.items;
	session.nmore = handovers->names.n;
	session.values = handovers->n ? &handovers->requests : NULL;
	session.rest = rest;
	session.context = &l;
	ret = cli_darc_session_begin(&session, &l.session, &told);
	if (ret == 0) {
		l.end_ns = options->duration_ns ? ip_now_ns() + options->duration_ns : 0;
		ret = search_in_view(&l);
		if (ret == 0)
			ret = cli_darc_live_print(&l);
		/* once, of the last search that was made */
		if (ret == 0)
			cli_darc_handovers_tell_unseen(handovers);
	}
	code = ret < 0 && !told ? cli_fail() : ret < 0;
	code = code ? code : options->resume->failed;
	cli_darc_clear(&l.moment);
	cli_darc_clear(&l.decided);
	cli_darc_clear(&l.profile);
	cli_darc_sets_clear(&l.sets);
	free(l.f0);
	free(l.name);
	ret = cli_darc_session_end(&l.session);
	cli_darc_handovers_clear(handovers);
	return code ? code : ret;
}
