/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One target that rules are for: what is done to it now, and what comes next. rules.h has the
 * order.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/credentials.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/end_reason.h"
#include "common/units.h"
#include "iprobed/rules/members.h"
#include "iprobed/rules/rules_private.h"
#include "iprobed/rules/store.h"

#define BACKOFF_NS	1000000000ull
#define BACKOFF_MOST_NS 600000000000ull
#define RELOAD_NS	5000000000ull
/* a target whose watch costs too much is left alone for so long */
#define COSTLY_NS 60000000000ull
/* a target is left to another iprobe for so long at first */
#define YIELD_NS 1000000000ull
/* and then it is looked at so often whether that one has ended */
#define WAIT_MOST_NS 10000000000ull

int ip_rules_target_add(struct ip_rules *e, struct ip_rules_process *process,
			struct ip_rules_target **ret)
{
	struct ip_rules_target *t = calloc(1, sizeof(*t)), **grown;

	if (!t)
		return ip_error("out of memory");
	t->job.out = t->job.err = t->side.out = t->side.err = -1;
	t->pidfd = ip_pidfd_open(process->pid);
	grown = t->pidfd < 0 ? NULL : reallocarray(e->targets, e->ntargets + 1, sizeof(*grown));
	if (!grown) {
		if (t->pidfd >= 0)
			close(t->pidfd);
		free(t);
		return -1;
	}
	e->targets = grown;
	e->targets[e->ntargets++] = t;
	t->process = *process;
	t->service = ip_rules_service_name(process);
	t->unit = ip_rules_service_unit(process);
	t->owner = process->uid;
	e->unsorted = true;
	*ret = t;
	return 0;
}

static void free_arms(struct ip_rules_target *t)
{
	for (size_t i = 0; i < t->narms; i++)
		free(t->arms[i].function);
	free(ip_steal_ptr(t->arms));
}

/* Removes what a session has left that was killed. Processes of it may still be ending, and write
 * there: then it is tried again. */
static void remove_left(struct ip_rules_target *t)
{
	if (!t->left_dir)
		return;
	ip_rules_store_remove(t->left_dir);
	if (ip_access(t->left_dir, F_OK) < 0)
		free(ip_steal_ptr(t->left_dir));
}

void ip_rules_target_free(struct ip_rules_target *t)
{
	ip_rules_job_clear(&t->job);
	ip_rules_job_clear(&t->side);
	ip_rules_process_clear(&t->process);
	close(t->pidfd);
	free_arms(t);
	free(t->dir);
	remove_left(t);
	free(t->left_dir);
	free(t->side_dir);
	free(t->service);
	free(t->unit);
	free(t);
}

void ip_rules_target_disarm(struct ip_rules_target *t)
{
	free_arms(t);
	t->narms = t->nwaiting = t->nwatched = 0;
	t->by = t->side_by = NULL;
}

bool ip_rules_target_rests(const struct ip_rules_target *t)
{
	/* What cannot be restored now is tried again later, or by the next iprobed. */
	return (t->doing == IP_RULES_NOTHING ||
		(t->doing == IP_RULES_CLEAN && !t->job.pid && t->unclean)) &&
	       !t->side.pid;
}

bool ip_rules_target_starts(const struct ip_rules_target *t, uint64_t now_ns)
{
	return t->doing == IP_RULES_WATCH && t->job.pid && !t->job.live &&
	       now_ns - t->job.since_ns < IP_RULES_STARTING_NS;
}

bool ip_rules_target_is_quiet(const struct ip_rules_target *t)
{
	return ip_rules_target_rests(t) || (t->doing == IP_RULES_WATCH && t->job.live &&
					    !t->job.told_ns && !t->nwaiting && !t->side.pid);
}

void ip_rules_target_has_threads(struct ip_rules_target *t, uint32_t threads)
{
	if (t->doing != IP_RULES_WATCH || t->by)
		return;
	if (!t->threads)
		t->threads = threads;
	t->outgrown = threads > IP_RULES_FEW_THREADS && threads > 2 * t->threads;
}

