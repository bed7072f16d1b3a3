/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session: going live, going idle, the last words. Between the two, turn.c.
 */
#include "hotpatcher/session.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/become.h"
#include "hotpatcher/catalog.h"
#include "hotpatcher/foreign.h"
#include "hotpatcher/fperf.h"
#include "hotpatcher/parts.h"
#include "hotpatcher/restart.h"
#include "hotpatcher/restore.h"
#include "hotpatcher/session_internal.h"
#include "hotpatcher/stop.h"

#define GIB		   (1ull << 30)
#define FOREIGN_TRIES	   3
#define LOAD_TRIES	   10
#define TRY_NS		   5000000ull
#define GO_IDLE_NS	   5000000000ull /* how long going idle is tried */
#define MAX_DETACH_STOP_NS 1000000000ull
#define SETTLE_NS	   200000000ull
#define HURRY		   (-10) /* nice value: weighs nine times what 0 does */

static void nap(uint64_t ns)
{
	const struct timespec t = {ns / 1000000000, ns % 1000000000};

	nanosleep(&t, NULL);
}

static bool is_counted(const struct ip_session *s, uint32_t number)
{
	return number > IP_NUMBER_MAX || (s->counted[number / 8] & 1 << number % 8);
}

void ip_session_count(struct ip_session *s, const struct ip_plan *plan)
{
	if (!s->counted)
		s->counted = calloc(1, IP_NUMBER_MAX / 8 + 1);
	if (!s->counted)
		return;
	for (size_t i = 0; i < plan->nchanges; i++)
		s->summary->sites += !is_counted(s, plan->functions[plan->function_of[i]].number);
	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];

		if (is_counted(s, f->number))
			continue;
		/* the number of the other instance is next to it (ip_plan_bind) */
		s->summary->functions += !is_counted(s, f->inlined ? f->number - 1 : f->number + 1);
		s->counted[f->number / 8] |= 1 << f->number % 8;
	}
}

void ip_session_add_stop(struct ip_session *s, const struct ip_stop_record *stop)
{
	struct ip_session_summary *sum = s->summary;

	if (sum->nstops < IP_MAX_STOPS) {
		sum->stops[sum->nstops++] = *stop;
	} else {
		sum->more_stops++;
		sum->more_ns = stop->ns > sum->more_ns ? stop->ns : sum->more_ns;
	}
}

void ip_session_note_stop(struct ip_session *s, const char *kind, const struct ip_patch_result *r)
{
	for (size_t i = 0; i < r->nstops; i++) {
		ip_session_add_stop(s, &r->stops[i]);
		if (s->trace)
			ip_trace_add_stop(s->trace, kind, &r->stops[i]);
	}
	s->summary->more_stops += r->more_stops;
	s->summary->more_ns = r->more_ns > s->summary->more_ns ? r->more_ns : s->summary->more_ns;
}

/* Where an iprobe was killed sites are still live. The session lock is ours, so it is dead. */
static int restore_leftovers(struct ip_session *s, const struct ip_modules *modules)
{
	struct ip_patch_result result = {0};
	int ret = s->options->no_stop ? ip_session_flip_idle(s, modules, "leftovers", &result)
				      : ip_restore(s->target, modules, s->options->max_stop_ns, &result);

	if (ret == 0 && result.sites) {
		fprintf(stderr,
			"iprobe: pid %d: put back %zu sites that an earlier iprobe had left live (--resume "
			"goes on with its "
			"recording instead)\n",
			s->target->pid, result.sites);
		ip_patch_settle(s->target, &result, SETTLE_NS);
	}
	free(result.inside);
	return ret;
}

static uint64_t default_max_size(const char *dir)
{
	struct statvfs v;
	uint64_t tenth;

	if (statvfs(dir, &v) < 0)
		return GIB;
	tenth = (uint64_t)v.f_bavail * v.f_frsize / 10;
	return tenth < GIB ? tenth : GIB;
}

