/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going live: the plan of what is to change, the beginning of the recording, and the sites.
 * attach.c tells the steps. end.c puts all of it back.
 */
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/notice.h"
#include "common/units.h"
#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/patch/stop_batches.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/plan/filters.h"
#include "hotpatcher/process/probe_list_search.h"
#include "hotpatcher/ptrace/stops.h"
#include "session/controllers/until.h"
#include "session/session_private.h"
#include "session/stacks.h"

#define FOREIGN_TRIES 3
#define LOAD_TRIES    10

/* Puts back sites that are still live since an iprobe was killed. We hold the session lock, so that
 * iprobe is dead. */
static int restore_leftovers(struct ip_session *s, const struct ip_modules *modules)
{
	struct ip_patch_result result = {0};
	int ret;

	/* an `iprobe detach` may be putting back the same sites: of two that switch pages, the
	 * later one would bring back what the earlier one has replaced */
	if (ip_area_lock_patch(s->area, s->target->pid) < 0)
		return -1;
	ret = s->options->no_stop
		      ? ip_session_remap_idle(s, modules, "leftovers", IP_REMAP_FIND_NS, &result)
		      : ip_restore(s->target, modules, s->options->max_stop_ns, &result);
	ip_area_unlock_patch(s->area);
	s->all_idle = ret == 0 && result.all_idle;
	if (!s->options->no_stop && result.stops.n)
		ip_session_tell_why(s, "it had live sites before");
	/* there may be no trace yet */
	if (!s->options->no_stop)
		ip_stop_log_append(&ip_stops_of(s->target)->log, &result.stops, "leftovers");
	if (ret == 0 && result.sites) {
		/* a child that was forked while its parent was recorded has copies of live sites */
		if (!s->forked)
			ip_notice(
				"pid %d: put back %zu site%s that an earlier iprobe had left live "
				"(--resume goes on with its recording instead)",
				s->target->pid, result.sites, ip_plural(result.sites));
		ip_patch_settle(s->target, &result, IP_SESSION_SETTLE_NS);
	}
	free(result.inside);
	return ret;
}

/* Makes the plan live. If another tool changes sites between our looks and the stop, these sites
 * are left out, too, and the stop is tried again. */
static int patch_live(struct ip_session *s, struct ip_plan *plan,
		      struct ip_plan_conflicts *conflicts, struct ip_patch_result *result)
{
	for (int i = 0;; i++) {
		size_t known = conflicts->sites;
		int ret;

		s->live = true; /* from here on: even after a failure the sites must be put back */
		free(result->inside);
		ret = ip_stop_batches_apply(
			s->target, plan->changes, plan->nchanges, s->options->max_stop_ns,
			s->area->header->session,
			(struct ip_stop_batches_tries){IP_SESSION_ATTACH_TRIES, s->all_idle},
			result);
		s->all_idle = false;
		ip_session_note_stop(s, "attach", result);
		if (ret < 0 && i < FOREIGN_TRIES) {
			_cleanup_free_ char *why = strdup(ip_error_message());

			if (ip_plan_conflicts_leave_out(plan, s->target, conflicts) < 0)
				return -1;
			if (conflicts->sites > known)
				continue;
			ip_error("%s", why ? why : "out of memory");
		}
		return ret;
	}
}

/* Finds where the user's payload is in this image. In an image that the target executes later it
 * must have the same memory: the session goes on in that memory. */
static int find_user(struct ip_session *s, const struct ip_modules *modules)
{
	struct ip_user_payload user = {.path = s->options->payloads.object};

	if (!user.path)
		return 0;
	if (ip_user_find(s->target, modules, user.path, s->launched, &user) < 0)
		return -1;
	if (s->trace &&
	    (user.cell_size != s->user.cell_size || user.scratch_size != s->user.scratch_size))
		return ip_error("pid %d: %s is another one in the program that it has executed",
				s->target->pid, user.path);
	s->user = user;
	return 0;
}

static bool any_probes(const struct ip_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++)
		if (modules->items[i].list && modules->items[i].list->header->nprobes)
			return true;
	return false;
}

int ip_session_check_lists(const struct ip_target *target, const struct ip_modules *modules)
{
	char what[32];

	snprintf(what, sizeof(what), "pid %d", target->pid);
	return any_probes(modules) ? ip_probe_list_search_check_used(what)
				   : 0; /* if there are no probes, another message says so */
}

/* Loads the modules. Where an earlier session has left functions of a PLT live, all lists have
 * those functions, also those of children and of libraries that come later: a function must have
 * one number in a session. */
static int load_modules(struct ip_session *s)
{
	bool plt = false;

	if (ip_modules_load(s->target, &s->modules) < 0)
		return -1;
	for (size_t i = 0; i < s->modules.n; i++)
		plt |= s->modules.items[i].plt;
	if (s->target->plt || !plt)
		return 0;
	s->target->plt = true;
	ip_modules_clear(&s->modules);
	return ip_modules_load(s->target, &s->modules);
}

