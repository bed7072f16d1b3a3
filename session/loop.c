/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a session's loop: drain the rings, look after the target, report, decide whether to
 * go on.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "common/error.h"
#include "common/interrupted.h"
#include "common/notice.h"
#include "common/units.h"
#include "hotpatcher/inject/thread_areas.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/follow/follow_fork_libs.h"
#include "session/kernel_events.h"
#include "session/session_private.h"
#include "session/update.h"

#define CONFINEMENT_NS	  5000000ull /* between looks for seccomp, at least */
#define CONFINEMENT_SHARE 20	     /* one part in so many of our time goes to them */
#define LISTEN_NS	  1000000ull
#define LISTEN_LATE_NS	  20000000ull /* while no client has connected */
#define ATTEND_NS	  50000000ull /* after a client has */
#define ATTENTIVE_NS	  1000000ull  /* the longest nap while something is expected */
#define STANDSTILL	  1000000ull  /* ticks: ahead of what any thread has read */
#define LAUNCH_NS	  1000000000ull
#define SYNC_NS		  500000000ull /* between writings of the session file, at least */
#define SYNC_SHARE	  20
#define PROGRESS_NS	  250000000ull
#define SAVE_NS		  1000000000ull
#define SAVE_SHARE	  100
#define SAVE_SHARE_ASKED  20
/* buckets of histograms must be read once a minute (common/abi/meters.h) */
#define SAVE_LIMIT_NS 30000000000ull

static void tell_progress(struct ip_session *s, uint64_t now)
{
	struct ip_session_progress p = {.has_duration = s->options->duration_ns > 0};
	struct ip_collector_stats stats;
	uint64_t gone = now - s->start_ns;

	ip_collector_stats(s->collector, &stats);
	p.events = stats.events + stats.pending;
	p.per_second = (p.events > s->shown_events ? p.events - s->shown_events : 0) *
		       1000000000ull / (now - s->shown_ns + 1);
	p.lost = stats.lost;
	p.written = ip_trace_bytes(s->trace);
	if (gone < s->options->duration_ns)
		p.left_ns = s->options->duration_ns - gone;
	s->options->on_progress(s->options->context, &p);
	s->shown_ns = now;
	s->shown_events = p.events;
}

/* Watches for seccomp. A target that puts itself under seccomp while we record may be ended because
 * of the system call that reads strings. So that call is forbidden as soon as seccomp is seen. */
static void watch_confinement(struct ip_session *s)
{
	uint64_t now = ip_now_ns();

	if (!s->area->may_read || now < s->watch_ns)
		return;
	if (ip_values_is_confined(s->target) && ip_target_alive(s->target)) {
		if ((s->area->modes & (IP_MODE_MONOTONIC | IP_MODE_COARSE)) == IP_MODE_MONOTONIC) {
			__atomic_store_n(&s->area->clock->now, ip_clock_now() + STANDSTILL,
					 __ATOMIC_RELEASE);
			s->confined = true;
		}
		ip_bounds_set_reading(s->target, s->area, false);
		s->summary->value_gaps.no_reading |= ip_values_any(&s->options->values);
	}
	s->watch_ns = now + CONFINEMENT_NS + CONFINEMENT_SHARE * (ip_now_ns() - now);
}

/* Watches for threads whose calls would be recorded as those of other threads. */
static void watch_threads(struct ip_session *s)
{
	if (!s->threads)
		s->threads = ip_thread_areas_create();
	if (!s->threads || s->mixed || s->execed || s->follow_exec)
		return;
	if (ip_thread_areas_step(s->threads, s->target, s->options->no_stop || s->switched) < 0) {
		ip_notice("%s: the recording ends", ip_error_message());
		s->mixed = true;
	}
}

static int have_monitor(struct ip_session *s)
{
	return s->watch ? 0
			: ip_site_monitor_create(s->target, s->area, s->options->max_stop_ns,
						 &s->watch);
}

int ip_session_watch(struct ip_session *s, const struct ip_plan *plan)
{
	return have_monitor(s) < 0 ? -1 : ip_site_monitor_add(s->watch, plan);
}