int ip_session_begin(struct ip_session *s, uint64_t max_size)
{
	if (s->area->header->modes & IP_MODE_COARSE) {
		if (ip_pulse_start(s->area, ip_trace_dir(s->trace), &s->pulse) < 0)
			return -1;
		ip_trace_add_coarse(s->trace, NULL);
	}
	/* the family first: who has a collector has one */
	if (ip_family_create(s->area, s->target, s->options->follow_fork, s->options->max_stop_ns,
			     &s->family) < 0 ||
	    ip_collector_create(s->area, s->trace, s->target, ip_trace_rotates(s->trace) ? UINT64_MAX : max_size, &s->collector) <
		    0 ||
	    ((s->area->header->modes & IP_MODE_OVERWRITE) && ip_collector_overwrite(s->collector) < 0))
		return -1;
	/* the user's own, though we may be in a hurry just now */
	ip_collector_set_nice(s->collector, s->hurries ? s->own_nice : getpriority(PRIO_PROCESS, 0));
	if (s->options->follow_fork)
		ip_collector_set_family(s->collector, ip_family_is_gone, s->family);
	if (ip_control_create(s->area, &s->control) < 0)
		fprintf(stderr, "iprobe: pid %d: %s: a second iprobe attach cannot change it\n",
			s->target->pid, ip_error_message());
	return 0;
}

int ip_session_begin_area(const struct ip_session *s, struct ip_area *area, const struct ip_plan *plan,
			  const struct ip_modules *modules)
{
	struct ip_area_needs needs = {
		.memory = s->options->memory,
		.modes = (s->options->coarse ? IP_MODE_COARSE : 0) |
			 (ip_filters_any(&s->options->filters) ? IP_MODE_CAREFUL : 0) |
			 (ip_clock_selected() == IP_CLOCK_MONOTONIC ? IP_MODE_MONOTONIC : 0) |
			 (s->options->overwrite ? IP_MODE_OVERWRITE : 0)};

	if (s->selections.rules || s->drops || s->options->fperf)
		ip_counters_needs(plan, s->selections.rules, s->user.path ? &s->user : NULL, modules, area,
				  &needs);
	if (s->options->fperf && ip_fperf_check(s->options->fperf, s->target, plan, &needs.room) < 0)
		return -1;
	if ((needs.modes & IP_MODE_MONOTONIC) && !(needs.modes & IP_MODE_COARSE) &&
	    ip_values_is_confined(s->target))
		return ip_error("pid %d: it is under seccomp, or may be soon (libseccomp), and might be "
				"ended for a call of clock_gettime: take "
				"--time coarse, or --clock tsc where that will do",
				s->target->pid);
	if ((needs.modes & IP_MODE_MONOTONIC) && !(needs.modes & IP_MODE_COARSE) && s->options->follow_fork)
		return ip_error("pid %d: times come from the kernel's clock, by a call that a child which "
				"puts itself under seccomp might be "
				"ended for: take --time coarse, or --clock tsc where that will do, or leave "
				"--follow-fork out",
				s->target->pid);
	if (ip_area_begin(area, s->target->pid, &needs) < 0)
		return -1;
	if ((needs.modes & IP_MODE_MONOTONIC) && !(needs.modes & IP_MODE_COARSE)) {
		/* for hooks whose first call of the clock fails */
		__atomic_store_n(&area->clock->now, ip_clock_now(), __ATOMIC_RELEASE);
		__atomic_store_n(&area->header->may_read, 1, __ATOMIC_RELEASE);
	}
	if (s->options->fperf && ip_fperf_makes_calls(s->options->fperf))
		__atomic_store_n(&area->header->may_read, 1, __ATOMIC_RELEASE);
	return 0;
}

void ip_session_choose_clock(const struct ip_session_options *options)
{
	const char *why;

	ip_clock_select(options->clock, &why);
	if (why && (options->payloads.n ||
		    options->drop_hot)) { /* histograms are measured in the process, by the TSC */
		fprintf(stderr, "iprobe: %s: durations may be wrong across CPUs\n", why);
		ip_clock_select(IP_CLOCK_TSC, NULL);
	} else if (why)
		fprintf(stderr,
			"iprobe: %s: events take their time from clock_gettime, which costs more (--clock "
			"tsc reads the TSC all the same)\n",
			why);
}

