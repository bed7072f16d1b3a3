/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe attach, from a PID to live sites:
 *
 *   1. Open the target: /proc/PID, its memory, its maps, and whether it may be traced.
 *   2. Ensure that the runtime is there. If the runtime sleeps, a borrowed thread sets it up; if it
 *      is not there, a borrowed thread injects it. Both are done only if the selection names
 *      anything, so in these cases step 3 comes first. The area of the runtime tells whether
 *      another iprobe has the session of the target. If so, that iprobe is asked to do the rest. A
 *      session that only watches for a rule of iprobed (--yield) ends instead, and this one begins.
 *   3. Plan: find the modules with probe lists, and the changes that the selection asks for.
 *   4. Begin: leave out what other tools have changed; make area, trace, collector and control
 *      socket.
 *   5. Patch: write stubs and duties, and then the sites.
 *
 * If a library was unloaded in between, steps 3 to 5 are done again. Then the session's loop
 * records (loop.c), and at the end every site is put back (end.c).
 */
#include <stdlib.h>
#include <string.h>

#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/proc.h"
#include "hotpatcher/inject/area_renew.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/inject.h"
#include "hotpatcher/inject/runtime_wake.h"
#include "hotpatcher/inject/target_clock.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/plan/window/area_window.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/controllers/stream_log.h"
#include "session/session_private.h"
#include "session/update.h"

#define TAKE_OVERS 8

/* Cleans up, and keeps the first error. */
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
		.kind = "hold", .tsc = ip_clock_now(), .ns = held_ns, .threads = 1, .held = true};

	if (held_ns)
		ip_stop_log_add(&ip_stops_of(s->target)->log, &hold);
}

int ip_session_bring_runtime(const struct ip_session *s, const struct ip_modules *modules,
			     uint64_t ret_held_ns[2])
{
	struct ip_inject_room room =
		ip_area_window_first(s->target, modules, ip_session_ring_memory(s));

	ret_held_ns[0] = ret_held_ns[1] = 0;
	/* the session makes do with less, and says so (ip_session_begin_area()) */
	if (room.area < IP_AREA_OWN_SIZE && !s->options->memory_exact && !s->target->has_runtime &&
	    ip_inject_check(s->target, &room) < 0)
		room.area = IP_AREA_SMALL_SIZE;
	if (ip_inject(s->target, modules, &room, &ret_held_ns[0]) < 0)
		return -1;
	/* one of an iprobe that has died, which knew of no confinement */
	if (room.area == IP_AREA_OWN_SIZE && ip_inject_map_all(s->target) < 0)
		return -1;
	return ip_wake(s->target, &ret_held_ns[1]);
}

/* Sets up a runtime that sleeps, or injects a runtime. The hold of the borrowed thread counts as a
 * stop, too. If there is nothing to make live, the process is left as it is: so the plan comes
 * first. */
static int set_up_runtime(struct ip_session *s)
{
	uint64_t held[2];
	int done;

	if (!s->target->has_runtime && ip_inject_check(s->target, NULL) < 0)
		return -1;
	if (ip_session_plan(s, false) < 0)
		return -1;
	done = ip_session_bring_runtime(s, &s->modules, held);
	note_hold(s, held[0]);
	note_hold(s, held[1]);
	return done < 0 ? -1 : ip_modules_find_rooms(s->target, &s->modules);
}

int ip_session_is_followed(const struct ip_target *target, const struct ip_area *area)
{
	struct ip_rt_private own;
	struct ip_gate gate;

	if (ip_bounds_read(target, &own) < 0 ||
	    ip_target_read(target, target->anchor.gate, &gate, sizeof(gate)) < 0)
		return -1;
	return gate.session || (own.follow && own.follow == __atomic_load_n(&area->header->follow,
									    __ATOMIC_SEQ_CST));
}

/* Gives the target an area of its own, and takes its session. The caller has the target's lock. 0,
 * or -1 with an error. */
