/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a session: it goes idle, and writes the last lines of the trace.
 */
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/process_set.h"
#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/inject/thread_areas.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/plan/window/area_window.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/ptrace/syscall_restart.h"
#include "session/follow/follow_exec.h"
#include "session/kernel_events.h"
#include "session/pmu_leftovers.h"
#include "session/process_names.h"
#include "session/session_private.h"
#include "session/stacks.h"
#include "session/thread_names.h"

#define LOCK_NS 65000000000ull /* longer than another iprobe tries (stop.h) */

/* Ends the recording now, even if it takes a while until the threads can be stopped: hooks look at
 * the gate first. */
static void close_gate(struct ip_session *s)
{
	const uint32_t closed = 0;

	ip_target_write(s->target, s->target->anchor.gate, &closed, sizeof(closed));
}

/* Lets the target run until the next try. */
static void rest(struct ip_session *s)
{
	const uint64_t nap =
		ip_stops_of(s->target)->asleep ? IP_SESSION_TRY_NS / 5 : IP_SESSION_TRY_NS;

	if (ip_collector_poll(s->collector) < 0)
		s->write_failed = true;
	ip_stop_rest(s->target, nap, NULL);
}

/* Waits for the patch lock. An `iprobe detach` that runs at the same time may hold the lock for as
 * long as it waits for a thread; then it puts our sites back. */
static int await_lock(struct ip_session *s)
{
	const uint64_t began = ip_now_ns();
	int got;

	while ((got = ip_area_try_patch(s->area, s->target->pid)) == 0) {
		if (!ip_target_alive(s->target) || ip_now_ns() - began > LOCK_NS)
			return ip_area_lock_patch(s->area, s->target->pid);
		rest(s);
	}
	return got < 0 ? -1 : 0;
}

/* Turns all sites back into NOPs. Unlike at the start of a session we go on trying, since sites
 * stay live if we do not succeed. No stop is longer than the user allowed. */
static int restore_all(struct ip_session *s)
{
	struct ip_patch_result result = {0};
	bool said = false;
	uint64_t began;
	int ret = -1;

	if (await_lock(s) < 0)
		return -1;
	began = ip_now_ns();
	if (ip_target_alive(s->target) && ip_session_switch_idle(s, &result)) {
		ip_area_unlock_patch(s->area);
		return 0;
	}
	if (s->options->no_stop && ip_target_alive(s->target)) {
		if (ip_session_remap_idle(s, &s->modules, "detach", IP_REMAP_FIND_NS, &result) ==
		    0) {
			ip_area_unlock_patch(s->area);
			return 0;
		}
		if (ip_target_alive(s->target))
			ip_notice("%s; its sites are put back in a stop", ip_error_message());
	}
	while (ip_target_alive(s->target)) {
		ip_stop_let_go(s->target);
		if (ip_follow_dlopen_refresh(s) < 0)
			break;
		ret = ip_restore(s->target, &s->modules, s->options->max_stop_ns, &result);
		ip_session_note_stop(s, "detach", &result);
		if (ret == 0 || !ip_stop_go_on(s->target, began, &said))
			break;
		rest(s);
	}
	ip_area_unlock_patch(s->area);
	if (ret == 0)
		ip_patch_settle(s->target, &result, IP_SESSION_SETTLE_NS);
	free(result.inside);
	return ret;
}

/* Gives the target back the address space that the session needed. If a thread may be in a hook
 * yet, or none can be borrowed now, the end of the next session does it, or iprobe detach. */
static void give_space(struct ip_session *s)
{
	if (!s->area || s->is_others || s->execed || !ip_target_alive(s->target))
		return;
	ip_area_window_give(s->target, s->area, !s->options->no_stop);
}

int ip_session_go_idle(struct ip_session *s)
{
	int ret = 0;

	ip_end_time_notice(s);
	ip_session_look_at_cpu(s, true);
	ip_session_watch_names(s, true);
	if (s->followed)
		ip_follow_fork_allow(s->followed, false);
	/* an iprobe that asks from now on finds no session */
	ip_control_destroy(ip_steal_ptr(s->control));
	if (s->collector)
		ip_area_set_ended(s->area);
	ip_delegation_restore_only();
	/* The time first: iprobe may wait for a CPU between the two, and then the target would seem
	 * to have been recorded meanwhile. Events that come after it are the trace's all the same.
	 */
	ip_end_time_idle(s);
	if (s->live && ip_target_alive(s->target))
		close_gate(s);
	if (s->live && ip_target_alive(s->target)) {
		ret = restore_all(s);
		s->live = ret < 0;
		if (ret == 0 && ip_target_alive(s->target))
			ip_session_unmap_copies(s, "detach");
		/* a target that ends has lost its memory some time before its end is seen */
		if (ret < 0 && (!ip_target_alive(s->target) || ip_target_image_is_gone(s->target)))
			ret = 0;
		if (ret < 0)
			ip_error_prefix("sites are still live (iprobe detach %d puts them back)",
					s->target->pid);
	}
	ip_end_time_restore(s);
	if (!s->collector) {
		if (ret == 0) /* it may have mapped more before it failed */
			give_space(s);
		return ret;
	}
	ip_end_time_idle_elsewhere(s);
	ip_follow_fork_restore(s->followed);
	/* if no thread can be borrowed for this now, the next session does it */
	if (s->options->follow_fork && ret == 0 && ip_target_alive(s->target))
		ip_bounds_set_inherited(s->target, false);
	for (uint64_t limit = ip_now_ns() + IP_SESSION_SETTLE_NS;
	     (ip_target_alive(s->target) || s->options->follow_fork) &&
	     ip_collector_in_flight(s->collector) && ip_now_ns() < limit;)
		ip_session_nap(200000);
	if (ret == 0 && ip_controllers_program(s) && ip_target_alive(s->target) &&
	    ip_pmu_clean(s->target, s->area) < 0 && ip_target_alive(s->target))
		ip_notice("%s", ip_error_message());
	if (!s->write_failed && ip_collector_end(s->collector) < 0) {
		s->write_failed = true;
		return -1;
	}
	if (ret == 0)
		give_space(s);
	return ret;
}

