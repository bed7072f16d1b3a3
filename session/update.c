/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates a session. update.h describes the steps; comments here name them.
 */
#include "session/update.h"

#include <string.h>

#include "collector/drain_thread.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/patch/remap.h"
#include "hotpatcher/patch/stop_batches.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/plan/plan_diff.h"
#include "hotpatcher/process/link_map.h"
#include "session/session_private.h"

#define TRIES 3 /* if another tool changes a site between our looks */

/* Whether any function is new to the trace. */
static bool brings_new(const struct ip_session *s, const struct ip_plan *plan)
{
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (!ip_trace_knows(s->trace, plan->functions[i].number))
			return true;
	return false;
}

/* Step 2. */
static int prepare(struct ip_session *s, struct ip_plan_diff *d, const struct ip_change_options *o)
{
	bool new;

	if (!d->live.nchanges)
		return 0;
	if (ip_values_any(&o->values) &&
	    ip_session_plan_values(s, &d->live, &s->modules, &o->values) < 0)
		return -1;
	if (ip_values_any(&o->values) &&
	    ip_bounds_set_reading(s->target, s->area, s->area->may_read) < 0)
		return -1;
	s->records |= ip_plan_records(&d->live);
	if (ip_plan_bind(&d->live, s->target, s->area) < 0 ||
	    ip_filters_add_plan(&s->options->filters, s->area, &d->live) < 0)
		return -1;
	new = brings_new(s, &d->live);
	if (ip_trace_add_plan(s->trace, &d->live, &s->modules, s->area) < 0)
		return -1;
	if ((s->counters && ip_counters_plan(s->counters, &d->live, s->trace) < 0) ||
	    ip_controllers_planned(s, &d->live) < 0)
		return -1;
	if (s->counters && !s->options->marks_tails)
		ip_counters_tell_tails(&d->live, s->target->pid);
	/* a library that was loaded again brings nothing new */
	if ((new || ip_values_any(&o->values)) && ip_trace_sync(s->trace) < 0)
		return -1;
	return 0;
}

/* What was silent is selected now: it is live, so nothing of the process is changed. */
static int show(struct ip_session *s, const struct ip_plan_diff *d)
{
	if (!d->shown.nfunctions)
		return 0;
	ip_filters_show(s->area, &d->shown);
	if (ip_trace_show(s->trace, &d->shown) < 0 ||
	    (s->counters && ip_counters_plan(s->counters, &d->shown, s->trace) < 0) ||
	    ip_controllers_planned(s, &d->shown) < 0)
		return -1;
	ip_session_count(s, &d->shown);
	s->summary->silent_sites -= d->shown_sites < s->summary->silent_sites
					    ? d->shown_sites
					    : s->summary->silent_sites;
	return ip_trace_sync(s->trace);
}

/* Notes one live site of each library. */
static int tell_link_map(struct ip_link_map *link_map, const struct ip_plan *live)
{
	uint32_t last = UINT32_MAX;

	for (size_t i = 0; link_map && i < live->nchanges; i++) {
		const struct ip_change *c = &live->changes[i];
		uint32_t module = live->functions[live->function_of[i]].module_index;

		if (!c->may_go || module == last)
			continue;
		last = module;
		if (ip_link_map_expect(link_map, c->address, c->new_bytes, c->length) < 0)
			return -1;
	}
	return 0;
}

/* Step 3. 0, or -1. *ret_again: some of the pieces were switched, but not all; or another tool has
 * changed a site just now. */
static int apply(struct ip_session *s, const struct ip_plan_diff *d,
		 const struct ip_change_options *o, const struct ip_change *changes, size_t n,
		 struct ip_patch_result *result, struct ip_change_result *ret, bool *ret_again)
{
	/* if no site of this image has been live before, the gate is still closed */
	int64_t gate = s->live ? -1 : (int64_t)s->area->header->session;
	struct ip_remap_result remapped;
	int done = 0;

	s->live = true;
	if (o->no_stop) {
		done = ip_session_remap_change(s, changes, n, gate, &d->idle, o->gap, &remapped);
		ret->changing_ns = remapped.changing_ns;
		ret->remapped = done > 0;
		if (done < 0) {
			ret->partial = *ret_again = true;
			return -1;
		}
		if (done > 0) {
			result->stop_tsc = remapped.holds[0].tsc;
			result->pages = remapped.pages;
			return 0;
		}
	}
	done = ip_stop_batches_apply(s->target, changes, n, o->max_stop_ns, gate,
				     (struct ip_stop_batches_tries){IP_SESSION_TRIES, false},
				     result);
	if (result->stops.n && !o->child)
		ip_session_tell_why(s, "what is recorded was changed");
	if (done < 0) {
		ret->partial = result->stops.n > 0;
		ret->transient = result->transient && !ret->partial;
		/* a site has changed since we looked */
		*ret_again = !result->stops.n && !result->transient;
	}
	return done;
}