/* Whether the job is to be looked at: reading pipes that are empty costs, too. */
static bool is_job_due(const struct ip_rules *e, const struct ip_rules_target *t, uint64_t now_ns)
{
	return e->child_ended || !ip_rules_target_is_quiet(t) ||
	       now_ns - t->stepped_ns >= IP_RULES_LOOK_NS;
}

bool ip_rules_may_fire(const struct ip_rules_arm *arm, uint64_t now_ns)
{
	bool every;

	return now_ns >= arm->not_before_ns &&
	       !ip_rules_service_wait(&arm->state->services, arm->state->rule, arm->service, now_ns,
				      &every);
}

static bool is_waiting(const struct ip_rules_target *t, const struct ip_rules_arm *arm)
{
	bool waits = t->side_by == arm || (t->doing == IP_RULES_ACT && t->by == arm);

	for (size_t i = 0; i < t->nwaiting; i++)
		waits |= t->waiting[i].arm == arm;
	return waits;
}

/* Returns whether the rule may fire. If it may not, the reason is logged. */
static bool may_fire(const struct ip_rules_target *t, const struct ip_rules_arm *arm,
		     uint64_t now_ns)
{
	const struct ip_rules_rule *rule = arm->state->rule;
	struct ip_rules_service *s = ip_rules_service_find(&arm->state->services, arm->service);
	char per[16], ago[16], limit[IP_RULES_LIMIT];
	bool every;

	if (ip_rules_may_fire(arm, now_ns))
		return true;
	if (now_ns < arm->not_before_ns || !s)
		return false;
	ip_rules_service_wait(&arm->state->services, rule, arm->service, now_ns, &every);
	ip_rules_arm_limit(arm, now_ns, limit);
	if (every && !s->told_every)
		ip_rules_log(arm->state, t,
			     "would fire, but it has fired for this service %s ago (every %s): not "
			     "now; %s",
			     ip_format_ns(now_ns - s->fired_ns, ago),
			     ip_format_ns(rule->cooldown_ns, per), limit);
	else if (!every && !s->told_most)
		ip_rules_log(arm->state, t,
			     "would fire, but it has fired %u time%s in %s (at_most): not now; %s",
			     rule->at_most, ip_plural(rule->at_most),
			     ip_format_ns(rule->per_ns, per), limit);
	s->told_every |= every;
	s->told_most |= !every;
	return false;
}

static void count_firing(const struct ip_rules_target *t, const struct ip_rules_arm *arm,
			 uint64_t now_ns, const char *why)
{
	struct ip_rules_state *state = arm->state;

	state->fired++;
	snprintf(state->last, sizeof(state->last), "pid %d", t->process.pid);
	ip_rules_service_fired(&state->services, state->rule, arm->service, now_ns);
	ip_rules_log(state, t, "fires: %s", why);
}

/* Notes that the rule has fired, also while everything ends: what has been written is worth
 * keeping. */
static bool has_fired(const struct ip_rules_target *t, const struct ip_rules_arm *arm,
		      uint64_t now_ns, const char *why)
{
	if (!may_fire(t, arm, now_ns))
		return false;
	count_firing(t, arm, now_ns, why);
	return true;
}

bool ip_rules_fire(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm,
		   bool forced, uint64_t now_ns, const char *format, ...)
{
	const struct ip_rules_rule *rule = arm->state->rule;
	struct ip_rules_firing *f = &t->waiting[t->nwaiting];
	va_list args;

	if (e->ending || e->reloading || t->gone || is_waiting(t, arm) ||
	    t->nwaiting == IP_RULES_WAITING ||
	    (rule->service && ip_rules_members_are_waiting(e, t, arm->state)))
		return false;
	if (!forced && !may_fire(t, arm, now_ns))
		return false;
	va_start(args, format);
	vsnprintf(f->why, sizeof(f->why), format, args);
	va_end(args);
	f->arm = arm;
	f->awaits_recorder = t->doing == IP_RULES_NOTHING && ip_rules_arm_rests(t, arm, now_ns);
	f->due_ns = now_ns + (rule->action == IP_RULES_SNAPSHOT ? rule->for_ns : 0);
	t->nwaiting++;
	free(ip_steal_ptr(arm->function));
	count_firing(t, arm, now_ns, f->why);
	if (rule->service)
		ip_rules_members_have_fired(e, t, arm->state, now_ns);
	return true;
}

