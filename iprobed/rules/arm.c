/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to a target until a rule fires: histograms, or a flight recorder; and what they
 * report about the moment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/now.h"
#include "common/units.h"
#include "iprobed/daemon_private.h"
#include "iprobed/rules/command.h"
#include "iprobed/rules/members.h"
#include "iprobed/rules/store.h"

/* what a session that watches may take, if it watches many functions in many threads */
#define MEMORY (8ul << 20)
#define BESIDE (4ull << 20) /* its process: that has no trace to write */
#define RING   (16ul << 20) /* size of a flight recorder */
/* after this time a recorder that was started is taken to record */
#define BEGIN_NS 1000000000ull

/* Returns whether the trace that the session of the rule writes at its end may be worth keeping. */
static bool keeps_recorder(const struct ip_rules_rule *r)
{
	return r->until && r->action == IP_RULES_SNAPSHOT;
}

/* Names the directory of a session that watches. */
static int name_watch(const struct ip_rules *e, struct ip_rules_target *t,
		      const struct ip_rules_rule *r)
{
	if (keeps_recorder(r))
		return ip_rules_store_begin_recorder(e->options->traces, r, t->process.pid,
						     &t->dir);
	if (asprintf(&t->dir, "%s/watch-%d", e->options->state, t->process.pid) >= 0)
		return 0;
	t->dir = NULL;
	return ip_error("out of memory");
}

/* Adds the options for a flight recorder. It ends by itself some time after the rule's latency was
 * too high. If the rule may not fire now, the latency is not watched. */
static void record_in_ring(struct ip_rules_target *t, struct ip_rules_arm *arm,
			   struct ip_rules_command *c, uint64_t now_ns)
{
	const struct ip_rules_rule *r = arm->state->rule;

	ip_rules_command_options(c, r, t->dir);
	ip_rules_command_add(c, "--overwrite");
	ip_rules_command_add(c, "--memory");
	ip_rules_command_add(c, "%lu", r->ring ? r->ring : RING);
	ip_rules_command_values(c, r);
	if (!keeps_recorder(r))
		return;
	ip_rules_command_add(c, "--max-size");
	ip_rules_command_add(c, "%lu", r->disk / 2);
	if (!ip_rules_arm_watches_latency(arm, now_ns))
		return;
	ip_rules_command_add(c, "--until");
	ip_rules_command_add(c, "%s", r->until);
	ip_rules_command_add(c, "--linger");
	ip_rules_command_add(c, "%luns", r->for_ns);
	t->watched[t->nwatched++] = arm;
	arm->absent_ns = 0;
}

/* A snapshot that was waiting for the recorder to begin has what comes after that. */
static void time_snapshots(struct ip_rules_target *t, const struct ip_rules_arm *arm,
			   uint64_t now_ns)
{
	for (size_t i = 0; i < t->nwaiting; i++)
		if (t->waiting[i].arm == arm && t->waiting[i].awaits_recorder) {
			t->waiting[i].awaits_recorder = false;
			t->waiting[i].due_ns = now_ns + BEGIN_NS + arm->state->rule->for_ns;
		}
}

/* Adds the latencies of those rules whose functions can be measured in one session. */
static void watch_latencies(struct ip_rules_target *t, struct ip_rules_command *c, uint64_t now_ns)
{
	for (size_t i = 0; i < t->narms && t->nwatched < IP_RULES_WATCHED; i++) {
		struct ip_rules_arm *arm = &t->arms[i];

		if (arm->state->rule->action == IP_RULES_SNAPSHOT ||
		    !ip_rules_arm_wants_watch(t, arm, now_ns))
			continue;
		arm->absent_ns = 0;
		ip_rules_command_add(c, "--until");
		ip_rules_command_add(c, "%s", arm->state->rule->until);
		t->watched[t->nwatched++] = arm;
	}
	for (size_t i = 0, n = t->nwatched; i < n; i++) {
		const struct ip_rules_rule *r = t->watched[i]->state->rule;

		if (!(r->overhead_percent > 0))
			continue;
		ip_rules_command_add(c, "--until");
		ip_rules_command_add(c, "calls>%.0f/1s:%s",
				     r->overhead_percent / 100 * 1e9 / IP_RULES_MEASURE_NS,
				     r->latency);
		t->is_overhead[t->nwatched] = true;
		t->watched[t->nwatched++] = t->watched[i];
	}
}

