/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows exec. follow_exec.h describes the steps; the comments here name them.
 */
#include "session/follow/follow_exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/units.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/inject/inject.h"
#include "hotpatcher/inject/runtime_wake.h"
#include "hotpatcher/inject/thread_areas.h"
#include "hotpatcher/plan/window/area_window.h"
#include "hotpatcher/process/link_map.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/shm/area_trace.h"
#include "session/session_private.h"

#define FIRST_NS   1000000ull	/* between looks at an image that is being loaded */
#define SELDOM_NS  250000000ull /* at most, between looks at an image that has nothing for us */
#define SHARE	   20		/* one part in so many of our time goes to looks */
#define GIVE_UP_NS 5000000000ull

struct ip_follow_exec {
	struct ip_link_map *link_map;
	uint64_t seen_ns, seen_tsc;
	uint64_t next_ns, rest_ns;
	uint64_t failing_ns; /* since when the tries fail; 0: they do not */
	bool told;	     /* it was reported that there is nothing to record */
};

void ip_follow_exec_destroy(struct ip_follow_exec *b)
{
	if (!b)
		return;
	ip_link_map_destroy(b->link_map);
	free(b);
}

int ip_follow_exec_begin(struct ip_session *s, uint64_t seen_ns, uint64_t seen_tsc)
{
	struct ip_follow_exec *b = calloc(1, sizeof(*b));

	ip_follow_exec_destroy(s->follow_exec);
	s->follow_exec = b;
	if (!b)
		return ip_error("out of memory");
	b->link_map = ip_link_map_create();
	b->seen_ns = seen_ns;
	b->seen_tsc = seen_tsc;
	b->rest_ns = FIRST_NS;
	return b->link_map ? 0 : -1;
}