static void drop_waiting(struct ip_rules_target *t, size_t i)
{
	memmove(&t->waiting[i], &t->waiting[i + 1], (t->nwaiting - i - 1) * sizeof(*t->waiting));
	t->nwaiting--;
}

/* Logs what went wrong, unless it was the last message; and leaves the target alone for a while. */
static void failed(struct ip_rules_target *t, const struct ip_rules_state *state, const char *what,
		   uint64_t now_ns)
{
	char again[16];

	if (!ip_pidfd_lives(t->pidfd)) {
		t->gone = true;
		return;
	}
	t->backoff_ns = t->backoff_ns ? 2 * t->backoff_ns : BACKOFF_NS;
	if (t->backoff_ns > BACKOFF_MOST_NS)
		t->backoff_ns = BACKOFF_MOST_NS;
	t->retry_ns = now_ns + t->backoff_ns;
	if (strcmp(t->said, what))
		ip_rules_log(state, t, "%s; it is tried again in %s, and then less and less often",
			     what, ip_format_ns(t->backoff_ns, again));
	snprintf(t->said, sizeof(t->said), "%s", what);
}

/* What is live stays live meanwhile, and the log says so. */
static void failed_to_clean(struct ip_rules_target *t, const char *what, uint64_t now_ns)
{
	char text[IP_RULES_JOB_WORD];

	snprintf(text, sizeof(text),
		 "what is live cannot be put back, and no rule is carried out on it before: %s",
		 what);
	failed(t, NULL, text, now_ns);
}

/* Another iprobe has the session: no failure, and nothing was changed. It is logged once for each
 * such session. */
static void wait_for(struct ip_rules_target *t, const struct ip_rules_state *state, pid_t iprobe,
		     uint64_t now_ns)
{
	t->backoff_ns = t->backoff_ns ? 2 * t->backoff_ns : YIELD_NS;
	if (t->backoff_ns > WAIT_MOST_NS)
		t->backoff_ns = WAIT_MOST_NS;
	t->retry_ns = now_ns + t->backoff_ns;
	if (t->waits_for != iprobe)
		ip_rules_log(state, t, "waits until its session of iprobe %d has ended", iprobe);
	t->waits_for = iprobe;
}

/* The recorder that snapshots are waiting for could not begin. */
static void drop_awaiting(struct ip_rules_target *t)
{
	for (size_t i = 0; i < t->nwaiting; i++)
		if (t->waiting[i].arm->state->rule->action == IP_RULES_SNAPSHOT &&
		    t->waiting[i].arm == t->by) {
			ip_rules_came_of(t->by->state, t, false, "no snapshot: %s",
					 *t->job.word ? t->job.word : "its session failed");
			ip_rules_service_failed(&t->by->state->services, t->by->service);
			drop_waiting(t, i--);
		}
}

/* The function whose latency was too high, by its linker name; NULL: it is not known. */
static char *function_of(const struct ip_rules_job *job)
{
	char name[1024];

	return ip_rules_job_string(job, "until_function", name, sizeof(name)) ? strdup(name) : NULL;
}