/* Steps 3 and 4. *ret_again: as for apply(). */
static int carry_out(struct ip_session *s, const struct ip_plan_diff *d,
		     const struct ip_change_options *o, struct ip_change_result *ret,
		     bool *ret_again)
{
	_cleanup_free_ struct ip_change *changes = NULL;
	struct ip_patch_result result = {0};
	struct ip_clock_reading now;
	size_t n;
	int done;

	*ret_again = false;
	changes = ip_plan_diff_changes(d, &n);
	if (!changes)
		return -1;
	ip_collector_priority(true);
	done = apply(s, d, o, changes, n, &result, ret, ret_again);
	ip_clock_read(&now);
	free(result.inside);
	ret->stops = result.stops;
	ip_stop_log_append(&ret->stops, &ip_stops_of(s->target)->log, NULL);
	if (done < 0) {
		_cleanup_free_ char *why = strdup(ip_error_message());
		struct ip_stop_log in_vain = ip_stops_of(s->target)->log;

		ip_session_note_stop(s, o->kind, &result);
		return ip_stop_tell_in_vain(&in_vain, why ? why : "out of memory");
	}
	if (!o->child && ((s->watch && ip_site_monitor_drop(s->watch, &d->idle) < 0) ||
			  ip_session_watch(s, &d->live) < 0))
		/* no memory: no site is watched any more */
		ip_site_monitor_clear(s->watch, s->trace);
	done = tell_link_map(o->link_map, &d->live);
	ret->threads = result.threads;
	ret->pages = result.pages;
	s->summary->recorded = true;
	ip_session_count(s, &d->live);
	ip_session_note_stop(s, o->kind, &result);
	/* A function that no change has taken away is there from its first event on: a program may
	 * load and unload a library all day. */
	if (o->must_match || o->adds)
		ip_trace_add_change(s->trace, "added", result.stop_tsc, &d->live);
	if (!o->quiet)
		ip_trace_add_change(s->trace, "removed", now.tsc, &d->idle);
	/* What is on disk is for readers who read while we record, or after our death: a failure of
	 * this write does not matter. */
	if (d->idle.nchanges && !o->quiet)
		ip_trace_sync(s->trace);
	return done;
}

/* Tells the site monitor which functions are selected: it must not make others live again. */
static void tell_watch(struct ip_session *s)
{
	_cleanup_free_ uint32_t *numbers = NULL;
	struct ip_plan plan;

	if (ip_plan_match(s->target, &s->modules, &s->selections, &plan) < 0 ||
	    !(numbers = calloc(plan.nfunctions + 1, sizeof(*numbers)))) {
		/* no memory: no site is watched any more */
		ip_site_monitor_clear(s->watch, s->trace);
		return;
	}
	for (size_t i = 0; i < plan.nfunctions; i++) {
		const struct ip_plan_function *f = &plan.functions[i];

		numbers[i] = ip_plan_first_number(s->area, f->module) +
			     IP_NUMBERS_PER_FUNCTION * f->function + f->inlined;
	}
	ip_site_monitor_select(s->watch, numbers, plan.nfunctions, s->trace);
	ip_plan_clear(&plan);
}

/* Tries the update once. children: forked children are recorded besides the target. */
static int update_once(struct ip_session *s, const struct ip_change_options *o, bool children,
		       struct ip_change_result *ret, bool *ret_again)
{
	struct ip_plan_diff d = {0};
	int done = -1;

	*ret = (struct ip_change_result){0};
	*ret_again = false;
	if (ip_target_refresh(s->target) < 0 ||
	    (o->must_match && ip_plan_check_last(s->target, &s->modules, &s->selections) < 0) ||
	    ip_plan_diff_make(s->target, &s->modules, &s->selections, s->area, ip_session_silent(s),
			      &d) < 0)
		return -1;
	if (o->child)
		ip_plan_clear(&d.idle);
	ret->functions_added = d.live.ndistinct + d.shown.ndistinct;
	ret->functions_removed = d.idle.ndistinct;
	ret->sites_added = d.live.nchanges + d.shown_sites;
	ret->sites_removed = d.idle.nchanges;
	ret->functions = d.functions;
	ret->sites = d.kept + d.live.nchanges;
	ret->left_out = d.live.left_out;
	ret->foreign = d.foreign;
	if (d.idle.nchanges && children) {
		ip_error("pid %d: processes that it forked are recorded too (--follow-fork), with "
			 "probes of their own: nothing can be taken away while they live",
			 s->target->pid);
	} else if (o->dry_run || (!d.live.nchanges && !d.idle.nchanges)) {
		done = 0;
	} else if (ip_area_lock_patch(s->area, s->target->pid) == 0) {
		/* What `iprobe detach` has put back, under this lock, must not become live again:
		 * the end of this session is a moment away. */
		if (s->area->header->ended == s->area->header->session)
			done = ip_error(
				"pid %d: iprobe detach has just ended its session: attach anew",
				s->target->pid);
		else
			done = prepare(s, &d, o);
		if (done == 0)
			done = carry_out(s, &d, o, ret, ret_again);
		ip_area_unlock_patch(s->area);
	}
	if (done == 0 && !o->dry_run)
		done = show(s, &d);
	if (done == 0 && !o->dry_run && s->watch &&
	    (d.foreign || ip_site_monitor_is_disturbed(s->watch)))
		tell_watch(s);
	ip_plan_diff_clear(&d);
	return done;
}

int ip_session_update(struct ip_session *s, const struct ip_change_options *options,
		      struct ip_change_result *ret)
{
	/* before the thread that drains is started: it uses the list of children, too */
	bool children = ip_follow_fork_lives(s->followed);
	/* if nothing is recorded, no ring can overflow */
	struct ip_drain_thread *drain_thread =
		ip_controllers_program(s) ? NULL : ip_drain_thread_start(s->collector);
	bool again, partial = false;
	int done;

	if (drain_thread && !options->urgent)
		ip_collector_priority(false); /* the target must not wait for our planning */
	for (int i = 0;; i++) {
		done = update_once(s, options, children, ret, &again);
		partial |= ret->partial;
		ret->partial = partial && done < 0;
		if (done == 0 || !again || i == TRIES)
			break;
	}
	ip_collector_priority(true);
	if (drain_thread) {
		_cleanup_free_ char *why = done < 0 ? strdup(ip_error_message()) : NULL;

		if (ip_drain_thread_stop(drain_thread) < 0)
			s->write_failed = true;
		else if (why)
			ip_error("%s", why);
	}
	return s->write_failed ? -1 : done;
}
