/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --dry-run: shows what an attach would do, without doing it: the plan, and what its stop is
 * expected to cost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"
#include "hotpatcher/inject/area_renew.h"
#include "hotpatcher/inject/inject.h"
#include "hotpatcher/inject/runtime_wake.h"
#include "hotpatcher/patch/remap.h"
#include "hotpatcher/patch/stop_batches.h"
#include "hotpatcher/plan/window/area_window.h"
#include "hotpatcher/ptrace/kernel_worker.h"
#include "hotpatcher/ptrace/stops.h"
#include "session/session_private.h"
#include "session/update.h"

/* Counts the functions of a module as a session does (ip_session_count()): an inlined instance and
 * its function are one, and what only carries calls on that end by a jump is none. */
static long count_functions(const struct ip_plan *plan, const struct ip_module *module, size_t m)
{
	_cleanup_free_ bool *seen = NULL;
	long n = 0;

	seen = calloc((module->list ? module->list->header->nfunctions : 0) + 1, sizeof(*seen));
	if (!seen)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];

		if (f->module_index != m || f->silent || seen[f->function])
			continue;
		seen[f->function] = true;
		n++;
	}
	return n;
}

static int preview_modules(struct ip_session_preview *preview, const struct ip_modules *modules,
			   const struct ip_plan *plan)
{
	preview->modules = calloc(modules->n, sizeof(*preview->modules));
	if (!preview->modules)
		return ip_error("out of memory");
	for (size_t m = 0; m < modules->n; m++) {
		size_t k = preview->nmodules;
		long functions;

		for (size_t i = 0; i < plan->nchanges; i++)
			preview->modules[k].sites +=
				plan->functions[plan->function_of[i]].module_index == m;
		if (!preview->modules[k].sites)
			continue;
		functions = count_functions(plan, &modules->items[m], m);
		if (functions < 0)
			return -1;
		preview->modules[k].functions = functions;
		preview->summary.functions += functions;
		preview->modules[k].path = strdup(modules->items[m].path);
		preview->nmodules++;
	}
	return 0;
}

static size_t count_pages(const struct ip_plan *plan)
{
	uint64_t last = ~0ull;
	size_t pages = 0;

	for (size_t i = 0; i < plan->nchanges; i++) { /* ascending within a module */
		uint64_t first_page = plan->changes[i].address >> 12;
		uint64_t last_page = (plan->changes[i].address + plan->changes[i].length - 1) >> 12;

		pages += (first_page != last) + (last_page != first_page);
		last = last_page;
	}
	return pages;
}

/* --no-stop: how many pieces would be switched, which sites cannot be, and whether it would
 * work. */
static int preview_remap(struct ip_session_preview *preview, struct ip_target *target,
			 const struct ip_modules *modules, const struct ip_plan *plan)
{
	struct ip_remap_plan *remap;
	int ret;

	if (ip_remap_prepare(target, modules, plan->changes, plan->nchanges, IP_REMAP_PARTIAL,
			     &remap) < 0)
		return -1;
	preview->pieces = ip_remap_pieces(remap);
	preview->expected_stop_ns = 0;
	preview->summary.sites = ip_remap_sites(remap);
	preview->summary.pages = ip_remap_pages(remap);
	preview->summary.unswitched = ip_remap_left_out(remap);
	if (ip_remap_reason(remap))
		snprintf(preview->summary.unswitched_why, sizeof(preview->summary.unswitched_why),
			 "%s", ip_remap_reason(remap));
	ret = ip_is_asleep(target) ? 0 : ip_remap_check(remap);
	ip_remap_destroy(remap);
	return ret;
}

#define SWITCH_HOLDS 3 /* two to go live, one to go idle */

/* Whether nobody need be stopped, although nobody has asked for that. */
static void preview_choice(struct ip_session_preview *preview, const struct ip_session *s,
			   const struct ip_modules *modules, const struct ip_plan *plan)
{
	struct ip_remap_plan *remap;

	preview->stopped_why = ip_session_why_stop(s, modules, plan, &remap);
	if (!remap)
		return;
	preview->pieces = ip_remap_pieces(remap);
	preview->holds += SWITCH_HOLDS;
	preview->nstops = preview->end_stops = 0;
	preview->expected_stop_ns = 0;
	ip_remap_destroy(remap);
}

/* Adds the look with which the session begins in which the target maps more of its ring memory
 * (ip_area_window_fit()), and the one in which it gives that back (ip_area_window_give()). */
static void preview_window(struct ip_session_preview *preview, const struct ip_target *target,
			   const struct ip_area *area, const struct ip_modules *modules,
			   const struct ip_session_options *options)
{
	const bool counts = options->payloads.n || options->until.n || options->drop_hot,
		   needs_tables = counts || options->follow_fork ||
				  ip_values_any(&options->values) ||
				  ip_filters_any(&options->filters);
	uint64_t size = ip_area_size_for(options->memory), window;
	bool tables;

	if (area)
		window = area->window;
	else if (!target->has_runtime)
		window = ip_area_window_first(target, modules, counts ? 0 : options->memory).area;
	else if (!ip_is_asleep(target))
		window = target->anchor.area_size;
	else if (!target->injected || ip_values_is_confined(target))
		window = IP_AREA_OWN_SIZE;
	else
		window = ip_inject_area_size(target);
	tables = area ? area->tables : window >= IP_AREA_OWN_SIZE;
	preview->looks += (needs_tables && !tables) || size > window;
	if ((target->injected || !target->has_runtime) && window < IP_AREA_OWN_SIZE &&
	    !ip_values_is_confined(target))
		preview->looks += needs_tables || tables || size > IP_AREA_SMALL_SIZE ||
				  window > IP_AREA_SMALL_SIZE;
}