static int begin_trace(struct ip_session *s, const struct ip_plan *plan, const struct ip_modules *modules)
{
	_cleanup_free_ char *command = ip_proc_command(s->target->pid);
	uint64_t max_size;

	if (ip_family_restore_dead(s->area, s->target, s->options->max_stop_ns) < 0 ||
	    ip_session_begin_area(s, s->area, plan, modules) < 0)
		return -1;
	if (ip_trace_create(s->options->dir, s->target->pid, command, &s->start, &s->trace) < 0)
		return -1;
	if (ip_filters_begin(&s->options->filters, s->area, s->target, s->trace, &s->start) < 0)
		return -1;
	if (s->options->filters.callsite)
		ip_trace_add_others(s->trace, modules);
	if (ip_clock_selected() == IP_CLOCK_MONOTONIC)
		ip_trace_add_clock(s->trace, "monotonic");
	if (s->options->compress) {
		if (ip_trace_compress(s->trace) < 0)
			return -1;
		ip_trace_add_compressed(s->trace, 0);
	}
	max_size = s->options->max_size ? s->options->max_size : default_max_size(s->options->dir);
	if (s->options->rotate && ip_trace_rotate(s->trace, s->options->rotate, max_size) < 0)
		return -1;
	for (size_t i = 0; i < s->selections.n; i++)
		ip_trace_add_selection(s->trace, s->selections.items[i].text);
	if (ip_trace_begin_journal(s->trace, s->area->header->session, max_size) < 0)
		return -1;
	if (ip_session_begin(s, max_size) < 0)
		return -1;
	if ((s->selections.rules || s->drops || s->options->fperf) &&
	    ip_counters_create(s->area, s->user.path ? &s->user : NULL, &s->counters) < 0)
		return -1;
	if (s->options->fperf && ip_fperf_begin(s->options->fperf, s->area) < 0)
		return -1;
	ip_counters_set_fperf(s->counters, s->options->fperf);
	ip_collector_set_counters(s->collector, s->counters);
	ip_collector_set_hot(s->collector, ip_drops_hot(s->drops));
	return 0;
}

void ip_session_hurry(struct ip_session *s, bool start)
{
	if (start) {
		s->own_nice = getpriority(PRIO_PROCESS, 0);
		s->hurries = s->own_nice > HURRY && setpriority(PRIO_PROCESS, 0, HURRY) == 0;
	} else if (s->hurries) {
		s->hurries = setpriority(PRIO_PROCESS, 0, s->own_nice) < 0;
	}
}

void ip_session_priority(bool recording)
{
	const struct sched_param param = {.sched_priority = recording};

	sched_setscheduler(0, (recording ? SCHED_RR : SCHED_OTHER) | SCHED_RESET_ON_FORK, &param);
}

/* What somebody else changes between our looks and the stop is left out too; then it is tried again. */
static int patch_live(struct ip_session *s, struct ip_plan *plan, struct ip_foreign *foreign,
		      struct ip_patch_result *result)
{
	for (int i = 0;; i++) {
		size_t known = foreign->sites;
		int ret;

		s->live = true; /* from here on: even a failure leaves nothing to chance */
		free(result->inside);
		ret = ip_parts_apply(s->target, plan->changes, plan->nchanges, s->options->max_stop_ns,
				     s->area->header->session, IP_SESSION_TRIES, result);
		ip_session_note_stop(s, "attach", result);
		if (ret < 0 && i < FOREIGN_TRIES) {
			_cleanup_free_ char *why = strdup(ip_error_message());

			if (ip_foreign_leave_out(plan, s->target, foreign) < 0)
				return -1;
			if (foreign->sites > known)
				continue;
			ip_error("%s", why ? why : "out of memory");
		}
		return ret;
	}
}

/* Where the user's payload is in this image. Another one's must have the same memory: there it goes on. */
static int find_user(struct ip_session *s, const struct ip_modules *modules)
{
	struct ip_user user = {.path = s->options->payloads.object};

	if (!user.path)
		return 0;
	if (ip_user_find(s->target, modules, user.path, s->launched, &user) < 0)
		return -1;
	if (s->trace && (user.cell_size != s->user.cell_size || user.scratch_size != s->user.scratch_size))
		return ip_error("pid %d: %s is another one in the program that it has executed",
				s->target->pid, user.path);
	s->user = user;
	return 0;
}

