/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session: going live, the loop, going idle. And attach, which is these three in a row.
 */
#include "hotpatcher/session.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/units.h"
#include "hotpatcher/catalog.h"
#include "hotpatcher/family.h"
#include "hotpatcher/restore.h"
#include "hotpatcher/session_internal.h"
#include "hotpatcher/stop.h"
#include "hotpatcher/wake.h"

#define GIB		   (1ull << 30)
#define TRIES		   20
#define CONFINEMENT_NS	   5000000ull /* between looks for seccomp, at least */
#define CONFINEMENT_SHARE  20	      /* of our time go to them, one in so many */
#define TRY_NS		   5000000ull
#define GO_IDLE_NS	   5000000000ull /* how long going idle is tried */
#define MAX_DETACH_STOP_NS 1000000000ull
#define SETTLE_NS	   200000000ull
#define LIVE_LINE_NS	   250000000ull
#define COST_THREAD_NS	   25000ull /* rough costs of a stop, for --dry-run: measured by benchmarks/stop */
#define COST_PAGE_NS	   2500ull

volatile int ip_session_interrupted;

static void nap(uint64_t ns)
{
	const struct timespec t = {ns / 1000000000, ns % 1000000000};

	nanosleep(&t, NULL);
}

static void note_stop(struct ip_session *s, const char *kind, const struct ip_patch_result *r)
{
	if (!r->sites)
		return;
	if (s->summary->nstops < IP_MAX_STOPS)
		s->summary->stop_ns[s->summary->nstops++] = r->stop_ns;
	if (s->trace)
		ip_trace_add_stop(s->trace, kind, r);
}

/* Applies a patch; what may work a moment later is tried again. */
static int apply(struct ip_session *s, struct ip_patch *patch, int64_t gate, struct ip_patch_result *result)
{
	for (int i = 0;; i++) {
		if (ip_patch_apply(patch, s->options->max_stop_ns, gate, result) == 0)
			return 0;
		if (!result->transient || i == TRIES)
			return -1;
		nap(TRY_NS);
	}
}