/* Returns the first rule that wants the target to be watched now; NULL: none. */
static struct ip_rules_arm *first_watcher(const struct ip_rules_target *t, uint64_t now_ns)
{
	for (size_t i = 0; i < t->narms; i++)
		if (ip_rules_arm_wants_watch(t, &t->arms[i], now_ns))
			return &t->arms[i];
	return NULL;
}

static void tell_waiting(struct ip_rules_target *t, const struct ip_rules_arm *first)
{
	for (size_t i = 0; i < t->narms; i++) {
		struct ip_rules_arm *arm = &t->arms[i];
		bool same = first->state->rule->action != IP_RULES_SNAPSHOT &&
			    arm->state->rule->action != IP_RULES_SNAPSHOT;

		if (arm == first || same || arm->told_waits || !ip_rules_watches(arm->state->rule))
			continue;
		ip_rules_log(arm->state, t,
			     "waits: the process has one session at a time, and the rule '%s' "
			     "watches it",
			     first->state->rule->name);
		arm->told_waits = true;
	}
}

const struct ip_rules_rule *ip_rules_arm_waits_for(const struct ip_rules_target *t,
						   const struct ip_rules_arm *arm)
{
	const struct ip_rules_rule *first;

	if (t->doing != IP_RULES_WATCH || !ip_rules_watches(arm->state->rule) || t->by == arm ||
	    !(t->by || t->nwatched))
		return NULL;
	for (size_t i = 0; i < t->nwatched; i++)
		if (t->watched[i] == arm)
			return NULL;
	first = (t->by ? t->by : t->watched[0])->state->rule;
	return first->action == IP_RULES_SNAPSHOT || arm->state->rule->action == IP_RULES_SNAPSHOT
		       ? first
		       : NULL;
}

static void tell_watch(const struct ip_rules_target *t, struct ip_rules_arm *arm)
{
	const struct ip_rules_rule *r = arm->state->rule;

	if (!arm->told_watch)
		ip_rules_log(arm->state, t, "is %s%s%s", t->by ? "recorded in a ring" : "watched",
			     r->until ? ": " : "", r->until ? r->until : "");
	arm->told_watch = true;
}

void ip_rules_watch_tell(const struct ip_rules_target *t, uint64_t now_ns)
{
	if (t->by)
		tell_watch(t, t->by);
	for (size_t i = 0; i < t->nwatched; i++)
		if (now_ns >= t->watched[i]->absent_ns)
			tell_watch(t, t->watched[i]);
}

int ip_rules_watch_begin(struct ip_rules *e, struct ip_rules_target *t)
{
	uint64_t now_ns = ip_now_ns();
	struct ip_rules_arm *first = first_watcher(t, now_ns);
	const struct ip_rules_rule *r = first ? first->state->rule : NULL;
	struct ip_rules_members members;
	struct ip_rules_command c;
	struct ip_rules_stat stat;
	int done;

	t->nwatched = 0;
	memset(t->is_overhead, 0, sizeof(t->is_overhead));
	ip_rules_arms_tell_rest(t, now_ns);
	if (!first)
		return 0;
	t->threads = ip_rules_stat_read(t->process.pid, &stat) < 0 ? 0 : stat.threads;
	t->outgrown = false;
	t->memory = r->action != IP_RULES_SNAPSHOT ? MEMORY + BESIDE
						   : (r->ring ? r->ring : RING) + IP_IPROBED_BESIDE;
	if (!ip_rules_memory_fits(e, t, t->memory, true)) {
		ip_rules_tell_memory(first->state, t);
		e->held_back = true;
		return 0;
	}
	if (ip_rules_memory_check(e, t->memory) < 0 || name_watch(e, t, r) < 0)
		return -1;
	t->told_memory = false;
	if (ip_rules_note(e, &t->process) < 0) {
		free(ip_steal_ptr(t->dir));
		return -1;
	}
	ip_rules_store_remove(t->dir);
	ip_rules_command_iprobe(&c, e, "attach");
	ip_rules_command_add(&c, "--yield"); /* a person's own recording comes first */
	if (r->action == IP_RULES_SNAPSHOT) {
		record_in_ring(t, first, &c, now_ns);
	} else {
		ip_rules_command_options(&c, NULL, t->dir);
		watch_latencies(t, &c, now_ns);
		ip_rules_command_add(&c, "--memory");
		ip_rules_command_add(&c, "%lu", MEMORY);
	}
	ip_rules_command_add(&c, "--");
	ip_rules_command_add(&c, "%d", t->process.pid);
	done = ip_rules_members_one(t, &members);
	if (done == 0)
		done = ip_rules_command_start(&c, e, &members, e->options->state, &t->job);
	ip_rules_members_clear(&members);
	if (done < 0) {
		free(ip_steal_ptr(t->dir));
		ip_rules_forget(e, &t->process);
		return -1;
	}
	t->doing = IP_RULES_WATCH;
	t->by = r->action == IP_RULES_SNAPSHOT ? first : NULL;
	tell_waiting(t, first);
	if (t->by)
		time_snapshots(t, first, now_ns);
	return 0;
}

