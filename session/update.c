/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates a session. update.h describes the steps; comments here name them.
 */
#include "session/update.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/drain_thread.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/values.h"
#include "hotpatcher/patch/remap.h"
#include "hotpatcher/patch/stop_batches.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/plan/plan_diff.h"
#include "hotpatcher/process/link_map.h"
#include "hotpatcher/ptrace/stops.h"
#include "session/session_private.h"

#define TRIES 3 /* if another tool changes a site between our looks */

static bool wants_values(const struct ip_value_options *o)
{
	return o->args || o->retval;
}

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
	if (wants_values(&o->values) &&
	    ip_session_plan_values(s, &d->live, &s->modules, &o->values) < 0)
		return -1;
	if (wants_values(&o->values) &&
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
	/* a library that was loaded again brings nothing new */
	if ((new || wants_values(&o->values)) && ip_trace_sync(s->trace) < 0)
		return -1;
	return 0;
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
	done = ip_stop_batches_apply(s->target, changes, n, o->max_stop_ns, gate, IP_SESSION_TRIES,
				     result);
	if (done < 0) {
		ret->partial = result->stops.n > 0;
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
	if (o->must_match)
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
	    ip_plan_diff_make(s->target, &s->modules, &s->selections, s->area, &d) < 0)
		return -1;
	if (o->child)
		ip_plan_clear(&d.idle);
	ret->functions_added = d.live.ndistinct;
	ret->functions_removed = d.idle.ndistinct;
	ret->sites_added = d.live.nchanges;
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

/* Writes the directory, as other processes can find it, a zero byte, and the items that matched
 * nothing. Returns the number of bytes. */
static size_t describe(const struct ip_session *s, const char *unused, char *text)
{
	_cleanup_free_ char *dir = realpath(s->options->dir, NULL);
	int n = snprintf(text, IP_CONTROL_TEXT_MAX, "%s%c%s", dir ? dir : s->options->dir, 0,
			 unused ? unused : "");

	return n < 0 ? 0 : n < (int)IP_CONTROL_TEXT_MAX ? n : IP_CONTROL_TEXT_MAX - 1;
}

static int serve(struct ip_session *s, const struct ip_control_request *request,
		 const char *selection, struct ip_change_result *result, char **ret_unused)
{
	struct ip_change_options options = {.kind = "change",
					    .must_match = true,
					    .dry_run = request->flags & IP_CONTROL_DRY_RUN,
					    .max_stop_ns = request->max_stop_ns,
					    .values = s->options->values};
	struct ip_selections next, before = s->selections;
	const char *program = ip_controllers_program(s);
	int done;

	if (request->inner_pid != (uint32_t)s->target->inner_pid)
		return ip_error("the session is that of pid %d, which this process was forked "
				"from, or which was forked from it: end that first",
				s->target->pid);
	if (program)
		return ip_error("pid %d: its session is that of an fperf (pid %d), which is not to "
				"be changed: end it, and attach anew",
				s->target->pid, getpid());
	if (s->options->no_stop && !options.dry_run)
		return ip_error("pid %d: its session never stops it (--no-stop), and a change "
				"would: end it, and attach anew",
				s->target->pid);
	if (request->flags & (IP_CONTROL_ARGS | IP_CONTROL_RETVAL))
		options.values =
			(struct ip_value_options){.args = request->flags & IP_CONTROL_ARGS,
						  .retval = request->flags & IP_CONTROL_RETVAL,
						  .string_limit = request->string_limit};
	if (wants_values(&options.values) &&
	    (!options.values.string_limit || options.values.string_limit > IP_STRING_LIMIT_MAX))
		return ip_error("the request is damaged");
	if (ip_selections_with(&before, *selection ? selection : NULL, &next) < 0)
		return -1;
	s->selections = next;
	done = ip_session_update(s, &options, result);
	if (done == 0)
		*ret_unused = ip_selection_unused(ip_selections_last(&s->selections)->selection);
	if (done < 0 || options.dry_run) {
		ip_selections_clear(&s->selections);
		s->selections = before;
		if (done < 0 && result->partial) {
			_cleanup_free_ char *why = strdup(ip_error_message());
			struct ip_change_result back;

			options.must_match = false;
			if (ip_session_update(s, &options, &back) == 0)
				ip_error("%s", why ? why : "out of memory");
			else
				ip_error_prefix(
					"some of what was asked for is done, and cannot be undone");
		}
	} else {
		ip_trace_add_selection(s->trace, ip_selections_last(&s->selections)->text);
		s->changes++;
		ip_selections_clear(&before);
	}
	return done;
}

void ip_session_serve(void *context, const struct ip_control_request *request,
		      const char *selection, int directory, struct ip_control_reply *reply,
		      char *text, size_t *text_size)
{
	struct ip_session *s = context;
	struct ip_change_result r = {0};
	_cleanup_free_ char *unused = NULL;

	if (request->flags & IP_CONTROL_SNAPSHOT) {
		reply->failed = ip_session_snapshot(s, directory, selection, reply) < 0;
		*text_size = snprintf(text, IP_CONTROL_TEXT_MAX, "%s",
				      reply->failed ? ip_error_message() : selection);
		return;
	}
	if (request->flags & IP_CONTROL_COUNTS) {
		reply->failed = ip_session_serve_counts(s) < 0;
		*text_size = reply->failed ? (size_t)snprintf(text, IP_CONTROL_TEXT_MAX, "%s",
							      ip_error_message())
					   : describe(s, NULL, text);
		return;
	}
	if (serve(s, request, selection, &r, &unused) < 0) {
		reply->failed = 1;
		*text_size = snprintf(text, IP_CONTROL_TEXT_MAX, "%s", ip_error_message());
		return;
	}
	reply->functions_added = r.functions_added;
	reply->functions_removed = r.functions_removed;
	reply->sites_added = r.sites_added;
	reply->sites_removed = r.sites_removed;
	reply->functions = r.functions;
	reply->sites = r.sites;
	reply->left_out = r.left_out;
	reply->foreign = r.foreign;
	reply->threads = r.threads;
	reply->pages = r.pages;
	reply->more_stops = r.stops.more;
	reply->more_ns = r.stops.more_ns;
	for (size_t i = 0; i < r.stops.n; i++) {
		uint64_t ns = r.stops.items[i].ns;

		if (i < IP_CONTROL_STOPS) {
			reply->failed_stops |= (uint64_t)r.stops.items[i].failed << reply->nstops;
			reply->stop_ns[reply->nstops++] = ns;
		} else {
			reply->more_stops++;
			reply->more_ns = ns > reply->more_ns ? ns : reply->more_ns;
		}
	}
	*text_size = describe(s, unused, text);
}
