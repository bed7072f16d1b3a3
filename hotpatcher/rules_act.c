/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules have done to a process: the command lines, and what comes of them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/units.h"
#include "hotpatcher/permit.h"
#include "hotpatcher/rules_internal.h"
#include "hotpatcher/rules_store.h"
#include "hotpatcher/stop.h"

#define WORDS	     64
#define PATIENCE_NS  20000000000ull /* beyond what it is to take */
#define WATCH_MEMORY "8M"
#define RING	     (16ul << 20) /* of a flight recorder */
/* What benchmarks/active measures here, rounded up: nanoseconds of the process's time. */
#define EVENT_NS   13.0
#define MEASURE_NS 30.0 /* a call with a histogram */

/* A command line. Words live until the child has been started. */
struct command {
	char *words[WORDS + 1];
	size_t n;
	bool failed;
};

static void add(struct command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct command *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (c->n == WORDS || vasprintf(&c->words[c->n], format, args) < 0) {
		if (c->n < WORDS)
			c->words[c->n] = NULL;
		c->failed = true;
	} else {
		c->n++;
	}
	va_end(args);
}

/* Runs it, and forgets it. */
static int start(const struct ip_rules *e, const struct ip_rules_target *t, struct command *c,
		 const char *directory, struct ip_rules_job *job)
{
	_cleanup_free_ char *text = ip_permit_text(IP_PERMIT_ANY, 3, NULL), *variable = NULL;
	char *environment[3] = {e->environment, NULL, NULL};
	int done = -1;

	if (!text || asprintf(&variable, IP_PERMIT_VARIABLE "=%s", text) < 0)
		variable = NULL;
	environment[1] = variable;
	if (c->failed || !variable)
		ip_error("out of memory");
	else
		done = ip_rules_job_start(job, c->words, directory, t->pidfd, environment);
	for (size_t i = 0; i < c->n; i++)
		free(c->words[i]);
	return done;
}

static void iprobe(const struct ip_rules *e, struct command *c, const char *command)
{
	*c = (struct command){0};
	add(c, "%s", e->options->program);
	add(c, "%s", command);
}

static void options_of(const struct ip_rules_rule *r, struct command *c, const char *dir)
{
	add(c, "--json");
	add(c, "-q");
	add(c, "-o");
	add(c, "%s", dir);
	if (r && r->functions) {
		add(c, "-f");
		add(c, "%s", r->functions);
	}
}

static void limits_of(const struct ip_rules_rule *r, struct command *c)
{
	add(c, "--duration");
	add(c, "%luns", r->for_ns);
	add(c, "--max-size");
	add(c, "%lu", r->disk / 2);
	if (r->ring) {
		add(c, "--memory");
		add(c, "%lu", r->ring);
	}
	if (r->args)
		add(c, "--args");
	if (r->retval)
		add(c, "--retval");
	if (r->action == IP_RULES_HIST) {
		add(c, "--payload");
		add(c, "hist");
	}
}

static void fperf(const struct ip_rules *e, const struct ip_rules_rule *r, struct command *c, pid_t pid)
{
	*c = (struct command){0};
	add(c, "%s", e->fperf);
	add(c, "--json");
	add(c, "-q");
	add(c, "-o");
	add(c, "fperf.json");
	add(c, "--profile");
	add(c, "%s", r->profile);
	add(c, "--duration");
	add(c, "%luns", r->for_ns);
	if (r->overhead_percent > 0) {
		add(c, "--budget");
		add(c, "%g%%", r->overhead_percent);
	}
	add(c, "-p");
	add(c, "%d", pid);
}

static void make_room(const struct ip_rules *e, const struct ip_rules_state *state)
{
	unsigned removed;
	char size[16];

	if (ip_rules_store_make_room(e->options->traces, state->rule, &removed) == 0 && removed)
		ip_rules_log(state, NULL,
			     "the %u oldest of what it has recorded are removed, so that it has no more than "
			     "%s (disk)",
			     removed, ip_format_size(state->rule->disk, size));
}

/* For why.txt; "" where it cannot be had. Rules that do not ask for it have left it unread. */
static const char *cmdline_of(struct ip_rules *e, struct ip_rules_target *t)
{
	return ip_rules_cmdline_read(&e->reader, &t->process) == 0 ? t->process.cmdline : "";
}

int ip_rules_act_begin(struct ip_rules *e, struct ip_rules_target *t, const struct ip_rules_firing *firing)
{
	const struct ip_rules_rule *r = firing->arm->state->rule;
	const struct ip_rules_process *p = &t->process;
	struct command c;

	make_room(e, firing->arm->state);
	if (ip_rules_note(e, p) < 0 || ip_rules_store_begin(e->options->traces, r, p->pid, p->exe,
							    cmdline_of(e, t), firing->why, &t->dir) < 0) {
		ip_rules_forget(e, p);
		return -1;
	}
	if (r->action == IP_RULES_FPERF) {
		fperf(e, r, &c, p->pid);
	} else {
		iprobe(e, &c, "attach");
		options_of(r, &c, "trace");
		limits_of(r, &c);
		add(&c, "--");
		add(&c, "%d", p->pid);
	}
	if (start(e, t, &c, t->dir, &t->job) < 0) {
		ip_rules_store_remove(t->dir);
		free(ip_steal_ptr(t->dir));
		ip_rules_forget(e, p);
		return -1;
	}
	t->job.limit_ns = ip_now_ns() + r->for_ns + PATIENCE_NS;
	t->doing = IP_RULES_ACT;
	t->by = firing->arm;
	return 0;
}