/* What an attach does to the process besides the stops that make it live: set_up_runtime(), and
 * who asks for the clock and lends a thread for children (attach.c, go_live.c, end.c). */
static void preview_besides(struct ip_session_preview *preview, const struct ip_target *target,
			    const struct ip_area *area, const struct ip_modules *modules,
			    const struct ip_session_options *options)
{
	const bool asleep = target->has_runtime && ip_is_asleep(target);
	bool shares;

	if (options->no_stop)
		return;
	preview->holds = !target->has_runtime ? 2 : asleep;
	if (target->has_runtime && !asleep) {
		preview->holds = ip_area_renew_is_needed(target, &shares);
		preview->looks =
			target->anchor.remap && ip_proc_status(target->pid, "Seccomp") == 0;
	}
	preview->looks += options->follow_fork ? 2 : 0;
	preview_window(preview, target, area, modules, options);
	preview->end_stops = preview->nstops;
}

/* By the rule that attach uses (open_area() in attach.c): a forked process may need an area of its
 * own, which attach makes. 0: the area is open, or it is to be made; -1 with an error. */
static int preview_area(struct ip_session *s)
{
	bool shares;
	int recorded;

	if (!s->target->has_runtime)
		return ip_inject_check(s->target, NULL);
	if (ip_is_asleep(s->target))
		return 0;
	if (!ip_area_renew_is_needed(s->target, &shares))
		return ip_area_open(s->target, &s->area);
	recorded = shares ? ip_session_is_recorded_with_parent(s) : 0;
	if (recorded)
		return recorded < 0 ? -1 : 0;
	return ip_area_renew_check(s->target, shares);
}

int ip_session_preview(pid_t pid, const struct ip_session_options *options,
		       struct ip_session_preview *ret)
{
	struct ip_session s = {.options = options, .summary = &ret->summary};
	struct ip_modules modules = {0};
	struct ip_plan plan = {0};
	int done = -1;

	*ret = (struct ip_session_preview){.summary.pid = pid};
	if (ip_session_select(&s) < 0 || ip_session_open(&s, pid) < 0 || preview_area(&s) < 0)
		goto out;
	if (s.area && ip_area_has_session(s.area) && !ip_session_yields(s.area)) {
		done = ip_session_ask(&s, true);
		if (done <= 0)
			goto out;
	}
	done = -1;
	if (ip_modules_load(s.target, &modules) < 0 ||
	    ip_session_check_lists(s.target, &modules) < 0 ||
	    ip_plan_select(s.target, &modules, &s.selections, &plan) < 0 ||
	    ip_filters_check(&options->filters, &plan, pid) < 0 ||
	    ip_values_check(&plan, s.target, &modules, &options->values) < 0 ||
	    preview_modules(ret, &modules, &plan) < 0 ||
	    ip_plan_count_silent(&plan, &ret->summary.silent_functions,
				 &ret->summary.silent_sites) < 0)
		goto out;
	ret->summary.sites = plan.nchanges;
	ret->summary.left_out = plan.left_out;
	ret->summary.pages = count_pages(&plan);
	ret->summary.threads = ip_user_threads(pid);
	ret->expected_stop_ns =
		ip_stop_batches_expect(plan.changes, plan.nchanges, options->max_stop_ns,
				       ret->summary.threads, &ret->nstops);
	preview_besides(ret, s.target, s.area, &modules, options);
	if (options->may_switch)
		preview_choice(ret, &s, &modules, &plan);
	done = options->no_stop ? preview_remap(ret, s.target, &modules, &plan) : 0;
out:
	ip_plan_clear(&plan);
	ip_modules_clear(&modules);
	ip_session_clear(&s);
	return done;
}

int ip_session_check_requests(pid_t pid, const struct ip_session_options *options)
{
	struct ip_session_summary summary = {.pid = pid};
	struct ip_session s = {.options = options, .summary = &summary};
	struct ip_modules modules = {0};
	struct ip_plan plan = {0};
	int ret = 1;

	if (!options->values.requests || !options->values.requests->n)
		return 0;
	if (ip_session_select(&s) == 0 && ip_session_open(&s, pid) == 0 &&
	    ip_modules_load(s.target, &modules) == 0 &&
	    ip_plan_select(s.target, &modules, &s.selections, &plan) == 0)
		ret = ip_values_check(&plan, s.target, &modules, &options->values);
	ip_plan_clear(&plan);
	ip_modules_clear(&modules);
	ip_session_clear(&s);
	return ret;
}

void ip_session_preview_clear(struct ip_session_preview *preview)
{
	for (size_t i = 0; i < preview->nmodules; i++)
		free(preview->modules[i].path);
	free(preview->modules);
}