static int go_live(struct ip_session *s, const struct ip_modules *modules, struct ip_plan *plan)
{
	_cleanup_foreign_ struct ip_foreign foreign = {0};
	struct ip_patch_result result = {0};
	int ret = -1;

	if (restore_leftovers(s, modules) < 0)
		return -1;
	/* another image of a session that was changed by request: what is taken away everywhere may be all there is */
	if (s->trace && s->selections.n > 1) {
		if (ip_plan_match(modules, &s->selections, plan) < 0)
			return -1;
		if (!plan->nchanges)
			return 0;
	} else if (ip_plan_select(s->target, modules, &s->selections, plan) < 0) {
		return -1;
	}
	if (ip_foreign_leave_out(plan, s->target, &foreign) < 0 || find_user(s, modules) < 0)
		return -1;
	if (!s->trace && (ip_filters_check(&s->options->filters, plan, s->target->pid) < 0 ||
			  begin_trace(s, plan, modules) < 0))
		return -1;
	/* before any site of this image is live */
	s->area->header->user_mask = s->user.mask;
	s->area->header->user_call = s->user.call;
	if ((s->options->values.args || s->options->values.retval) &&
	    ip_values_plan(plan, s->target, modules, &s->options->values, s->area, s->trace,
			   &s->summary->value_gaps) < 0)
		return -1;
	if (ip_area_lock_patch(s->area, s->target->pid) < 0)
		return -1;
	if (ip_plan_bind(plan, s->target, s->area) < 0 ||
	    ip_filters_add_plan(&s->options->filters, s->area, plan) < 0 ||
	    ip_trace_add_plan(s->trace, plan, modules, s->area) < 0 ||
	    (s->counters && ip_counters_plan(s->counters, plan, s->trace) < 0) || ip_trace_sync(s->trace) < 0)
		goto out;
	ip_family_allow(s->family, true); /* a child may be forked as soon as the stop is over */
	ret = s->options->no_stop ? ip_session_flip_live(s, plan, &result)
				  : patch_live(s, plan, &foreign, &result);
	if (ret == 0)
		ret = ip_session_watch(s, plan);
	if (ret == 0) {
		ip_session_priority(true);
		s->summary->recorded = true;
		/* another image gives its numbers anew */
		free(ip_steal_ptr(s->counted));
		ip_session_count(s, plan);
		s->summary->left_out += plan->left_out;
		s->summary->foreign += foreign.sites;
		ip_foreign_tell(&foreign, s->target->pid);
		s->summary->pages += result.pages;
		s->summary->threads = result.threads;
	} /* else what was written was written back; going idle makes sure of it */
out:
	ip_area_unlock_patch(s->area);
	free(result.inside);
	return ret;
}

static bool any_probes(const struct ip_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++)
		if (modules->items[i].list && modules->items[i].list->header->nprobes)
			return true;
	return false;
}

int ip_session_select(struct ip_session *s)
{
	if (ip_payload_rules_select(&s->options->payloads, s->options->functions, &s->selections) < 0)
		return -1;
	s->selections.fperf = s->options->fperf;
	if (ip_payload_rules_matter(&s->options->payloads))
		s->selections.rules = &s->options->payloads;
	if (s->options->drop_hot) {
		s->drops = ip_drops_create(s->options->drop_hot);
		s->selections.drops = s->drops;
		return s->drops ? 0 : -1;
	}
	return 0;
}

int ip_session_check_lists(const struct ip_target *target, const struct ip_modules *modules)
{
	char what[32];

	snprintf(what, sizeof(what), "pid %d", target->pid);
	return any_probes(modules) ? ip_catalog_check_used(what)
				   : 0; /* where there are none, that will be said */
}

void ip_session_tell_unused(const struct ip_session *s)
{
	const struct ip_payload_rules *rules = &s->options->payloads;
	_cleanup_free_ char *unused = ip_selection_unused(s->selections.items[0].selection);

	if (unused)
		fprintf(stderr, "iprobe: pid %d: nothing matches %s\n", s->target->pid, unused);
	for (size_t i = 0; i < rules->n; i++) {
		_cleanup_free_ char *missing = ip_selection_unused(rules->items[i].selection);

		if (missing)
			fprintf(stderr, "iprobe: pid %d: nothing matches %s of --payload %s\n",
				s->target->pid, missing, rules->items[i].text);
	}
	ip_filters_tell_samples(&s->options->filters, s->target->pid);
}

static int try_go_live(struct ip_session *s, bool allow_none)
{
	struct ip_plan plan = {0};
	int ret;

	ip_watch_clear(s->watch, s->trace);
	ip_modules_clear(&s->modules);
	if (ip_modules_load(s->target, &s->modules) < 0)
		return -1;
	if (!allow_none && ip_session_check_lists(s->target, &s->modules) < 0)
		return -1;
	if (allow_none && !any_probes(&s->modules)) {
		ip_modules_no_probes(s->target, &s->modules); /* leaves the reason, should it come to that */
		ret = 1;
	} else {
		ret = go_live(s, &s->modules, &plan);
		if (ret == 0)
			ret = ip_follow_begin(s);
	}
	ip_plan_clear(&plan);
	return ret;
}