int ip_session_watch_whole(struct ip_session *s, struct ip_plan *plan)
{
	return have_monitor(s) < 0 ? -1 : ip_site_monitor_take(s->watch, plan);
}

/* Saves what was counted, once a second or as often as is asked for: if iprobe is killed, that is
 * what is left on disk. At most a hundredth of our time is spent on this. */
static void save_counts(struct ip_session *s)
{
	const uint64_t least = s->options->save_counts_ns ? s->options->save_counts_ns : SAVE_NS;
	uint64_t now = ip_now_ns();

	if (!s->counters || now - s->saved_ns < s->save_after_ns)
		return;
	ip_session_save_counts(s); /* if this fails, the last save reports it */
	s->saved_ns = ip_now_ns();
	s->save_after_ns =
		(s->options->save_counts_ns ? SAVE_SHARE_ASKED : SAVE_SHARE) * (s->saved_ns - now);
	if (s->save_after_ns < least)
		s->save_after_ns = least;
	if (s->save_after_ns > SAVE_LIMIT_NS)
		s->save_after_ns = SAVE_LIMIT_NS;
}

static void watch_text(struct ip_session *s)
{
	struct ip_patch_result result = ip_site_monitor_step(s->watch, s->trace);

	ip_session_note_stop(s, "repair", &result);
	/* no stop if the user wants none */
	if (ip_site_monitor_wants_update(s->watch) && !s->options->no_stop)
		ip_follow_dlopen_want(s->follow);
}

void ip_session_condense(struct ip_session *s)
{
	struct ip_trace_rotated rotated;

	if (!s->coarse_clock || !ip_trace_rotates(s->trace))
		return;
	ip_trace_rotated(s->trace, &rotated);
	if (rotated.pieces == s->condensed)
		return;
	s->condensed = rotated.pieces;
	ip_coarse_clock_condense(s->coarse_clock, rotated.early);
}

/* Writes what has become known to disk from time to time, so that it is not lost if we are killed.
 * A full disk shows when events are to be written. */
static void sync_trace(struct ip_session *s, uint64_t now)
{
	if (now < s->sync_ns)
		return;
	if (s->sync_ns)
		ip_trace_sync_new(s->trace);
	s->sync_ns = ip_now_ns() + SYNC_NS + SYNC_SHARE * (ip_now_ns() - now);
}

uint64_t ip_session_longest_nap(const struct ip_session *s, uint64_t now)
{
	uint64_t longest = s->area->may_read ? CONFINEMENT_NS : IP_POLL_INTERVAL_MAX_NS;
	uint64_t asked = ip_controllers_nap(s, now);

	/* the next image of a command waits for us; wrappers exec soon after they start */
	if (s->launched && now - s->start_ns < LAUNCH_NS)
		return ATTENTIVE_NS;
	/* a controller knows best what must be seen soon */
	if (asked != UINT64_MAX)
		return asked;
	/* threads record nothing until we have decided whether they are wanted */
	if (s->options->filters.names)
		return ATTENTIVE_NS;
	if (s->execed || s->follow_exec || ip_stops_of(s->target)->nheld ||
	    (!s->nap.watches && ip_follow_dlopen_expects(s->follow)))
		return ATTENTIVE_NS;
	if (s->options->duration_ns && s->start_ns + s->options->duration_ns < now + longest)
		return ATTENTIVE_NS;
	return longest;
}

/* Returns whether a descriptor is ready. A signal that asks for the end does not come between the
 * look at it and the sleep, which may be a long one. */
static bool wait_for(struct pollfd *polled, nfds_t n, const struct timespec *limit)
{
	sigset_t ends, before;
	int ready;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, &before);
	ready = ip_interrupted ? 0 : ppoll(polled, n, limit, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ready > 0;
}

/* Sleeps until something is to be done. The kernel wakes us when the target ends, and when a client
 * connects. */