/* A session that watched has ended. */
static void watch_ended(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	size_t which = ip_rules_job_figure(&t->job, "until");
	const struct ip_rules_state *state = t->by	   ? t->by->state
					     : t->nwatched ? t->watched[0]->state
							   : NULL;
	char end[IP_RULES_WHY] = "it has ended";

	ip_rules_job_string(&t->job, "end", end, sizeof(end));
	if (ip_rules_job_taken_by(&t->job)) {
		wait_for(t, state, ip_rules_job_taken_by(&t->job), now_ns);
		return;
	}
	t->waits_for = 0;
	if (ip_rules_job_ended_unbegun(&t->job)) {
		t->backoff_ns = 0; /* as one that this process has ended later */
		return;
	}
	if (ip_rules_arms_leave_out(t, now_ns)) {
		t->backoff_ns = 0; /* the others are watched at once */
		return;
	}
	if (WIFEXITED(t->job.status) && !WEXITSTATUS(t->job.status))
		ip_rules_arms_found(t);
	if (!WIFEXITED(t->job.status) || WEXITSTATUS(t->job.status)) {
		drop_awaiting(t);
		failed(t, state, *t->job.word ? t->job.word : "its session failed", now_ns);
	} else if (which >= 1 && which <= t->nwatched) {
		struct ip_rules_arm *arm = t->watched[which - 1];

		t->backoff_ns = 0;
		/* whatever ended the session, it was so at that moment */
		ip_rules_job_string(&t->job, "until_met", end, sizeof(end));
		if (t->is_overhead[which - 1]) {
			ip_rules_log(arm->state, t,
				     "to watch it takes more than %g %% (overhead): %s; it is left "
				     "alone for a minute",
				     arm->state->rule->overhead_percent, end);
			arm->not_before_ns = now_ns + COSTLY_NS;
		} else if (t->by == arm) {
			if (has_fired(t, arm, now_ns, end))
				ip_rules_recorder_keep(e, t, arm, end);
			else /* it had begun before it may */
				t->retry_ns = now_ns + ip_rules_arm_wait(arm, now_ns);
		} else {
			if (ip_rules_fire(e, t, arm, false, now_ns, "%s", end))
				arm->function = function_of(&t->job);
		}
	} else if (ip_end_reason_of(end) == IP_END_YIELDED) {
		/* meanwhile its tries fail, since the other iprobe has the session */
		t->backoff_ns = 0;
		t->retry_ns = now_ns + YIELD_NS;
		ip_rules_log(state, t,
			     "is watched no longer: another iprobe has attached; it is "
			     "tried again when that may have ended");
	} else if (t->job.told_ns) {
		t->backoff_ns = 0; /* this process has ended it */
	} else if (ip_pidfd_lives(t->pidfd)) {
		failed(t, state, end, now_ns);
	}
}

/* A session that was to watch has failed before it changed anything. */
static bool changed_nothing(const struct ip_rules_job *job)
{
	char nearest[16];
	size_t condition;

	return ip_rules_job_taken_by(job) ||
	       ip_rules_job_absent(job, 0, &condition, nearest, sizeof(nearest));
}

/* The job of the target has ended. */
static void job_ended(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	bool killed = WIFSIGNALED(t->job.status) && !ip_rules_job_ended_unbegun(&t->job),
	     watched = t->doing == IP_RULES_WATCH, cleaned = t->doing == IP_RULES_CLEAN;
	bool good = WIFEXITED(t->job.status) &&
		    (!WEXITSTATUS(t->job.status) || (watched && changed_nothing(&t->job)));

	if (t->doing == IP_RULES_ACT) {
		if (ip_rules_act_end(e, t, now_ns))
			t->backoff_ns = 0;
		ip_rules_members_end(e, t, good);
	}
	if (watched)
		watch_ended(e, t, now_ns);
	else if (cleaned && !good)
		failed_to_clean(t, *t->job.word ? t->job.word : "iprobe detach failed", now_ns);
	if (watched && t->dir)
		ip_rules_store_remove(t->dir);
	free(ip_steal_ptr(t->dir));
	t->by = NULL;
	ip_rules_job_clear(&t->job);
	t->unclean = cleaned && !good;
	if (good) {
		t->doing = IP_RULES_NOTHING;
		ip_rules_forget(e, &t->process);
		return;
	}
	/* A session that failed by itself may also have left sites live. */
	if (killed && !cleaned && ip_pidfd_lives(t->pidfd))
		ip_rules_log(NULL, t, "its session was killed: what is live is put back");
	t->doing = IP_RULES_CLEAN;
}

/* Restores the target. No other session begins, and the note stays, until this has worked or the
 * target has ended. */
static void clean(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	if (!ip_pidfd_lives(t->pidfd)) {
		t->gone = true;
		t->doing = IP_RULES_NOTHING;
		ip_rules_forget(e, &t->process);
	} else if ((!t->unclean || now_ns >= t->retry_ns) && ip_rules_clean_begin(e, t) < 0) {
		failed_to_clean(t, ip_error_message(), now_ns);
		t->unclean = true;
	}
}