/* The program that the process executes now, as a text for messages. */
static const char *program_of(pid_t pid, char path[256])
{
	char name[64];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	n = readlink(name, path, 255);
	path[n > 0 ? n : 0] = '\0';
	for (char *c = path; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return n > 0 ? path : "another program";
}
/* Step 3. 1: some probe is selected; 0: none is; -1 with an error. */
static int is_wanted(struct ip_session *s, struct ip_modules *modules)
{
	struct ip_plan plan = {0};
	int ret;

	if (ip_modules_load(s->target, modules) < 0 ||
	    ip_plan_match(s->target, modules, &s->selections, &plan) < 0)
		return -1;
	ret = plan.nchanges > 0;
	ip_plan_clear(&plan);
	return ret;
}

/* Step 4. */
static int bring_runtime(struct ip_session *s, struct ip_modules *modules)
{
	uint64_t held[2];

	if (ip_session_bring_runtime(s, modules, held) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		const struct ip_stop_record hold = {.kind = "exec",
						    .tsc = ip_clock_now(),
						    .ns = held[i],
						    .threads = 1,
						    .held = true};

		if (held[i])
			ip_session_add_stop(s, &hold);
	}
	return 0;
}

static bool same_memory(const struct ip_area *a, const struct ip_area *b)
{
	struct stat x, y;

	return fstat(a->fd, &x) == 0 && fstat(b->fd, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* Step 5: marks the numbers of the old area as taken in the new one. */
static int take_numbers_over(struct ip_area *area, const struct ip_area *old, pid_t pid)
{
	uint32_t n = __atomic_load_n(&old->header->nmodules, __ATOMIC_RELAXED);
	uint64_t end = 1;

	if (area->header->nmodules)
		return ip_error("pid %d: somebody else has recorded the program already that it "
				"executes now",
				pid);
	for (uint32_t i = 0; i < n && i < IP_AREA_MODULES; i++) {
		const struct ip_area_module *m = &old->modules[i];
		uint64_t last = m->first_number + (uint64_t)IP_NUMBERS_PER_FUNCTION * m->nfunctions;

		end = last > end ? last : end;
	}
	if (end > IP_NUMBER_MAX)
		return ip_error(
			"pid %d: its programs have more functions than a trace has numbers for",
			pid);
	/* no module matches this entry: its build-id is empty */
	area->modules[0] = (struct ip_area_module){
		.first_number = 1,
		.nfunctions = (end + IP_NUMBERS_PER_FUNCTION - 2) / IP_NUMBERS_PER_FUNCTION};
	__atomic_store_n(&area->header->nmodules, 1, __ATOMIC_RELEASE);
	return 0;
}

/* Step 5. What belongs to the old area is given up when everything of the new area is ready. */
static int move(struct ip_session *s, struct ip_area *area)
{
	pid_t pid = s->target->pid;
	struct ip_follow_fork *followed, *before = s->followed;
	struct ip_area *old = s->area;

	if (ip_area_lock_session(area, pid) < 0 || take_numbers_over(area, old, pid) < 0 ||
	    ip_trace_expect_journal(s->trace, ip_area_next_session(area)) < 0 ||
	    ip_session_begin_area(s, area, NULL, NULL) < 0 ||
	    ip_follow_fork_create(area, s->target, s->options->follow_fork, s->options->max_stop_ns,
				  &followed) < 0) {
		/* so that the next try finds the area as this one did */
		__atomic_store_n(&area->header->nmodules, 0, __ATOMIC_RELEASE);
		ip_area_close(area);
		return -1;
	}
	/* what was recorded before is on disk after this */
	if (ip_collector_move(s->collector, area) < 0 ||
	    ip_trace_move_journal(s->trace, area->header->session) < 0) {
		s->write_failed = true;
		ip_follow_fork_destroy(followed);
		ip_area_close(area);
		return -1;
	}
	ip_area_set_trace(area, s->options->dir);
	s->followed = followed;
	s->area = area;
	if (s->options->follow_fork)
		ip_collector_set_followed(s->collector, ip_follow_fork_is_gone, followed);
	ip_site_monitor_clear(s->watch, s->trace);
	s->disturbed_before += ip_site_monitor_summary(s->watch).disturbed;
	ip_site_monitor_destroy(s->watch);
	s->watch = NULL;
	ip_thread_areas_destroy(s->threads);
	s->threads = NULL;
	ip_control_destroy(s->control);
	s->control = NULL;
	if (ip_control_create(area, &s->control) < 0)
		ip_notice("pid %d: %s: a second iprobe attach cannot change it", pid,
			  ip_error_message());
	ip_follow_fork_restore(before);
	s->restored_before += ip_follow_fork_restored(before);
	ip_follow_fork_destroy(before);
	ip_area_end(old);
	ip_area_close(old);
	return 0;
}

/* Steps 4 and 5. */
static int enter(struct ip_session *s)
{
	struct ip_area *area;

	if (ip_area_open(s->target, &area) < 0)
		return -1;
	if (!same_memory(area, s->area))
		return move(s, area);
	/* an earlier try has moved the session already; or the new image was given the old area, as
	 * under iprobe run */
	ip_area_close(area);
	if (!s->live)
		ip_area_forget_stubs(s->area);
	return 0;
}

/* Steps 2 to 6. 1: the program is recorded; 0: not yet; -1 with an error. */
static int take(struct ip_session *s)
{
	struct ip_follow_exec *b = s->follow_exec;
	struct ip_modules modules = {0};
	int ret = ip_link_map_note(b->link_map, s->target); /* 2 */

	if (ret == 0) {
		b->rest_ns = FIRST_NS;
		return 0;
	}
	if (ip_target_refresh(s->target) < 0)
		return -1;
	ret = is_wanted(s, &modules);		       /* 3 */
	if (ret > 0 && bring_runtime(s, &modules) < 0) /* 4 */
		ret = -1;
	ip_modules_clear(&modules);
	if (ret <= 0)
		return ret;
	if (enter(s) < 0) /* 5 */
		return -1;
	ret = ip_session_go_live(s, true); /* 6 */
	return ret < 0 ? -1 : ret == 0;
}

static void tell_success(struct ip_session *s)
{
	const struct ip_follow_exec *b = s->follow_exec;
	uint64_t now_tsc = ip_clock_now(), gap = ip_now_ns() - b->seen_ns;
	char path[256], length[16];

	ip_trace_add_resumed(s->trace, s->target->inner_pid, b->seen_tsc, now_tsc);
	s->summary->execs++;
	if (gap > s->summary->exec_gap_ns)
		s->summary->exec_gap_ns = gap;
	ip_notice("pid %d executes %s now: recorded again, after at most %s in which it was not",
		  s->target->pid, program_of(s->target->pid, path), ip_format_ns(gap, length));
}

/* The target has executed yet another program before we were ready: begins again with step 1. */
static int begin_anew(struct ip_session *s)
{
	struct ip_follow_exec *b = s->follow_exec;

	if (s->live && ip_collector_flush(s->collector) < 0) {
		s->write_failed = true;
		return -1;
	}
	s->live = false;
	ip_trace_add_exec(s->trace, s->target->inner_pid);
	return ip_follow_exec_begin(s, b->seen_ns, b->seen_tsc);
}

static void tell_nothing(struct ip_session *s)
{
	struct ip_follow_exec *b = s->follow_exec;
	char path[256];

	if (b->told || b->rest_ns < SELDOM_NS)
		return;
	b->told = true;
	ip_notice(
		"pid %d executes %s now, of which nothing is selected: waiting for what comes next",
		s->target->pid, program_of(s->target->pid, path));
}

enum ip_end_reason ip_follow_exec_step(struct ip_session *s)
{
	struct ip_follow_exec *b = s->follow_exec;
	uint64_t now = ip_now_ns(), cost;
	int done;

	if (!b || now < b->next_ns)
		return IP_END_NONE;
	if (ip_target_image_is_gone(s->target)) {
		if (ip_target_refresh(s->target) < 0)
			return IP_END_NONE; /* it ends: that is reported in a moment */
		if (begin_anew(s) < 0)
			return s->write_failed ? IP_END_WRITE_FAILED : IP_END_EXECED;
		return IP_END_NONE;
	}
	done = take(s);
	if (s->write_failed)
		return IP_END_WRITE_FAILED;
	if (done > 0) {
		tell_success(s);
		s->execed = false;
		ip_follow_exec_destroy(b);
		s->follow_exec = NULL;
		return IP_END_NONE;
	}
	if (done < 0 && !ip_target_image_is_gone(s->target) && ip_target_alive(s->target)) {
		b->failing_ns = b->failing_ns ? b->failing_ns : now;
		if (now - b->failing_ns > GIVE_UP_NS) {
			char path[256];

			ip_notice("pid %d executes %s now, which cannot be recorded: %s",
				  s->target->pid, program_of(s->target->pid, path),
				  ip_error_message());
			return IP_END_EXECED;
		}
	} else if (done == 0) {
		b->failing_ns = 0;
		tell_nothing(s);
	}
	cost = SHARE * (ip_now_ns() - now);
	cost = cost < SELDOM_NS ? cost : SELDOM_NS;
	/* while the image is being loaded, a look is cheap and should come soon */
	b->next_ns =
		ip_now_ns() + (b->rest_ns == FIRST_NS || b->rest_ns > cost ? b->rest_ns : cost);
	b->rest_ns = 2 * b->rest_ns < SELDOM_NS ? 2 * b->rest_ns : SELDOM_NS;
	return IP_END_NONE;
}