int ip_session_save_counts(struct ip_session *s)
{
	ip_counters_collect(s->counters);
	return ip_counters_save(s->counters, s->trace);
}

void ip_session_walk_stacks(struct ip_session *s, bool last)
{
	if (s->stacks && !ip_stacks_step(s->stacks, s->target, s->trace, last))
		ip_stacks_destroy(ip_steal_ptr(s->stacks));
}

void ip_session_watch_names(struct ip_session *s, bool last)
{
	if (!s->collector)
		return;
	if (!s->thread_names)
		s->thread_names = ip_thread_names_create();
	if (s->thread_names) /* names are no reason to end a recording */
		ip_thread_names_step(s->thread_names, s->area, s->target, s->followed, s->trace,
				     last);
	if (!s->process_names)
		s->process_names = ip_process_names_create(s->launched);
	if (s->process_names)
		ip_process_names_step(s->process_names, s->target, s->execed && !s->follow_exec,
				      s->followed, s->trace, last);
}

void ip_session_add_names(const struct ip_session *s, struct ip_trace *trace)
{
	char path[80], name[64];

	/* after an exec it would be the name of a program that is not recorded */
	if (ip_thread_names_has(s->thread_names, s->target->inner_pid) ||
	    (s->execed && !s->follow_exec))
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", s->target->pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (file && fgets(name, sizeof(name), file) && !ip_thread_names_are_others(s->target)) {
		name[strcspn(name, "\n")] = '\0';
		ip_trace_add_thread(trace, s->target->inner_pid, name, s->start.tsc);
	}
}

const char *ip_session_end_text(const struct ip_session_summary *summary)
{
	return summary->end == IP_END_UNTIL ? summary->until_said
					    : ip_end_reason_text(summary->end);
}

/* A process that has recorded, by our number. In another namespace we have those of the target and
 * of children that live. */
static void add_recorded(void *context, uint32_t inner)
{
	const struct ip_session *s = context;
	struct ip_process_set *processes = s->options->service->processes;
	pid_t pid = inner;

	if (s->target->pid != s->target->inner_pid)
		pid = inner == (uint32_t)s->target->inner_pid
			      ? s->target->pid
			      : ip_follow_fork_outer_pid(s->followed, inner);
	if (pid)
		ip_process_set_add(processes, pid);
	else
		ip_process_set_add_unknown(processes, 1);
}