static void act(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	struct ip_rules_firing firing = t->waiting[0];

	drop_waiting(t, 0);
	if (ip_rules_act_begin(e, t, &firing) < 0) {
		ip_rules_members_release(e, t);
		ip_rules_came_of(firing.arm->state, t, false, "nothing is recorded: %s",
				 ip_error_message());
		ip_rules_service_failed(&firing.arm->state->services, firing.arm->service);
	}
}

static void tell_no_recorder(struct ip_rules_target *t, const struct ip_rules_arm *arm)
{
	const struct ip_rules_rule *first = ip_rules_arm_waits_for(t, arm);

	ip_rules_came_of(arm->state, t, false,
			 "its flight recorder does not run just now%s%s%s: no snapshot",
			 first ? ", as the rule '" : "", first ? first->name : "",
			 first ? "' watches the process" : "");
}

/* Takes the snapshots that are due, from the flight recorder that runs, if it is the same
 * rule's. */
static void take_snapshots(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	for (size_t i = 0; i < t->nwaiting && !t->side.pid; i++) {
		struct ip_rules_firing firing = t->waiting[i];

		if (firing.arm->state->rule->action != IP_RULES_SNAPSHOT)
			continue;
		if (firing.awaits_recorder ? t->doing != IP_RULES_WATCH || t->by == firing.arm
					   : now_ns < firing.due_ns)
			continue;
		drop_waiting(t, i--);
		if (t->doing != IP_RULES_WATCH || t->by != firing.arm)
			tell_no_recorder(t, firing.arm);
		else if (ip_rules_snapshot_begin(e, t, &firing) < 0)
			ip_rules_came_of(firing.arm->state, t, false, "no snapshot: %s",
					 ip_error_message());
		else
			continue;
		ip_rules_service_failed(&firing.arm->state->services, firing.arm->service);
	}
}

static bool wants_to_act(const struct ip_rules_target *t)
{
	return t->nwaiting && t->waiting[0].arm->state->rule->action != IP_RULES_SNAPSHOT;
}

/* Returns whether there is a place for what acts next. A service with more processes than there are
 * places has all of them. */
static bool has_place_to_act(const struct ip_rules *e, const struct ip_rules_target *t)
{
	const struct ip_rules_state *state = t->waiting[0].arm->state;
	size_t left_out;

	if (!state->rule->service)
		return e->acting < IP_RULES_ACTING;
	return !e->acting ||
	       e->acting + ip_rules_members_count(e, t, state, &left_out) <= IP_RULES_ACTING;
}

/* Returns whether there is memory for it. What members of a service take to be watched is free
 * then. */
static bool has_memory_to_act(const struct ip_rules *e, const struct ip_rules_target *t)
{
	const struct ip_rules_state *state = t->waiting[0].arm->state;
	uint64_t needed, watching;
	size_t left_out;

	if (!state->rule->service)
		return ip_rules_memory_fits(e, t, ip_rules_memory_of(state->rule, 1), false);
	needed = ip_rules_memory_of(state->rule, ip_rules_members_count(e, t, state, &left_out));
	watching = ip_rules_members_watching(e, t, state);
	/* a session that can never have its memory does not wait: it fails */
	return ip_rules_memory_check(e, needed) < 0 ||
	       ip_rules_memory_fits(e, t, needed > watching ? needed - watching : 0, false);
}

static bool may_act(const struct ip_rules *e, const struct ip_rules_target *t)
{
	return wants_to_act(t) && has_place_to_act(e, t) && has_memory_to_act(e, t);
}

/* Returns whether all that it would record are free. */
static bool is_ready_to_act(const struct ip_rules *e, struct ip_rules_target *t)
{
	const struct ip_rules_state *state = t->waiting[0].arm->state;

	return !state->rule->service || ip_rules_members_claim(e, t, state);
}

void ip_rules_tell_memory(const struct ip_rules_state *state, struct ip_rules_target *t)
{
	if (!t->told_memory)
		ip_rules_log(state, t, "waits until there is memory for it (--memory-of-rules)");
	t->told_memory = true;
}

/* Returns whether the rule of a flight recorder may fire again. The recorder does not watch the
 * latency, since the rule could not fire when it began. */