/* Where an iprobe was killed sites are still live. The session lock is ours, so it is dead. */
static int restore_leftovers(struct ip_session *s, const struct ip_modules *modules)
{
	struct ip_patch_result result;
	int ret = ip_restore(s->target, modules, s->options->max_stop_ns, &result);

	if (ret == 0 && result.sites) {
		fprintf(stderr, "iprobe: pid %d: put back %zu sites that an earlier iprobe had left live\n",
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

static int begin_trace(struct ip_session *s)
{
	_cleanup_free_ char *command = ip_proc_command(s->target->pid);
	uint64_t max_size;

	if (ip_area_begin(s->area, s->target->pid, s->options->memory) < 0)
		return -1;
	if (ip_trace_create(s->options->dir, s->target->pid, command, &s->start, &s->trace) < 0)
		return -1;
	max_size = s->options->max_size ? s->options->max_size : default_max_size(s->options->dir);
	return ip_collector_create(s->area, s->trace, s->target, max_size, &s->collector);
}

/* While we record: a target that keeps every CPU busy would keep us from draining its rings for seconds, and
 * from ending in time. The lowest real-time priority is enough; ordinary users may not have it. */
static void set_priority(bool recording)
{
	const struct sched_param param = {.sched_priority = recording};

	sched_setscheduler(0, (recording ? SCHED_RR : SCHED_OTHER) | SCHED_RESET_ON_FORK, &param);
}

static int go_live(struct ip_session *s, const struct ip_modules *modules, struct ip_plan *plan)
{
	struct ip_patch_result result = {0};
	struct ip_patch *patch = NULL;
	int ret = -1;

	if (restore_leftovers(s, modules) < 0 || ip_plan_select(s->target, modules, s->selection, plan) < 0)
		return -1;
	if (!s->trace && begin_trace(s) < 0)
		return -1;
	if ((s->options->values.args || s->options->values.retval) &&
	    ip_values_plan(plan, s->target, modules, &s->options->values, s->area, s->trace, &s->summary->value_gaps) < 0)
		return -1;
	if (ip_area_lock_patch(s->area, s->target->pid) < 0)
		return -1;
	if (ip_plan_bind(plan, s->target, s->area) < 0 ||
	    ip_trace_add_plan(s->trace, plan, modules, s->area) < 0 || ip_trace_sync(s->trace) < 0)
		goto out;
	if (ip_patch_prepare(s->target, plan->changes, plan->nchanges, &patch) < 0)
		goto out;
	s->live = true; /* from here on: even a failure leaves nothing to chance */
	ret = apply(s, patch, s->area->header->session, &result);
	if (ret == 0) {
		set_priority(true);
		note_stop(s, "attach", &result);
		s->summary->recorded = true;
		s->summary->sites += plan->nchanges;
		s->summary->functions += plan->ndistinct;
		s->summary->left_out += plan->left_out;
		s->summary->pages += result.pages;
		s->summary->threads = result.threads;
	} /* else what was written was written back; going idle makes sure of it */
out:
	ip_area_unlock_patch(s->area);
	ip_patch_destroy(patch);
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

/* A list that the user named and that fits nothing is a mistake. */
static int check_lists(const struct ip_target *target, const struct ip_modules *modules)
{
	char what[32];

	snprintf(what, sizeof(what), "pid %d", target->pid);
	return any_probes(modules) ? ip_catalog_check_used(what) : 0; /* where there are none, that will be said */
}

int ip_session_go_live(struct ip_session *s, bool allow_none)
{
	struct ip_plan plan = {0};
	int ret;

	ip_modules_clear(&s->modules);
	if (ip_modules_load(s->target, &s->modules) < 0)
		return -1;
	if (!allow_none && check_lists(s->target, &s->modules) < 0)
		return -1;
	if (allow_none && !any_probes(&s->modules)) {
		ip_modules_no_probes(s->target, &s->modules); /* leaves the reason, should it come to that */
		ret = 1;
	} else {
		ret = go_live(s, &s->modules, &plan);
	}
	ip_plan_clear(&plan);
	return ret;
}

static void show_live_line(struct ip_session *s, uint64_t now)
{
	struct ip_collector_stats stats;
	char events[32], rate[32], lost[32], size[16], left[16] = "";
	uint64_t total;

	ip_collector_stats(s->collector, &stats);
	total = stats.events + stats.pending;
	if (s->options->duration_ns) {
		uint64_t gone = now - s->start_ns;

		snprintf(left, sizeof(left), ", %.1f s left",
			 gone < s->options->duration_ns ? (s->options->duration_ns - gone) / 1e9 : 0.0);
	}
	fprintf(stderr, "\r%s events, %s/s, %s lost, %s%s \033[K", ip_format_count(total, events),
		ip_format_count((total > s->shown_events ? total - s->shown_events : 0) * 1000000000ull /
					(now - s->shown_ns + 1),
				rate),
		ip_format_count(stats.lost, lost), ip_format_size(ip_trace_bytes(s->trace), size), left);
	s->shown_ns = now;
	s->shown_events = total;
}

/* A target that puts itself under seccomp while we record may be ended for the call that reads strings: forbid it as soon as that
 * is seen. */
static void watch_confinement(struct ip_session *s)
{
	uint64_t now = ip_now_ns();

	if (!s->area->header->may_read || now < s->watch_ns)
		return;
	if (ip_values_is_confined(s->target) && ip_target_alive(s->target)) {
		__atomic_store_n(&s->area->header->may_read, 0, __ATOMIC_RELEASE);
		s->summary->value_gaps.no_reading = true;
	}
	s->watch_ns = now + CONFINEMENT_NS + CONFINEMENT_SHARE * (ip_now_ns() - now);
}

const char *ip_session_turn(struct ip_session *s)
{
	struct pollfd p = {.fd = s->target->pidfd, .events = POLLIN};
	const struct timespec tick = {.tv_nsec = 1000000};
	uint64_t now;
	int taken = ip_collector_poll(s->collector);

	ip_stop_let_go(s->target);
	watch_confinement(s);
	if (taken < 0) {
		s->write_failed = true;
		return "the trace could not be written";
	}
	now = ip_now_ns();
	if (s->options->live_line && now - s->shown_ns > LIVE_LINE_NS)
		show_live_line(s, now);
	if (ip_session_interrupted)
		return "interrupted";
	if (s->options->duration_ns && now - s->start_ns >= s->options->duration_ns)
		return "duration over";
	if (ip_collector_full(s->collector))
		return "size limit reached";
	if (s->area->header->ended == s->area->header->session)
		return "ended by iprobe detach";
	if (!ip_target_alive(s->target))
		return "target ended";
	if (taken == 0)
		ppoll(&p, s->target->pidfd >= 0, &tick, NULL);
	return NULL;
}

/* Recording ends now, even if it takes a while until the threads can be stopped: hooks look at the gate
 * first. */
static void close_gate(struct ip_session *s)
{
	const uint32_t closed = 0;

	ip_target_write(s->target, s->target->anchor.gate, &closed, sizeof(closed));
}

/* Back to NOPs, in one stop. Unlike at the start we do not give up at the deadline: it grows, since live sites are worse
 * than a longer stop. */
static int restore_all(struct ip_session *s)
{
	uint64_t limit = ip_now_ns() + GO_IDLE_NS, deadline = s->options->max_stop_ns;
	struct ip_patch_result result = {0};
	int ret = -1;

	if (ip_area_lock_patch(s->area, s->target->pid) < 0)
		return -1;
	while (ip_target_alive(s->target)) {
		ip_stop_let_go(s->target);
		if (ip_target_refresh(s->target) < 0)
			break;
		ret = ip_restore(s->target, &s->modules, deadline, &result);
		if (ret == 0 || ip_now_ns() > limit)
			break;
		deadline = 2 * deadline < MAX_DETACH_STOP_NS ? 2 * deadline : MAX_DETACH_STOP_NS;
		if (ip_collector_poll(s->collector) < 0)
			s->write_failed = true;
		nap(TRY_NS);
	}
	ip_area_unlock_patch(s->area);
	if (ret == 0) {
		note_stop(s, "detach", &result);
		ip_patch_settle(s->target, &result, SETTLE_NS);
	}
	free(result.inside);
	return ret;
}

int ip_session_go_idle(struct ip_session *s)
{
	int ret = 0;

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
	ip_family_restore(s->area, s->target->pid, s->options->max_stop_ns);
	for (uint64_t limit = ip_now_ns() + SETTLE_NS;
	     ip_target_alive(s->target) && ip_collector_in_flight(s->collector) && ip_now_ns() < limit;)
		nap(200000);
	if (!s->write_failed && ip_collector_flush(s->collector) < 0) {
		s->write_failed = true;
		return -1;
	}
	return ret;
}

/* Names of the threads that live at the end. */
static void add_thread_names(struct ip_session *s)
{
	char path[80], name[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", s->target->pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (file && fgets(name, sizeof(name), file)) {
		name[strcspn(name, "\n")] = '\0';
		ip_trace_add_thread(s->trace, s->target->pid, name);
	}
}

int ip_session_finish(struct ip_session *s, const char *reason)
{
	struct ip_session_summary *sum = s->summary;
	struct ip_collector_stats stats;

	set_priority(false);
	sum->end = reason;
	sum->length_ns = ip_now_ns() - s->start_ns;
	if (!sum->recorded) {
		ip_trace_discard(s->trace);
		s->trace = NULL;
		return 0;
	}
	ip_collector_stats(s->collector, &stats);
	sum->events = stats.events;
	sum->lost = stats.lost;
	sum->unserved = stats.unserved;
	sum->invalid = stats.invalid;
	if (s->options->live_line)
		fputs("\r\033[K", stderr);
	add_thread_names(s);
	return ip_trace_finish(s->trace, stats.events, stats.lost - stats.unserved, stats.unserved, reason);
}

void ip_session_clear(struct ip_session *s)
{
	ip_collector_destroy(s->collector);
	ip_trace_close(s->trace);
	if (s->area && s->area->nsubbufs)
		ip_area_end(s->area);
	ip_area_close(s->area);
	ip_selection_destroy(s->selection);
	ip_modules_clear(&s->modules);
	ip_target_close(s->target);
}

/* Keeps the first error while cleaning up. */
static int fail_keeping(struct ip_session *s, const char *reason)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	ip_session_go_idle(s);
	ip_session_finish(s, reason);
	return ip_error("%s", why ? why : "out of memory");
}

/* A runtime that is linked in may never have been needed before. The hold of the borrowed thread is a stop too. Where there is nothing
 * to make live the process is left as it is. */
static int wake(struct ip_session *s)
{
	struct ip_plan plan = {0};
	uint64_t held = 0;
	int ret;

	if (!ip_is_asleep(s->target))
		return 0;
	ip_modules_clear(&s->modules);
	if (ip_modules_load(s->target, &s->modules) < 0 || check_lists(s->target, &s->modules) < 0)
		return -1;
	ret = ip_plan_select(s->target, &s->modules, s->selection, &plan);
	ip_plan_clear(&plan);
	if (ret < 0)
		return -1;
	if (ip_wake(s->target, &held) < 0)
		return -1;
	if (held && s->summary->nstops < IP_MAX_STOPS)
		s->summary->stop_ns[s->summary->nstops++] = held;
	return 0;
}

int ip_session_attach(pid_t pid, const struct ip_session_options *options, struct ip_session_summary *ret)
{
	struct ip_session s = {.options = options, .summary = ret, .start_ns = ip_now_ns()};
	const char *reason = NULL;
	int done = -1;

	*ret = (struct ip_session_summary){.pid = pid};
	ip_clock_read(&s.start);
	if (ip_selection_parse(options->functions, &s.selection) < 0 ||
	    ip_target_open(pid, true, &s.target) < 0 || wake(&s) < 0 || ip_area_open(s.target, &s.area) < 0 ||
	    ip_area_lock_session(s.area, pid) < 0)
		goto out;
	if (ip_session_go_live(&s, false) < 0) {
		fail_keeping(&s, "could not go live");
		goto out;
	}
	s.start_ns = s.shown_ns = ip_now_ns();
	while (!(reason = ip_session_turn(&s)))
		;
	if (s.write_failed) {
		fail_keeping(&s, reason);
		goto out;
	}
	if (ip_session_go_idle(&s) < 0) {
		fail_keeping(&s, reason);
		goto out;
	}
	done = ip_session_finish(&s, reason);
out:
	ip_session_clear(&s);
	return done;
}

static int preview_modules(struct ip_session_preview *preview, const struct ip_modules *modules,
			   const struct ip_plan *plan)
{
	preview->modules = calloc(modules->n, sizeof(*preview->modules));
	if (!preview->modules)
		return ip_error("out of memory");
	for (size_t m = 0; m < modules->n; m++) {
		size_t k = preview->nmodules;

		for (size_t i = 0; i < plan->nchanges; i++)
			preview->modules[k].sites += plan->functions[plan->function_of[i]].module_index == m;
		for (size_t i = 0; i < plan->nfunctions; i++)
			preview->modules[k].functions +=
				plan->functions[i].module_index == m && !plan->functions[i].inlined;
		if (!preview->modules[k].sites)
			continue;
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

int ip_session_preview(pid_t pid, const struct ip_session_options *options, struct ip_session_preview *ret)
{
	struct ip_session s = {.options = options};
	struct ip_modules modules = {0};
	struct ip_plan plan = {0};
	int done = -1;

	*ret = (struct ip_session_preview){.summary.pid = pid};
	if (ip_selection_parse(options->functions, &s.selection) < 0 ||
	    ip_target_open(pid, true, &s.target) < 0 ||
	    (!ip_is_asleep(s.target) && ip_area_open(s.target, &s.area) < 0) || ip_modules_load(s.target, &modules) < 0 ||
	    check_lists(s.target, &modules) < 0 ||
	    ip_plan_select(s.target, &modules, s.selection, &plan) < 0 ||
	    preview_modules(ret, &modules, &plan) < 0)
		goto out;
	ret->summary.sites = plan.nchanges;
	ret->summary.functions = plan.ndistinct;
	ret->summary.left_out = plan.left_out;
	ret->summary.pages = count_pages(&plan);
	ret->summary.threads = ip_proc_status(pid, "Threads");
	ret->expected_stop_ns = ret->summary.threads * COST_THREAD_NS + ret->summary.pages * COST_PAGE_NS;
	done = 0;
out:
	ip_plan_clear(&plan);
	ip_modules_clear(&modules);
	ip_session_clear(&s);
	return done;
}

void ip_session_preview_clear(struct ip_session_preview *preview)
{
	for (size_t i = 0; i < preview->nmodules; i++)
		free(preview->modules[i].path);
	free(preview->modules);
}