int ip_session_plan(struct ip_session *s, bool allow_none)
{
	int ret;

	if (s->planned)
		return 0;
	s->all_idle = false;
	ip_plan_clear(&s->plan);
	ip_site_monitor_clear(s->watch, s->trace);
	ip_modules_clear(&s->modules);
	if (load_modules(s) < 0)
		return -1;
	if (allow_none && !any_probes(&s->modules)) {
		/* sets the error, in case it is needed */
		ip_modules_no_probes(s->target, &s->modules);
		return 1;
	}
	if (!allow_none && ip_session_check_lists(s->target, &s->modules) < 0)
		return -1;
	/* if there is no area yet, nothing was ever live */
	if (s->area && restore_leftovers(s, &s->modules) < 0)
		return -1;
	/* This is another image of a session that was changed by request: what a change took away
	 * everywhere may be all that this image has. */
	if (s->trace && s->selections.n > 1)
		ret = ip_plan_match(s->target, &s->modules, &s->selections, &s->plan);
	else
		ret = ip_plan_select(s->target, &s->modules, &s->selections, &s->plan);
	s->planned = ret == 0;
	s->summary->nothing = ret < 0;
	if (ret < 0)
		ip_until_find_absent(&s->options->until, &s->modules, s->summary);
	return ret;
}

int ip_session_begin(struct ip_session *s)
{
	if (!s->plan.nchanges)
		return 0;
	ip_plan_conflicts_clear(&s->conflicts);
	/* where all sites have just been seen idle, there is nothing to leave out: what changes one
	 * from now on is met in the stop, whenever it comes */
	if (!s->all_idle && ip_plan_conflicts_leave_out(&s->plan, s->target, &s->conflicts) < 0)
		return -1;
	if (find_user(s, &s->modules) < 0)
		return -1;
	if (s->trace)
		return 0;
	if (ip_filters_check(&s->options->filters, &s->plan, s->target->pid) < 0)
		return -1;
	return ip_session_begin_trace(s, &s->plan, &s->modules);
}

/* Makes the sites of the plan live, in stops or by switching pages. */
static int make_live(struct ip_session *s, struct ip_patch_result *result)
{
	int ret;

	/* a child may be forked as soon as the stop is over */
	ip_follow_fork_allow(s->followed, true);
	if (s->options->no_stop) {
		ret = ip_session_remap_live(s, &s->plan, result);
	} else {
		ret = s->options->may_switch ? ip_session_try_switch(s, &s->plan, result) : 0;
		ret = ret ? (ret < 0 ? -1 : 0) : patch_live(s, &s->plan, &s->conflicts, result);
	}
	/* The target has ended, or executed another program, after a stop, and before we saw that
	 * all was written correctly. Then nothing is left to be put back, and what the target did
	 * meanwhile is recorded. */
	if (ret < 0 && result->stops.n && ip_target_image_is_gone(s->target))
		ret = 0;
	return ret;
}

/* Whether filters leave out the exits of calls that began before the recording. */
static bool leaves_out_exits(const struct ip_filter_options *o)
{
	return o->depth || o->min_duration_ns || o->nsamples || o->start.name || o->names ||
	       o->within.name || ip_filters_has_conditions(o);
}

/* A program that iprobe run has just made has no open calls. Where old events are overwritten, or
 * filters leave out calls, events do not tell when these calls end. */
bool ip_session_tells_open_calls(const struct ip_session *s, const struct ip_plan *plan)
{
	return !s->options->no_stop && !s->options->overwrite && !s->launched &&
	       !s->summary->recorded && ip_plan_records(plan) &&
	       !leaves_out_exits(&s->options->filters);
}

/* Has the first stop copy the threads, so that calls that are open can be told. */
static int begin_stacks(struct ip_session *s)
{
	if (s->live || s->stacks || !ip_session_tells_open_calls(s, &s->plan))
		return 0;
	return ip_stacks_create(s->target, &s->plan, &s->stacks);
}

/* Opens what the copies are walked with. Without it the recording goes on. */
static void end_stacks(struct ip_session *s, bool live)
{
	if (!s->stacks || s->summary->recorded)
		return;
	if (!ip_stacks_taken(s->stacks, s->target, &s->modules) || !live)
		ip_stacks_destroy(ip_steal_ptr(s->stacks));
}