int ip_rules_snapshot_begin(struct ip_rules *e, struct ip_rules_target *t,
			    const struct ip_rules_firing *firing)
{
	const struct ip_rules_state *state = firing->arm->state;
	struct ip_rules_members members;
	struct ip_rules_command c;
	int done;

	if (ip_rules_begin_directory(e, t, firing->arm, firing->why, &t->side_dir) < 0)
		return -1;
	done = state->rule->service ? ip_rules_members_watched(e, t, state, &members)
				    : ip_rules_members_one(t, &members);
	ip_rules_command_iprobe(&c, e, "snapshot");
	ip_rules_command_add(&c, "--json");
	ip_rules_command_add(&c, "-o");
	ip_rules_command_add(&c, "trace");
	ip_rules_command_pids(&c, &members);
	if (done == 0)
		done = ip_rules_command_start(&c, e, &members, t->side_dir, &t->side);
	ip_rules_members_clear(&members);
	if (done < 0) {
		ip_rules_store_remove(t->side_dir);
		free(ip_steal_ptr(t->side_dir));
		return -1;
	}
	t->side.limit_ns = ip_now_ns() + IP_RULES_TIMEOUT_NS;
	t->side_by = firing->arm;
	return 0;
}

/* Logs what the job has written to the directory. */
static void tell_written(const struct ip_rules_target *t, const struct ip_rules_arm *arm,
			 const struct ip_rules_job *job, const char *dir)
{
	char count[32], line[64];

	snprintf(line, sizeof(line), "%s events",
		 ip_format_count(ip_rules_job_sum(job, "events"), count));
	ip_rules_store_note(dir, line);
	ip_rules_came_of(arm->state, t, true, "has written its flight recorder: %s; in %s", line,
			 dir);
}

/* Keeps the recorder's trace. *ret: its directory, which is removed if this fails. */
static int keep(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm,
		const char *why, char **ret)
{
	if (ip_rules_begin_directory(e, t, arm, why, ret) < 0)
		return -1;
	if (ip_rules_store_keep_recorder(t->dir, *ret) == 0)
		return 0;
	ip_rules_store_remove(*ret);
	free(ip_steal_ptr(*ret));
	return -1;
}

void ip_rules_recorder_keep(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm,
			    const char *why)
{
	_cleanup_free_ char *dir = NULL;

	if (keep(e, t, arm, why, &dir) < 0) {
		ip_rules_came_of(arm->state, t, false, "no snapshot: %s", ip_error_message());
		ip_rules_service_failed(&arm->state->services, arm->service);
		return;
	}
	tell_written(t, arm, &t->job, dir);
}

bool ip_rules_snapshot_end(struct ip_rules *e, struct ip_rules_target *t)
{
	/* of several processes some may have failed, and the exit code says so */
	bool good = WIFEXITED(t->side.status) &&
		    (!WEXITSTATUS(t->side.status) || ip_rules_job_figure(&t->side, "pid"));

	(void)e;
	if (good) {
		tell_written(t, t->side_by, &t->side, t->side_dir);
	} else {
		ip_rules_came_of(t->side_by->state, t, false, "no snapshot: %s",
				 *t->side.word ? t->side.word : "iprobe snapshot was killed");
		ip_rules_store_remove(t->side_dir);
		ip_rules_service_failed(&t->side_by->state->services, t->side_by->service);
	}
	free(ip_steal_ptr(t->side_dir));
	t->side_by = NULL;
	return good;
}