static int renew_area(struct ip_session *s, bool shares)
{
	uint64_t held = 0;

	if (ip_area_renew(s->target, shares, &held) < 0)
		return -1;
	note_hold(s, held);
	s->forked = true;
	s->planned = false;
	return ip_area_open(s->target, &s->area) < 0
		       ? -1
		       : ip_area_lock_session(s->area, s->target->pid);
}

int ip_session_is_recorded_with_parent(struct ip_session *s)
{
	int followed = ip_area_open(s->target, &s->area);

	if (followed == 0)
		followed = ip_area_has_session(s->area) ? ip_session_is_followed(s->target, s->area)
							: 0;
	if (followed <= 0) {
		ip_area_close(s->area);
		s->area = NULL;
	}
	return followed;
}

/* Opens the area of the target. 0; 1: the target has got an area just now, whose session is ours;
 * -1 with an error. */
static int open_area(struct ip_session *s)
{
	_cleanup_close_ int lock = -1;
	bool shares;
	int followed;

	if (!ip_area_renew_is_needed(s->target, &shares))
		return ip_area_open(s->target, &s->area);
	/* until the session is ours (area_renew.h, step 1); what was seen before may be over */
	lock = ip_borrow_lock(s->target->pid);
	if (lock < 0 || ip_target_refresh(s->target) < 0)
		return -1;
	if (!ip_area_renew_is_needed(s->target, &shares))
		return ip_area_open(s->target, &s->area);
	followed = shares ? ip_session_is_recorded_with_parent(s) : 0;
	if (followed)
		return followed < 0 ? -1 : 0;
	return renew_area(s, shares) < 0 ? -1 : 1;
}

/* Whether the iprobe that has the session works for the same service as this one. */
static bool is_sibling(const struct ip_session *s)
{
	const pid_t owner = ip_area_owner(s->area);

	return s->options->service && owner &&
	       ip_proc_status(owner, "PPid") == s->options->service->parent;
}

/* As ip_area_try_session(); waits for a session that is about to end. */
static int try_session(struct ip_session *s)
{
	int held = ip_area_try_session(s->area, s->target->pid);
	pid_t writer;

	if (held <= 0)
		return held;
	writer = ip_area_await_written(s->area, IP_AREA_WRITTEN_NS);
	if (writer)
		return ip_error("pid %d: its iprobe (pid %d) is still writing what it has "
				"recorded: try again when it has ended",
				s->target->pid, writer);
	return ip_area_try_session(s->area, s->target->pid);
}

/* What the target has mapped of the area was looked at when another iprobe may have had the
 * session, at whose end it is unmapped (ip_area_window_give()): hooks would run into what is not
 * there. It can change no more once the session is ours. 0, or -1 with an error. */
static int look_when_ours(struct ip_session *s)
{
	return ip_target_refresh(s->target) < 0 ? -1 : ip_area_look(s->area, s->target);
}

/* Takes the session of the target, or asks the iprobe that has it. 0: the session is ours; 1: the
 * other iprobe has done what was asked for; -1 with an error. */
static int take_or_ask(struct ip_session *s)
{
	for (unsigned taken_over = 0;;) {
		int held = try_session(s), ret;
		uint32_t yields;

		if (held <= 0)
			return held < 0 ? -1 : look_when_ours(s);
		s->summary->followed = is_sibling(s);
		if (s->summary->followed)
			return 1;
		yields = s->options->yields ? 0 : ip_session_yields(s->area);
		/* bounded: the target can write what is read here */
		if (yields && taken_over++ < TAKE_OVERS) {
			if (ip_session_take_over(s, yields) < 0)
				return -1;
			continue;
		}
		ret = ip_session_ask(s, false);
		if (ret <= 0)
			return ret < 0 ? -1 : 1;
	}
}

/* Step 2. 0: the session is ours; 1: another iprobe has it, and has done what was asked for; -1
 * with an error. */