/* Gives functions their numbers, and tells filters and trace of them while stubs are written. */
static int bind_plan(struct ip_session *s)
{
	_cleanup_free_ char *why = NULL;
	struct ip_stub_writer *writer;
	int told;

	if (ip_plan_bind_begin(&s->plan, s->target, s->area, &writer) < 0)
		return -1;
	told = ip_filters_add_plan(&s->options->filters, s->area, &s->plan) < 0 ||
			       ip_trace_add_plan(s->trace, &s->plan, &s->modules, s->area) < 0
		       ? -1
		       : 0;
	if (told < 0)
		why = strdup(ip_error_message());
	if (ip_plan_bind_end(writer) < 0 && told == 0)
		return -1;
	/* of two errors, the first one is told */
	return told < 0 ? ip_error("%s", why ? why : "out of memory") : 0;
}

/* Writes stubs, numbers and duties, so that each site has a stub to lead to; then makes the sites
 * live. The area must be locked. */
static int carry_out(struct ip_session *s)
{
	struct ip_patch_result result = {0};
	int ret = -1;

	if (bind_plan(s) < 0 ||
	    (s->counters && ip_counters_plan(s->counters, &s->plan, s->trace) < 0) ||
	    ip_controllers_planned(s, &s->plan) < 0 || ip_trace_sync(s->trace) < 0 ||
	    ip_area_await_allocated(s->area, s->target->pid) < 0)
		return -1;
	if (s->counters && !s->options->marks_tails)
		ip_counters_tell_tails(&s->plan, s->target->pid);
	if (begin_stacks(s) < 0)
		return -1;
	ret = make_live(s, &result);
	end_stacks(s, ret == 0);
	if (ret == 0) {
		/* numbers are given anew in another image */
		free(ip_steal_ptr(s->counted));
		ip_session_count(s, &s->plan);
		ret = ip_session_watch_whole(s, &s->plan);
	}
	if (ret == 0) {
		ip_collector_priority(true);
		s->summary->recorded = true;
		s->summary->left_out += s->plan.left_out;
		s->summary->foreign += s->conflicts.sites;
		ip_plan_conflicts_tell(&s->conflicts, s->target->pid);
		s->summary->pages += result.pages;
		s->summary->threads = result.threads;
	} /* else what was written was written back; going idle makes sure of it */
	free(result.inside);
	return ret;
}

static int patch(struct ip_session *s)
{
	int ret;

	if (ip_values_any(&s->options->values) &&
	    ip_session_plan_values(s, &s->plan, &s->modules, &s->options->values) < 0)
		return -1;
	/* Both are done before any site of this image is live. The second makes a thread of the
	 * target do something. So the first comes before it: it checks whose memory that is. */
	if (ip_bounds_write(s->target, s->area, &s->user) < 0 ||
	    ip_bounds_set_inherited(s->target, s->options->follow_fork) < 0)
		return -1;
	s->records |= ip_plan_records(&s->plan);
	if (ip_area_lock_patch(s->area, s->target->pid) < 0)
		return -1;
	ret = carry_out(s);
	ip_area_unlock_patch(s->area);
	return ret;
}

int ip_session_patch(struct ip_session *s)
{
	int ret = s->plan.nchanges ? patch(s) : 0;

	s->planned = false;
	ip_plan_clear(&s->plan);
	return ret < 0 ? -1 : ip_follow_dlopen_begin(s);
}

/* Whether a library of which sites were to go live has been unloaded while we looked at it. false
 * if the target executes another image: the area that we have open belongs to the old image. */
static bool has_gone(struct ip_session *s)
{
	_cleanup_free_ char *why = strdup(ip_error_message());
	const unsigned images = s->target->images;
	bool gone = false;

	if (!ip_target_image_is_gone(s->target) && ip_target_refresh(s->target) == 0 &&
	    s->target->images == images)
		for (size_t i = 0; i < s->modules.n; i++)
			gone |= s->modules.items[i].list &&
				!ip_module_is_mapped(s->target, &s->modules.items[i]);
	ip_error("%s", why ? why : "out of memory");
	return gone;
}

/* Looks again at a target that loads and unloads libraries. (If some of several stops were made by
 * then, their sites are put back first.) */
bool ip_session_replans(struct ip_session *s, struct ip_session_tries *tries)
{
	s->planned = false;
	if (tries->n++ == LOAD_TRIES || ip_interrupted || !ip_target_alive(s->target) ||
	    !has_gone(s))
		return false;
	ip_session_nap(IP_SESSION_TRY_NS);
	if (ip_target_refresh(s->target) < 0)
		return false;
	if (s->target->images != tries->images) {
		ip_error("pid %d executes another program now: try again", s->target->pid);
		return false;
	}
	return true;
}

int ip_session_go_live(struct ip_session *s, bool allow_none)
{
	struct ip_session_tries tries = {.images = s->target->images};
	int ret;

	do {
		ret = ip_session_plan(s, allow_none);
		if (ret == 0)
			ret = ip_session_begin(s);
		if (ret == 0)
			ret = ip_session_patch(s);
	} while (ret < 0 && ip_session_replans(s, &tries));
	return ret;
}
