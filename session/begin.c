/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session begins with: clock, area, trace, collector.
 */
#include "session/session.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/units.h"
#include "hotpatcher/plan/window/area_window.h"
#include "hotpatcher/shm/area_lean.h"
#include "hotpatcher/shm/area_trace.h"
#include "session/controller.h"
#include "session/kernel_events.h"
#include "session/pmu_leftovers.h"
#include "session/session_private.h"

static uint64_t default_max_size(int dir, const char **ret_by)
{
	bool tenth;
	const uint64_t size = ip_trace_usual_max_size(dir, &tenth);

	*ret_by = tenth ? IP_LIMIT_SPACE : IP_LIMIT_DEFAULT;
	return size;
}

int ip_session_begin_collector(struct ip_session *s, uint64_t max_size)
{
	if (s->area->modes & IP_MODE_COARSE) {
		if (ip_coarse_clock_start(s->area, ip_trace_dirfd(s->trace), &s->coarse_clock) < 0)
			return -1;
		ip_trace_add_coarse(s->trace, 0, 0, 0, 0);
	}
	s->summary->limit = max_size;
	if (!s->summary->limit_by)
		s->summary->limit_by = s->options->max_size ? IP_LIMIT_ASKED : IP_LIMIT_BEGUN;
	/* the followed children come first: code that has a collector may rely on them */
	if (ip_follow_fork_create(s->area, s->target, s->options->follow_fork,
				  s->options->max_stop_ns, &s->followed) < 0 ||
	    ip_collector_create(s->area, s->trace, s->target,
				ip_trace_rotates(s->trace) ? UINT64_MAX : max_size,
				&s->collector) < 0 ||
	    ((s->area->modes & IP_MODE_OVERWRITE) && ip_collector_overwrite(s->collector) < 0))
		return -1;
	/* the nice value of the user, although ours may be another one just now */
	ip_collector_set_nice(s->collector,
			      s->hurries ? s->own_nice : getpriority(PRIO_PROCESS, 0));
	if (s->options->service && s->options->service->on_let_go)
		ip_follow_fork_leave_to_others(s->followed, s->options->service->on_let_go,
					       s->options->context);
	if (s->options->follow_fork)
		ip_collector_set_followed(s->collector, ip_follow_fork_is_gone, s->followed);
	if (ip_control_create(s->area, &s->control) < 0)
		ip_notice("pid %d: %s: a second iprobe attach cannot change it", s->target->pid,
			  ip_error_message());
	return 0;
}

uint64_t ip_session_ring_memory(const struct ip_session *s)
{
	return s->selections.rules || ip_controllers_count(s) ? 0 : s->options->memory;
}

/* Has the target map what the session needs. If it cannot map the rings, the session makes do with
 * those that it has mapped, unless the user asked for the memory, or has the newest events kept in
 * it. 0, or -1 with an error. */
static int fit(const struct ip_session *s, struct ip_area *area, struct ip_area_needs *needs)
{
	char have[16];
	uint64_t size;
	bool tables;

	if (ip_area_plan(area, s->target->pid, needs, &size, &tables) < 0)
		return -1;
	if (ip_area_window_fit(s->target, area, size, tables) == 0)
		return 0;
	if (s->options->memory_exact || (tables && !area->tables) ||
	    needs->modes & (IP_MODE_PAYLOADS | IP_MODE_OVERWRITE))
		return -1;
	/* nothing is mapped any more: it executes another program now */
	if (area->window < IP_AREA_DATA_OFFSET + 2 * IP_SUBBUF_SIZE)
		return -1;
	needs->memory = area->window - IP_AREA_DATA_OFFSET;
	ip_notice("%s; it is recorded with rings of %s", ip_error_message(),
		  ip_format_size(needs->memory, have));
	return 0;
}

int ip_session_begin_area(struct ip_session *s, struct ip_area *area, const struct ip_plan *plan,
			  const struct ip_modules *modules)
{
	struct ip_area_needs needs = {
		.memory = s->options->memory,
		.modes = (s->options->coarse ? IP_MODE_COARSE : 0) |
			 (ip_filters_any(&s->options->filters) ? IP_MODE_CAREFUL : 0) |
			 (ip_filters_are_sites(&s->options->filters) ? IP_MODE_SITES : 0) |
			 (s->options->filters.within.name ? IP_MODE_WITHIN : 0) |
			 (ip_filters_are_within(&s->options->filters) ? IP_MODE_ALONE : 0) |
			 (ip_clock_selected() == IP_CLOCK_MONOTONIC ? IP_MODE_MONOTONIC : 0) |
			 (s->options->overwrite ? IP_MODE_OVERWRITE : 0)};

	const long threads = ip_proc_status(s->target->pid, "Threads");
	const bool lean = ip_nap_only_watches(s, plan);

	ip_area_lean_prepare(area, lean, threads > 0 ? threads : 0);
	if (s->selections.rules || ip_controllers_count(s))
		ip_counters_needs(plan, s->selections.rules, s->user.path ? &s->user : NULL,
				  modules, area, lean, &needs);
	if (ip_controllers_check(s, plan, &needs.room) < 0)
		return -1;
	if ((needs.modes & IP_MODE_MONOTONIC) && !(needs.modes & IP_MODE_COARSE) &&
	    ip_values_is_confined(s->target))
		return ip_error("pid %d: it is under seccomp, or may be soon (libseccomp), and "
				"might be ended for a call of clock_gettime: take --time coarse, "
				"or --clock tsc where that will do",
				s->target->pid);
	if ((needs.modes & IP_MODE_MONOTONIC) && !(needs.modes & IP_MODE_COARSE) &&
	    s->options->follow_fork)
		return ip_error(
			"pid %d: times come from the kernel's clock, by a call that a child which "
			"puts itself under seccomp might be ended for: take --time coarse, or "
			"--clock tsc where that will do, or leave --follow-fork out",
			s->target->pid);
	needs.tables = s->options->follow_fork;
	if (fit(s, area, &needs) < 0 || ip_area_begin(area, s->target->pid, &needs) < 0)
		return -1;
	s->nap.watches = lean;
	s->nap.few_slots = lean && ip_area_lean_give_back(area);
	if ((needs.modes & IP_MODE_MONOTONIC) && !(needs.modes & IP_MODE_COARSE)) {
		/* for hooks whose first read of the clock fails */
		__atomic_store_n(&area->clock->now, ip_clock_now(), __ATOMIC_RELEASE);
		area->may_read = true;
	}
	if (ip_controllers_make_calls(s))
		area->may_read = true;
	area->header->yields = s->options->yields ? area->header->session : 0;
	/* the place that a call comes from may have to be read (runtime/filter.c, rt_call_site) */
	if (s->options->filters.callsite && !ip_values_is_confined(s->target))
		area->may_read = true;
	return 0;
}