static void sleep_a_little(struct ip_session *s, int taken, bool alive)
{
	struct pollfd p[2] = {{.fd = ip_control_fd(s->control), .events = POLLIN},
			      {.fd = s->target->pidfd, .events = POLLIN}};
	uint64_t now = ip_now_ns(), nap;
	struct timespec t;

	nap = s->nap.calm ? ip_nap_length(s, now)
			  : ip_collector_nap(s->collector, &s->interval, taken, s->records, now,
					     ip_session_longest_nap(s, now));
	if (!nap)
		return;
	t = (struct timespec){nap / 1000000000, nap % 1000000000};
	if (!wait_for(p, 1 + alive, &t)) /* a negative descriptor is ignored */
		return;
	ip_poll_interval_hurry(&s->interval);
	ip_nap_end(s);
	if (p[0].revents) {
		s->attend_ns = ip_now_ns() + ATTEND_NS;
		s->listened_ns = 0;
	}
}

/* A step in which only the controllers look. */
static enum ip_end_reason step_calmly(struct ip_session *s)
{
	enum ip_end_reason decided = ip_controllers_step(s);

	if (ip_interrupted)
		return IP_END_INTERRUPTED;
	if (!decided)
		sleep_a_little(s, 0, true);
	return decided;
}

enum ip_end_reason ip_session_step(struct ip_session *s)
{
	uint64_t now;
	enum ip_end_reason reason, decided;
	bool alive;
	int grows, taken;

	if (ip_nap_is_calm(s))
		return step_calmly(s);
	grows = ip_area_grow(s->area, s->target->pid);
	taken = ip_collector_poll(s->collector);

	if (grows < 0)
		ip_notice("%s", ip_error_message());
	ip_stop_let_go(s->target);
	watch_confinement(s);
	watch_threads(s);
	ip_filters_step(&s->options->filters, s->area, s->target, &s->names);
	ip_session_look_at_cpu(s, false);
	watch_text(s);
	decided = ip_controllers_step(s);
	save_counts(s);
	if (taken < 0 || s->write_failed ||
	    ip_follow_fork_step(s->followed, s->collector, s->trace) < 0) {
		s->write_failed = true;
		return IP_END_WRITE_FAILED;
	}
	ip_session_watch_names(s, false);
	ip_session_walk_stacks(s, false);
	ip_follow_fork_libs_step(s);
	if (s->write_failed)
		return IP_END_WRITE_FAILED;
	reason = ip_session_kernel_step(s);
	if (reason)
		return reason;
	now = ip_now_ns();
	if (now - s->listened_ns > (now < s->attend_ns ? LISTEN_NS : LISTEN_LATE_NS)) {
		ip_control_poll(s->control, ip_session_serve, s);
		s->listened_ns = ip_now_ns();
	}
	if (s->options->on_progress && now - s->shown_ns > PROGRESS_NS)
		tell_progress(s, now);
	if (ip_interrupted)
		return IP_END_INTERRUPTED;
	if (s->options->duration_ns && now - s->start_ns >= s->options->duration_ns)
		return IP_END_DURATION;
	if (decided)
		return decided;
	if (s->confined)
		return IP_END_CONFINED;
	if (s->mixed)
		return IP_END_AREAS;
	if (ip_filters_stopped(&s->options->filters, s->area))
		return IP_END_STOP_ON;
	if (ip_collector_full(s->collector))
		return ip_collector_no_space(s->collector) ? IP_END_NO_SPACE : IP_END_SIZE_LIMIT;
	sync_trace(s, now);
	ip_session_condense(s);
	if (s->area->header->ended == s->area->header->session)
		return s->options->yields && !s->area->header->yields ? IP_END_YIELDED
								      : IP_END_DETACHED;
	reason = ip_follow_dlopen_step(s);
	if (reason)
		return reason;
	alive = ip_target_alive(s->target) && !s->execed;
	if (!alive && !(s->follow_exec && ip_target_alive(s->target)) &&
	    !ip_follow_fork_lives(s->followed))
		return s->execed && !s->follow_exec ? IP_END_EXECED : IP_END_TARGET_ENDED;
	ip_nap_note(s);
	if (grows <= 0)
		sleep_a_little(s, taken, alive);
	return IP_END_NONE;
}