int ip_session_finish(struct ip_session *s, enum ip_end_reason reason)
{
	struct ip_session_summary *sum = s->summary;
	struct ip_collector_stats stats;
	struct ip_coarse_clock_stats coarse_clock;
	int saved;

	ip_collector_priority(false);
	ip_session_tell_stops(s, "detach");
	sum->end = reason;
	sum->length_ns = ip_now_ns() - s->start_ns;
	if (!sum->recorded) {
		ip_kernel_recorder_destroy(ip_steal_ptr(s->kernel)); /* it writes there */
		ip_trace_discard(s->trace);
		s->trace = NULL;
		return 0;
	}
	if (!s->idle_tsc) /* it did not go idle: it was broken off */
		ip_end_time_idle(s);
	ip_trace_add_idle(s->trace, s->idle_tsc);
	if (ip_collector_finish(s->collector) < 0)
		return -1;
	if (ip_collector_full(s->collector)) /* perhaps because of what was drained last */
		sum->end =
			ip_collector_no_space(s->collector) ? IP_END_NO_SPACE : IP_END_SIZE_LIMIT;
	ip_session_kernel_end(s);
	saved = s->write_failed ? 0 : ip_session_save_counts(s);
	ip_controllers_end(s);
	sum->counting = ip_payload_rules_count(s->selections.rules) || sum->dropped;
	sum->calls = ip_counters_calls(s->counters);
	ip_collector_stats(s->collector, &stats);
	ip_trace_rotated(s->trace, &sum->rotated);
	sum->rotates = ip_trace_rotates(s->trace);
	if (sum->rotates)
		ip_trace_add_rotated(s->trace);
	sum->events = stats.events - sum->rotated.events;
	sum->lost = stats.lost;
	sum->overwrites = s->options->overwrite;
	sum->overwritten = stats.overwritten;
	if (s->options->overwrite)
		ip_trace_add_overwritten(s->trace, stats.overwritten);
	sum->unserved = stats.unserved;
	sum->unfinished = stats.unfinished;
	sum->invalid = stats.invalid;
	sum->filtered = stats.filtered;
	if (ip_filters_any(&s->options->filters))
		ip_trace_add_filtered(s->trace, stats.filtered);
	if (sum->end == IP_END_SIZE_LIMIT)
		ip_trace_add_limit(s->trace, sum->limit, sum->limit_by);
	if (sum->end == IP_END_UNTIL && sum->until)
		ip_trace_add_until(s->trace, s->options->until.items[sum->until - 1].text);
	sum->plain = stats.plain;
	sum->written = ip_trace_bytes(s->trace);
	if (ip_trace_compresses(s->trace) && stats.plain)
		ip_trace_add_compressed(s->trace, stats.plain);
	sum->processes = stats.processes;
	if (s->options->service && s->options->service->processes)
		ip_collector_each_recorded(s->collector, add_recorded, s);
	/* `iprobe run` goes live while there is only one thread */
	if (stats.threads > sum->threads)
		sum->threads = stats.threads;
	sum->children_restored = s->restored_before + ip_follow_fork_restored(s->followed);
	sum->renewed = ip_stops_of(s->target)->renewed.n;
	sum->renewed_latest_ns = ip_renewed_calls_latest(&ip_stops_of(s->target)->renewed);
	ip_restart_describe(s->target, sum->renewed_last, sizeof(sum->renewed_last));
	ip_site_monitor_clear(s->watch, s->trace);
	sum->disturbed = s->disturbed_before + ip_site_monitor_summary(s->watch).disturbed;
	ip_filters_tell_names(&s->options->filters, &s->names, s->target->pid);
	ip_session_add_names(s, s->trace);
	ip_session_explain(s);
	ip_session_walk_stacks(s, true);
	if (s->coarse_clock) {
		ip_session_condense(s);
		ip_coarse_clock_stop(ip_steal_ptr(s->coarse_clock), &coarse_clock);
		ip_trace_add_coarse(s->trace, coarse_clock.late, coarse_clock.latest,
				    coarse_clock.refreshes, coarse_clock.cpu_ns);
	}
	if (ip_trace_finish(s->trace, sum->events, stats.lost - stats.unserved, stats.unserved,
			    stats.invalid, ip_session_end_text(sum)) < 0)
		return -1;
	if (ip_session_kernel_describe(s) < 0)
		return -1;
	ip_end_time_fill(s);
	/* The clock's rate is known for sure only at the end: before that, a recording that was
	 * resumed may have been too short. */
	sum->kept_from_ns = ip_trace_ns(s->trace, sum->rotated.tsc);
	if (s->live_tsc) /* as readers tell it */
		sum->length_ns =
			ip_trace_ns(s->trace, s->idle_tsc) - ip_trace_ns(s->trace, s->live_tsc);
	else if (s->options->resume)
		sum->length_ns = ip_trace_ns(s->trace, s->idle_tsc);
	if (s->resumed_tsc && s->options->resume) /* live_tsc is the first iprobe's */
		sum->resumed_ns =
			ip_trace_ns(s->trace, s->idle_tsc) - ip_trace_ns(s->trace, s->resumed_tsc);
	if (sum->until_ns > sum->length_ns)
		sum->until_ns = sum->length_ns;
	return saved;
}

void ip_session_clear(struct ip_session *s)
{
	ip_coarse_clock_stop(s->coarse_clock, NULL);
	ip_kernel_recorder_destroy(s->kernel);
	ip_follow_dlopen_destroy(s->follow);
	ip_follow_exec_destroy(s->follow_exec);
	ip_follow_fork_destroy(s->followed);
	ip_control_destroy(s->control);
	ip_site_monitor_destroy(s->watch);
	ip_stacks_destroy(s->stacks);
	ip_nap_clear(s);
	ip_thread_names_destroy(s->thread_names);
	ip_process_names_destroy(s->process_names);
	ip_thread_areas_destroy(s->threads);
	ip_collector_destroy(s->collector);
	ip_counters_destroy(s->counters);
	ip_controllers_destroy(s);
	ip_trace_close(s->trace);
	if (s->area && s->area->nsubbufs && !s->is_others)
		ip_area_end(s->area);
	ip_area_close(s->area);
	ip_selections_clear(&s->selections);
	ip_plan_clear(&s->plan);
	ip_plan_conflicts_clear(&s->conflicts);
	ip_modules_clear(&s->modules);
	free(s->counted);
	ip_target_close(s->target);
}