static int ensure_runtime(struct ip_session *s)
{
	bool was_there = s->target->has_runtime && !ip_is_asleep(s->target);
	int ret;

	if (ip_target_clock_check(s->target->pid) < 0)
		return -1;
	if (!was_there && set_up_runtime(s) < 0)
		return -1;
	ret = open_area(s);
	if (ret < 0)
		return -1;
	ret = ret ? 0 : take_or_ask(s);
	/* The plan was made when there was no area yet. If another iprobe has had a session since
	 * then, and was killed, its sites are still live: the next plan puts them back. */
	if (ret == 0 && s->area->header->session)
		s->planned = false;
	/* Only when the session is ours: a request for a change of another iprobe's session must
	 * hold none of its threads. A runtime that was set up just now has asked for the clock
	 * itself. */
	return ret == 0 && was_there ? ip_target_clock_ask(s->target) : ret;
}

/* Steps 3 to 5, again if a library of the plan was unloaded. */
static int go_live(struct ip_session *s)
{
	struct ip_session_tries tries = {.images = s->target->images};

	for (;;) {
		if (ip_session_plan(s, false) == 0 && /* 3 */
		    ip_session_begin(s) == 0 &&	      /* 4 */
		    ip_session_patch(s) == 0)	      /* 5 */
			return 0;
		if (!ip_session_replans(s, &tries))
			return -1;
	}
}

/* Continues the recording of an iprobe that was killed. The target must have the runtime, and no
 * iprobe may have its session. */
static int resume(struct ip_session *s, struct ip_session_options *options, bool *ret_closed)
{
	int done;

	if (ip_area_open(s->target, &s->area) < 0 ||
	    ip_area_lock_session(s->area, s->target->pid) < 0)
		return -1;
	done = ip_session_resume(s, options);
	*ret_closed = done > 0;
	return done < 0 ? -1 : 0;
}

/* Runs the session's loop, and ends the session. */
static int record(struct ip_session *s, enum ip_end_reason reason)
{
	s->live_tsc = s->trace ? ip_trace_add_live(s->trace) : 0;
	s->resumed_tsc = ip_clock_now();
	s->start_ns = s->shown_ns = ip_now_ns();
	ip_end_time_start(s);
	while (!reason)
		reason = ip_session_step(s);
	ip_nap_end(s); /* short sleeps are short again */
	if (s->write_failed || ip_session_go_idle(s) < 0)
		return fail_keeping(s, reason);
	return ip_session_finish(s, reason);
}

/* A process that has the pid now, and had it when it was chosen, is the one that was opened
 * between. */
static int check_start(const struct ip_session *s)
{
	const uint64_t wanted = s->options->started;

	if (!wanted || ip_proc_started_at(s->target->pid) == wanted)
		return 0;
	return ip_error("pid %d has ended: it is another process now, which was not chosen",
			s->target->pid);
}

int ip_session_attach(pid_t pid, const struct ip_session_options *options,
		      struct ip_session_summary *ret)
{
	struct ip_session s = {.options = options, .summary = ret, .start_ns = ip_now_ns()};
	struct ip_session_options resumed;
	bool closed = false;
	int done = -1;

	*ret = (struct ip_session_summary){.pid = pid};
	if (options->yields)
		ip_nap_prepare();
	ip_session_choose_clock(options);
	ip_clock_read(&s.start);
	ip_priority_guard_start();
	ip_session_hurry(&s, true);
	if (ip_session_select(&s) < 0 || ip_session_open(&s, pid) < 0 || check_start(&s) < 0 ||
	    ip_session_add_stream_log(&s) < 0) /* 1 */
		goto out;
	if (options->resume) {
		if (resume(&s, &resumed, &closed) < 0)
			goto out;
	} else {
		done = ensure_runtime(&s); /* 2 */
		if (done) {
			done = done < 0 ? -1 : 0;
			goto out;
		}
		done = -1;
		if (go_live(&s) < 0) { /* 3 to 5 */
			fail_keeping(&s, IP_END_NOT_LIVE);
			goto out;
		}
	}
	ip_session_hurry(&s, false);
	if (!options->resume)
		ip_session_tell_unused(&s);
	if (options->on_live)
		options->on_live(options->context);
	done = record(&s, closed ? IP_END_INTERRUPTED : IP_END_NONE);
out:
	ip_session_hurry(&s, false);
	ip_session_clear(&s);
	ip_priority_guard_stop();
	return done;
}