void ip_session_choose_clock(const struct ip_session_options *options)
{
	const char *why;

	ip_clock_select(options->clock, &why);
	if (why && (options->payloads.n ||
		    options->drop_hot)) { /* histograms are measured in the process, by the TSC */
		ip_notice("%s: durations may be wrong across CPUs", why);
		ip_clock_select(IP_CLOCK_TSC, NULL);
	} else if (why)
		ip_notice("%s: events take their time from clock_gettime, which costs more "
			  "(--clock tsc reads the TSC all the same)",
			  why);
}

static void add_filter(void *trace, const char *text)
{
	ip_trace_add_filter(trace, text);
}

static int make_trace(struct ip_session *s, const char *command)
{
	const struct ip_session_service *service = s->options->service;
	struct ip_dir_place place = {.parent = -1};

	if (!service)
		return ip_trace_create(s->options->dir, s->target->pid, command, &s->start,
				       &s->trace);
	place.parent = fcntl(service->dir, F_DUPFD_CLOEXEC, 0);
	if (place.parent < 0)
		return ip_error_errno("cannot make %s", s->options->dir);
	snprintf(place.name, sizeof(place.name), "%s", service->name);
	if (ip_trace_create_at(&place, s->options->dir, s->target->pid, command, &s->start,
			       &s->trace) < 0)
		return -1;
	if (!s->options->rotate)
		ip_trace_share_limit(s->trace, service->written);
	return 0;
}

int ip_session_begin_trace(struct ip_session *s, const struct ip_plan *plan,
			   const struct ip_modules *modules)
{
	_cleanup_free_ char *command = ip_proc_command(s->target->pid);
	uint64_t max_size;
	bool down;
	int made;

	/* an fperf that was killed has left its counters in the target */
	if (ip_pmu_clean(s->target, s->area) < 0)
		ip_notice("%s", ip_error_message());
	if (ip_follow_fork_restore_dead(s->area, s->target, s->options->max_stop_ns) < 0 ||
	    ip_session_begin_area(s, s->area, plan, modules) < 0)
		return -1;
	down = ip_delegation_put_down();
	made = make_trace(s, command);
	ip_delegation_take_up(down);
	if (made < 0)
		return -1;
	if (ip_filters_begin(&s->options->filters, s->area, s->target, &s->start) < 0)
		return -1;
	if (ip_filters_any(&s->options->filters))
		ip_filters_describe(&s->options->filters, add_filter, s->trace);
	if (s->options->filters.callsite && ip_trace_add_others(s->trace, plan, modules) < 0)
		return -1;
	if (ip_clock_selected() == IP_CLOCK_MONOTONIC)
		ip_trace_add_clock(s->trace, "monotonic");
	if (s->options->compress) {
		if (ip_trace_compress(s->trace) < 0)
			return -1;
		ip_trace_add_compressed(s->trace, 0);
	}
	max_size = s->options->max_size
			   ? s->options->max_size
			   : default_max_size(ip_trace_dirfd(s->trace), &s->summary->limit_by);
	if (s->options->rotate && ip_trace_rotate(s->trace, s->options->rotate, max_size) < 0)
		return -1;
	for (size_t i = 0; i < s->selections.n; i++)
		ip_trace_add_selection(s->trace, s->selections.items[i].text);
	if (ip_trace_begin_journal(s->trace, s->area->header->session, max_size) < 0)
		return -1;
	ip_area_set_trace(s->area, s->options->dir);
	if (ip_session_begin_collector(s, max_size) < 0 || ip_session_kernel_begin(s) < 0)
		return -1;
	if ((s->selections.rules || ip_controllers_count(s)) &&
	    ip_counters_create(s->area, s->user.path ? &s->user : NULL, &s->counters) < 0)
		return -1;
	ip_counters_set_kind(s->counters, ip_controllers_meters(s));
	ip_counters_save_timed(s->counters, s->options->save_timed);
	ip_collector_set_counters(s->collector, s->counters);
	return ip_controllers_begin(s);
}

static int64_t add_signature(void *trace, const char *text)
{
	return ip_trace_add_signature(trace, text);
}

int ip_session_plan_values(struct ip_session *s, struct ip_plan *plan,
			   const struct ip_modules *modules, const struct ip_value_options *options)
{
	const struct ip_signatures signatures = {s->trace, add_signature};

	return ip_values_plan(plan, s->target, modules, options, s->area, &signatures,
			      &s->summary->value_gaps);
}