/* Whether a library of which sites were to go live has been unloaded while we looked at it. */
static bool has_gone(struct ip_session *s)
{
	_cleanup_free_ char *why = strdup(ip_error_message());
	bool gone = false;

	if (ip_target_refresh(s->target) == 0)
		for (size_t i = 0; i < s->modules.n; i++)
			gone |= s->modules.items[i].list &&
				!ip_module_is_mapped(s->target, &s->modules.items[i]);
	ip_error("%s", why ? why : "out of memory");
	return gone;
}

/* A target that loads and unloads libraries is looked at anew. (What of several stops was made by then is put back first.) */
int ip_session_go_live(struct ip_session *s, bool allow_none)
{
	for (int i = 0;; i++) {
		int ret = try_go_live(s, allow_none);

		if (ret >= 0 || i == LOAD_TRIES || ip_session_interrupted || !ip_target_alive(s->target) ||
		    !has_gone(s))
			return ret;
		nap(TRY_NS);
		if (ip_target_refresh(s->target) < 0)
			return -1;
	}
}

/* Recording ends now, even if it takes a while until the threads can be stopped: hooks look at the gate
 * first. */
static void close_gate(struct ip_session *s)
{
	const uint32_t closed = 0;

	ip_target_write(s->target, s->target->anchor.gate, &closed, sizeof(closed));
}

/* Back to NOPs. Unlike at the start we do not give up at the deadline: it grows, since live sites are worse
 * than a longer stop. */
static int restore_all(struct ip_session *s)
{
	uint64_t limit = ip_now_ns() + GO_IDLE_NS, deadline = s->options->max_stop_ns;
	struct ip_patch_result result = {0};
	int ret = -1;

	if (ip_area_lock_patch(s->area, s->target->pid) < 0)
		return -1;
	if (s->options->no_stop && ip_target_alive(s->target)) {
		if (ip_session_flip_idle(s, &s->modules, "detach", &result) == 0) {
			ip_area_unlock_patch(s->area);
			return 0;
		}
		if (ip_target_alive(s->target))
			fprintf(stderr, "iprobe: %s; its sites are put back in a stop\n", ip_error_message());
	}
	while (ip_target_alive(s->target)) {
		ip_stop_let_go(s->target);
		if (ip_follow_refresh(s) < 0)
			break;
		ret = ip_restore(s->target, &s->modules, deadline, &result);
		ip_session_note_stop(s, "detach", &result);
		if (ret == 0 || ip_now_ns() > limit)
			break;
		deadline = 2 * deadline < MAX_DETACH_STOP_NS ? 2 * deadline : MAX_DETACH_STOP_NS;
		if (ip_collector_poll(s->collector) < 0)
			s->write_failed = true;
		nap(TRY_NS);
	}
	ip_area_unlock_patch(s->area);
	if (ret == 0)
		ip_patch_settle(s->target, &result, SETTLE_NS);
	free(result.inside);
	return ret;
}

int ip_session_go_idle(struct ip_session *s)
{
	int ret = 0;

	if (s->family)
		ip_family_allow(s->family, false);
	ip_control_destroy(ip_steal_ptr(s->control)); /* who asks now finds nobody */
	if (s->live && ip_target_alive(s->target)) {
		close_gate(s);
		ret = restore_all(s);
		s->live = ret < 0;
		if (ret < 0 && !ip_target_alive(s->target))
			ret = 0;
		if (ret < 0)
			ip_error_prefix("sites are still live (iprobe detach %d puts them back)",
					s->target->pid);
	}
	if (!s->collector)
		return ret;
	ip_family_restore(s->family);
	for (uint64_t limit = ip_now_ns() + SETTLE_NS;
	     (ip_target_alive(s->target) || s->options->follow_fork) &&
	     ip_collector_in_flight(s->collector) && ip_now_ns() < limit;)
		nap(200000);
	if (!s->write_failed && ip_collector_flush(s->collector) < 0) {
		s->write_failed = true;
		return -1;
	}
	return ret;
}