static bool may_watch(const struct ip_rules_target *t, uint64_t now_ns)
{
	return t->by && t->by->state->rule->until && !t->nwatched &&
	       ip_rules_may_fire(t->by, now_ns) && !is_waiting(t, t->by);
}

/* A snapshot that waits must not delay the actions that came after it. */
static void put_actions_first(struct ip_rules_target *t)
{
	for (size_t i = 1; i < t->nwaiting && !wants_to_act(t); i++)
		if (t->waiting[i].arm->state->rule->action != IP_RULES_SNAPSHOT) {
			struct ip_rules_firing firing = t->waiting[i];

			drop_waiting(t, i);
			memmove(&t->waiting[1], &t->waiting[0],
				t->nwaiting++ * sizeof(*t->waiting));
			t->waiting[0] = firing;
		}
}

bool ip_rules_target_step(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	bool draining = e->ending || e->reloading || t->gone, hurry, acts;

	remove_left(t);
	if (t->side.pid && ip_rules_job_step(&t->side, now_ns)) {
		ip_rules_snapshot_end(e, t);
		ip_rules_job_clear(&t->side);
	}
	if (t->job.pid && is_job_due(e, t, now_ns)) {
		t->stepped_ns = now_ns;
		if (ip_rules_job_step(&t->job, now_ns))
			job_ended(e, t, now_ns);
		else if (t->doing == IP_RULES_WATCH && t->job.live)
			ip_rules_watch_tell(t, now_ns);
	}
	/* a target that has ended needs neither another try nor a note */
	if (t->doing == IP_RULES_CLEAN && !t->job.pid &&
	    (!t->unclean || !e->ending || !ip_pidfd_lives(t->pidfd)))
		clean(e, t, now_ns);
	t->gone |= !t->narms;
	draining |= t->gone;
	if (draining) {
		t->nwaiting = 0;
		if (t->doing != IP_RULES_ACT)
			ip_rules_members_release(e, t);
		/* What is being recorded is worth keeping. But if this process ends, or the rules
		 * have been waiting for long, it is ended properly now. */
		hurry = e->ending || (e->reloading && now_ns - e->reload_ns > RELOAD_NS);
		if (t->doing == IP_RULES_WATCH ? !t->side.pid : t->doing == IP_RULES_ACT && hurry)
			ip_rules_job_end(&t->job, now_ns);
		return !t->gone || t->doing != IP_RULES_NOTHING || t->side.pid;
	}
	ip_rules_look(e, t, now_ns);
	put_actions_first(t);
	take_snapshots(e, t, now_ns);
	if (ip_rules_members_hold(e, t)) {
		ip_rules_members_release(e, t);
		if (t->doing == IP_RULES_WATCH && !t->side.pid)
			ip_rules_job_end(&t->job, now_ns);
		return true;
	}
	acts = may_act(e, t);
	if (wants_to_act(t) && !acts) {
		e->held_back = true;
		if (has_place_to_act(e, t))
			ip_rules_tell_memory(t->waiting[0].arm->state, t);
	}
	if (!acts && t->doing != IP_RULES_ACT)
		ip_rules_members_release(e, t);
	if (t->doing == IP_RULES_WATCH && !t->side.pid &&
	    (acts || t->outgrown || may_watch(t, now_ns) || ip_rules_watch_is_over(t, now_ns)))
		ip_rules_job_end(&t->job, now_ns);
	acts = acts && t->doing != IP_RULES_ACT && is_ready_to_act(e, t);
	if (t->doing != IP_RULES_NOTHING)
		return true;
	if (e->begun >= IP_RULES_BEGIN || (!acts && e->starting >= e->may_start)) {
		e->held_back = true;
		return true;
	}
	if (acts)
		act(e, t, now_ns);
	else if (!wants_to_act(t) && now_ns >= t->retry_ns && ip_rules_watch_begin(e, t) < 0)
		failed(t, NULL, ip_error_message(), now_ns);
	e->begun += t->doing != IP_RULES_NOTHING;
	e->starting += ip_rules_target_starts(t, now_ns);
	if (t->doing == IP_RULES_ACT)
		ip_rules_count_acting(e);
	return true;
}