bool ip_rules_act_end(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	const struct ip_rules_rule *r = t->by->state->rule;
	double events = ip_rules_job_figure(&t->job, "events"),
	       calls = ip_rules_job_figure(&t->job, "counted"),
	       stopped = 1e3 * ip_rules_job_figure(&t->job, "stop_us");
	char count[32], counted[32], stops[16], line[512];

	(void)e;
	if (!WIFEXITED(t->job.status) || WEXITSTATUS(t->job.status)) {
		ip_rules_log(t->by->state, t, "nothing is recorded: %s",
			     *t->job.word ? t->job.word : "its session was killed");
		ip_rules_store_remove(t->dir);
		return false;
	}
	if (r->action == IP_RULES_FPERF) {
		snprintf(line, sizeof(line), "counted");
	} else {
		snprintf(line, sizeof(line),
			 "%s events and %s calls counted, lost %.0f, stopped for %s in all",
			 ip_format_count(events, count), ip_format_count(calls, counted),
			 ip_rules_job_figure(&t->job, "lost"), ip_format_ns(stopped, stops));
		t->by->not_before_ns =
			now_ns + ip_rules_pay_back(events * EVENT_NS + calls * MEASURE_NS + stopped,
						   r->overhead_percent);
	}
	ip_rules_store_note(t->dir, line);
	ip_rules_log(t->by->state, t, "has recorded: %s; in %s", line, t->dir);
	return true;
}

/* What the session of the rule writes at its end may be worth keeping. */
static bool keeps_recorder(const struct ip_rules_rule *r)
{
	return r->until && r->action == IP_RULES_SNAPSHOT;
}

/* Where sessions that watch have theirs. */
static int name_watch(const struct ip_rules *e, struct ip_rules_target *t, const struct ip_rules_rule *r)
{
	if (keeps_recorder(r))
		return ip_rules_store_begin_recorder(e->options->traces, r, t->process.pid, &t->dir);
	if (asprintf(&t->dir, "%s/watch-%d", e->options->state, t->process.pid) >= 0)
		return 0;
	t->dir = NULL;
	return ip_error("out of memory");
}

/* A flight recorder, which ends by itself some time after the rule's latency has been too much. Where the rule may not fire now, that is not
 * watched for. */
static void record_in_ring(struct ip_rules_target *t, struct ip_rules_arm *arm, struct command *c,
			   uint64_t now_ns)
{
	const struct ip_rules_rule *r = arm->state->rule;

	options_of(r, c, t->dir);
	add(c, "--overwrite");
	add(c, "--memory");
	add(c, "%lu", r->ring ? r->ring : RING);
	if (!keeps_recorder(r))
		return;
	add(c, "--max-size");
	add(c, "%lu", r->disk / 2);
	if (!ip_rules_may_fire(arm, now_ns))
		return;
	add(c, "--until");
	add(c, "%s", r->until);
	add(c, "--linger");
	add(c, "%luns", r->for_ns);
	t->watched[t->nwatched++] = arm;
}

/* Those of the rules whose functions can be measured in one session. */
static void watch_latencies(struct ip_rules_target *t, struct command *c, uint64_t now_ns)
{
	for (size_t i = 0; i < t->narms && t->nwatched < IP_RULES_WATCHED; i++) {
		struct ip_rules_arm *arm = &t->arms[i];

		if (!arm->state->rule->until || keeps_recorder(arm->state->rule) ||
		    !ip_rules_may_fire(arm, now_ns))
			continue;
		add(c, "--until");
		add(c, "%s", arm->state->rule->until);
		t->watched[t->nwatched++] = arm;
	}
	for (size_t i = 0, n = t->nwatched; i < n; i++) {
		const struct ip_rules_rule *r = t->watched[i]->state->rule;

		if (!(r->overhead_percent > 0))
			continue;
		add(c, "--until");
		add(c, "calls>%.0f/1s:%s", r->overhead_percent / 100 * 1e9 / MEASURE_NS, r->latency);
		t->is_overhead[t->nwatched] = true;
		t->watched[t->nwatched++] = t->watched[i];
	}
}

/* The first rule that wants the process watched now; NULL: none. */
static struct ip_rules_arm *first_watcher(const struct ip_rules_target *t, uint64_t now_ns)
{
	for (size_t i = 0; i < t->narms; i++) {
		const struct ip_rules_rule *r = t->arms[i].state->rule;

		if (r->action == IP_RULES_SNAPSHOT || (r->until && ip_rules_may_fire(&t->arms[i], now_ns)))
			return &t->arms[i];
	}
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
			     "waits: the process has one session at a time, and the rule '%s' watches it",
			     first->state->rule->name);
		arm->told_waits = true;
	}
}

