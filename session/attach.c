/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe attach: put the runtime there where it is not, wake it where it sleeps, go live, record,
 * go idle.
 */
#include <stdlib.h>
#include <string.h>

#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "hotpatcher/inject/inject.h"
#include "hotpatcher/inject/runtime_wake.h"
#include "hotpatcher/inject/target_clock.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"
#include "session/update.h"

/* Keeps the first error while cleaning up. */
static int fail_keeping(struct ip_session *s, enum ip_end_reason reason)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	ip_session_go_idle(s);
	ip_session_finish(s, reason);
	return ip_stop_tell_in_vain(&s->summary->stops, why ? why : "out of memory");
}

static void note_hold(struct ip_session *s, uint64_t held_ns)
{
	const struct ip_stop_record hold = {
		.kind = "hold", .tsc = ip_clock_now(), .ns = held_ns, .threads = 1};

	if (held_ns)
		ip_stop_log_add(&ip_stops_of(s->target)->log, &hold);
}

/* A runtime that is linked in may never have been needed before; where there is none it is put
 * there. The hold of the borrowed thread is a stop too. Where there is nothing to make live the
 * process is left as it is. 1: it was there already. */
static int wake(struct ip_session *s)
{
	struct ip_plan plan = {0};
	uint64_t held = 0;
	int ret;

	if (ip_target_clock_check(s->target->pid) < 0)
		return -1;
	if (s->target->has_runtime && !ip_is_asleep(s->target))
		return 1;
	if (!s->target->has_runtime && ip_inject_check(s->target) < 0)
		return -1;
	ip_modules_clear(&s->modules);
	if (ip_modules_load(s->target, &s->modules) < 0 ||
	    ip_session_check_lists(s->target, &s->modules) < 0)
		return -1;
	ret = ip_plan_select(s->target, &s->modules, &s->selections, &plan);
	ip_plan_clear(&plan);
	if (ret < 0)
		return -1;
	if (ip_inject(s->target, &s->modules, &held) < 0)
		return -1;
	note_hold(s, held);
	if (ip_wake(s->target, &held) < 0)
		return -1;
	note_hold(s, held);
	return 0;
}

/* Takes the session of the target, or asks the iprobe that has it. 0: it is ours; 1: the other one
 * has done it; -1 error. */
static int take_or_ask(struct ip_session *s)
{
	for (;;) {
		int held = ip_area_try_session(s->area, s->target->pid), ret;

		if (held <= 0)
			return held;
		ret = ip_session_ask(s, false);
		if (ret <= 0)
			return ret < 0 ? -1 : 1;
	}
}

/* The target has the runtime, and nobody has its session. */
static int take_left_over(struct ip_session *s)
{
	if (ip_area_open(s->target, &s->area) < 0)
		return -1;
	return ip_area_lock_session(s->area, s->target->pid);
}

int ip_session_attach(pid_t pid, const struct ip_session_options *options,
		      struct ip_session_summary *ret)
{
	struct ip_session s = {.options = options, .summary = ret, .start_ns = ip_now_ns()};
	struct ip_session_options resumed;
	enum ip_end_reason reason = IP_END_NONE;
	int done = -1, was_there = 0;

	*ret = (struct ip_session_summary){.pid = pid};
	ip_session_choose_clock(options);
	ip_clock_read(&s.start);
	ip_priority_guard_start();
	ip_session_hurry(&s, true);
	if (ip_session_select(&s) < 0 || ip_stops_open(pid, &s.target) < 0)
		goto out;
	if (options->resume) {
		if (take_left_over(&s) < 0 || (done = ip_session_resume(&s, &resumed)) < 0)
			goto out;
		reason = done ? IP_END_INTERRUPTED : IP_END_NONE;
	} else if ((was_there = wake(&s)) < 0 || ip_area_open(s.target, &s.area) < 0 ||
		   (done = take_or_ask(&s)) != 0) {
		done = done > 0 ? 0 : -1;
		goto out;
	}
	done = -1;
	/* when the session is ours: who asks another one for a change holds none of its threads.
	 * One that was set up now was asked then. */
	if (was_there > 0 && ip_target_clock_ask(s.target) < 0)
		goto out;
	if (!options->resume && ip_session_go_live(&s, false) < 0) {
		fail_keeping(&s, IP_END_NOT_LIVE);
		goto out;
	}
	ip_session_hurry(&s, false);
	if (!options->resume)
		ip_session_tell_unused(&s);
	if (options->on_live)
		options->on_live(options->context);
	s.start_ns = s.shown_ns = ip_now_ns();
	while (!reason)
		reason = ip_session_step(&s);
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
	ip_session_hurry(&s, false);
	ip_session_clear(&s);
	ip_priority_guard_stop();
	return done;
}
