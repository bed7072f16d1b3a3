/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at what the rings of a live search hold, until a step can be decided.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli/darc/live/darc_live_private.h"
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
#define NAP_NS	   20000000 /* the end of the process is seen after that */

/* Without --duration a step takes so many times as long as the profile tells, and so much longer.
 */
#define LONGER_TIMES 10u
#define LONGER_NS    60000000000ull

bool cli_darc_live_is_over(struct cli_darc_live_search *l)
{
	l->over |= ip_interrupted || l->left || (l->end_ns && ip_now_ns() >= l->end_ns) ||
		   cli_darc_session_has_ended(&l->session);
	return l->over;
}

bool cli_darc_live_is_left(struct cli_darc_live_search *l)
{
	return cli_darc_live_is_over(l) || l->changed || l->rechosen;
}

/* Waits on the screen. The peaks that may be chosen are those that it shows. */
static void nap_on_screen(struct cli_darc_live_search *l, uint64_t until)
{
	const struct ip_darc_search *peaks = l->profile.trace  ? &l->profile.search
					     : l->moment.trace ? &l->moment.search
							       : NULL;
	size_t number;

	switch (cli_darc_view_wait(l->view, until, peaks, &number)) {
	case CLI_DARC_REQUEST_LEAVE:
		l->left = true;
		break;
	case CLI_DARC_REQUEST_PEAK:
		l->search.choice = number ? IP_DARC_PEAK : IP_DARC_RIGHTMOST;
		l->search.number = number;
		l->rechosen = l->profile.trace;
		break;
	default:
		break;
	}
}

void cli_darc_live_nap(struct cli_darc_live_search *l, uint64_t ns)
{
	const uint64_t end = ip_now_ns() + ns;

	while (ip_now_ns() < end && !cli_darc_live_is_over(l) && !l->rechosen) {
		const uint64_t left = end - ip_now_ns(), part = left < NAP_NS ? left : NAP_NS;

		if (l->view)
			nap_on_screen(l, end - left + part);
		else
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
			 l->search.decision_operations,
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
	return l->level && !l->end_ns && !l->view &&
	       (double)took >
		       LONGER_NS + LONGER_TIMES * time_of_each(l) * l->search.decision_operations;
}

/* How long it is waited for a look: for the first one, or after one that saw n calls of the peak,
 * which came in that time. */
static uint64_t pause_for(const struct cli_darc_live_search *l, enum cli_darc_live_kind kind,
			  size_t n, uint64_t took)
{
	const double each = n ? (double)took / (double)n : time_of_each(l),
		     pause = LOOK_LATER * each * (double)cli_darc_live_missing(l, kind, n);

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

		cli_darc_live_nap(l, pause);
		if (l->rechosen)
			return 0;
		looked = ip_now_ns();
		if (look(l, &overwritten) < 0)
			return -1;
		now = ip_now_ns();
		pause = pause * 3 / 2 < LOOK_MOST_NS ? pause * 3 / 2 : LOOK_MOST_NS;
		if (cli_darc_live_is_reached(l, kind))
			return 0;
		if (kind != CLI_DARC_PROFILE) {
			l->changed = cli_darc_live_has_changed(l);
			if (l->changed)
				return 0;
			if (cli_darc_live_take_all_faster(l)) {
				pause = LOOK_LEAST_NS;
				continue;
			}
			n = l->moment.search.ranges[0].operations.n;
			pause = pause_for(l, kind, n - l->moment.search.from_waiting,
					  looked - begin);
			same = n <= before ? same + 1 : 0;
			before = n;
			if (overwritten && same > 3 && cli_darc_live_has_calls(l, IP_DARC_CALLS))
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