int ip_rules_watch_begin(struct ip_rules *e, struct ip_rules_target *t)
{
	uint64_t now_ns = ip_now_ns();
	struct ip_rules_arm *first = first_watcher(t, now_ns);
	const struct ip_rules_rule *r = first ? first->state->rule : NULL;
	struct command c;

	t->nwatched = 0;
	memset(t->is_overhead, 0, sizeof(t->is_overhead));
	if (!first)
		return 0;
	if (name_watch(e, t, r) < 0)
		return -1;
	if (ip_rules_note(e, &t->process) < 0) {
		free(ip_steal_ptr(t->dir));
		return -1;
	}
	ip_rules_store_remove(t->dir);
	iprobe(e, &c, "attach");
	if (r->action == IP_RULES_SNAPSHOT) {
		record_in_ring(t, first, &c, now_ns);
	} else {
		options_of(NULL, &c, t->dir);
		watch_latencies(t, &c, now_ns);
		add(&c, "--memory");
		add(&c, WATCH_MEMORY);
	}
	add(&c, "--");
	add(&c, "%d", t->process.pid);
	if (start(e, t, &c, e->options->state, &t->job) < 0) {
		free(ip_steal_ptr(t->dir));
		ip_rules_forget(e, &t->process);
		return -1;
	}
	t->doing = IP_RULES_WATCH;
	t->by = r->action == IP_RULES_SNAPSHOT ? first : NULL;
	tell_waiting(t, first);
	if (!t->told_watch)
		ip_rules_log(first->state, t, "is %s%s%s", t->by ? "recorded in a ring" : "watched",
			     r->until ? ": " : "", r->until ? r->until : "");
	t->told_watch = true;
	return 0;
}

int ip_rules_clean_begin(struct ip_rules *e, struct ip_rules_target *t)
{
	struct command c;

	iprobe(e, &c, "detach");
	add(&c, "--left-over"); /* a session of somebody else's is not ours to end */
	add(&c, "--");
	add(&c, "%d", t->process.pid);
	if (start(e, t, &c, "/", &t->job) < 0)
		return -1;
	t->job.limit_ns = ip_now_ns() + PATIENCE_NS;
	t->doing = IP_RULES_CLEAN;
	return 0;
}

int ip_rules_snapshot_begin(struct ip_rules *e, struct ip_rules_target *t,
			    const struct ip_rules_firing *firing)
{
	const struct ip_rules_process *p = &t->process;
	struct command c;

	make_room(e, firing->arm->state);
	if (ip_rules_store_begin(e->options->traces, firing->arm->state->rule, p->pid, p->exe,
				 cmdline_of(e, t), firing->why, &t->side_dir) < 0)
		return -1;
	iprobe(e, &c, "snapshot");
	add(&c, "--json");
	add(&c, "-o");
	add(&c, "trace");
	add(&c, "--");
	add(&c, "%d", p->pid);
	if (start(e, t, &c, t->side_dir, &t->side) < 0) {
		ip_rules_store_remove(t->side_dir);
		free(ip_steal_ptr(t->side_dir));
		return -1;
	}
	t->side.limit_ns = ip_now_ns() + PATIENCE_NS;
	t->side_by = firing->arm;
	return 0;
}

/* The store's part: *ret is the directory, which is removed where it fails. */
static int keep(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm, const char *why,
		char **ret)
{
	make_room(e, arm->state);
	if (ip_rules_store_begin(e->options->traces, arm->state->rule, t->process.pid, t->process.exe,
				 cmdline_of(e, t), why, ret) < 0)
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
	char count[32], line[128];

	if (keep(e, t, arm, why, &dir) < 0) {
		ip_rules_log(arm->state, t, "no snapshot: %s", ip_error_message());
		return;
	}
	snprintf(line, sizeof(line), "%s events",
		 ip_format_count(ip_rules_job_figure(&t->job, "events"), count));
	ip_rules_store_note(dir, line);
	ip_rules_log(arm->state, t, "has written its flight recorder: %s; in %s", line, dir);
}

bool ip_rules_snapshot_end(struct ip_rules *e, struct ip_rules_target *t)
{
	bool good = WIFEXITED(t->side.status) && !WEXITSTATUS(t->side.status);
	char count[32], line[128];

	(void)e;
	if (good) {
		snprintf(line, sizeof(line), "%s events",
			 ip_format_count(ip_rules_job_figure(&t->side, "events"), count));
		ip_rules_store_note(t->side_dir, line);
		ip_rules_log(t->side_by->state, t, "has written its flight recorder: %s; in %s", line,
			     t->side_dir);
	} else {
		ip_rules_log(t->side_by->state, t, "no snapshot: %s",
			     *t->side.word ? t->side.word : "iprobe snapshot was killed");
		ip_rules_store_remove(t->side_dir);
	}
	free(ip_steal_ptr(t->side_dir));
	t->side_by = NULL;
	return good;
}