int ip_session_save_counts(struct ip_session *s)
{
	ip_counters_collect(s->counters);
	return ip_counters_save(s->counters, s->trace);
}

/* Names of the threads that live at the end. */
void ip_session_add_names(const struct ip_session *s, struct ip_trace *trace)
{
	char path[80], name[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", s->target->pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (file && fgets(name, sizeof(name), file)) {
		name[strcspn(name, "\n")] = '\0';
		ip_trace_add_thread(trace, s->target->pid, name);
	}
}

int ip_session_finish(struct ip_session *s, const char *reason)
{
	struct ip_session_summary *sum = s->summary;
	struct ip_collector_stats stats;
	struct ip_pulse_stats pulse;
	int saved;

	ip_session_priority(false);
	sum->end = reason;
	sum->length_ns = ip_now_ns() - s->start_ns;
	if (!sum->recorded) {
		ip_trace_discard(s->trace);
		s->trace = NULL;
		return 0;
	}
	if (ip_collector_finish(s->collector) < 0)
		return -1;
	if (ip_collector_full(s->collector)) /* maybe by what was drained last */
		sum->end = reason = ip_collector_no_space(s->collector) ? IP_END_NO_SPACE : IP_END_SIZE_LIMIT;
	saved = s->write_failed ? 0 : ip_session_save_counts(s);
	ip_fperf_end(s->options->fperf);
	sum->dropped = ip_drops_summary(s->drops, &sum->dropped_names);
	sum->counting = s->selections.rules || sum->dropped;
	sum->calls = ip_counters_calls(s->counters);
	ip_collector_stats(s->collector, &stats);
	ip_trace_rotated(s->trace, &sum->rotated);
	sum->rotates = ip_trace_rotates(s->trace);
	if (sum->rotates)
		ip_trace_add_rotated(s->trace);
	sum->kept_from_ns = ip_trace_ns(s->trace, sum->rotated.tsc);
	sum->events = stats.events - sum->rotated.events;
	sum->lost = stats.lost;
	sum->overwritten = stats.overwritten;
	if (s->options->overwrite)
		ip_trace_add_overwritten(s->trace, stats.overwritten);
	sum->unserved = stats.unserved;
	sum->invalid = stats.invalid;
	sum->filtered = stats.filtered;
	if (ip_filters_any(&s->options->filters))
		ip_trace_add_filtered(s->trace, stats.filtered);
	sum->plain = stats.plain;
	sum->written = ip_trace_bytes(s->trace);
	if (ip_trace_compresses(s->trace) && stats.plain)
		ip_trace_add_compressed(s->trace, stats.plain);
	sum->processes = stats.processes;
	/* run goes live while there is only one */
	if (stats.threads > sum->threads)
		sum->threads = stats.threads;
	sum->children_restored = s->restored_before + ip_family_restored(s->family);
	sum->renewed = s->target->renewed.n;
	ip_restart_describe(s->target, sum->renewed_last, sizeof(sum->renewed_last));
	ip_watch_clear(s->watch, s->trace);
	sum->disturbed = s->disturbed_before + ip_watch_summary(s->watch).disturbed;
	if (s->options->live_line)
		fputs("\r\033[K", stderr);
	ip_filters_tell_names(&s->options->filters, &s->names, s->target->pid);
	ip_session_add_names(s, s->trace);
	if (s->pulse) {
		ip_pulse_stop(ip_steal_ptr(s->pulse), &pulse);
		ip_trace_add_coarse(s->trace, &pulse);
	}
	return ip_trace_finish(s->trace, sum->events, stats.lost - stats.unserved, stats.unserved, reason) <
			       0
		       ? -1
		       : saved;
}

void ip_session_clear(struct ip_session *s)
{
	ip_pulse_stop(s->pulse, NULL);
	ip_follow_destroy(s->follow);
	ip_become_destroy(s->become);
	ip_family_destroy(s->family);
	ip_control_destroy(s->control);
	ip_watch_destroy(s->watch);
	ip_collector_destroy(s->collector);
	ip_counters_destroy(s->counters);
	ip_drops_destroy(s->drops);
	ip_trace_close(s->trace);
	if (s->area && s->area->nsubbufs && !s->is_others)
		ip_area_end(s->area);
	ip_area_close(s->area);
	ip_selections_clear(&s->selections);
	ip_modules_clear(&s->modules);
	free(s->counted);
	ip_target_close(s->target);
}
