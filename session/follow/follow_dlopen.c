/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows dlopen, dlclose and exec. follow_dlopen.h describes the steps.
 */
#include "session/follow/follow_dlopen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/retry.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/process/link_map.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/follow/follow_exec.h"
#include "session/session_private.h"
#include "session/update.h"

#define REST_SHARE 4		 /* the pause after a change, as a multiple of its length */
#define SLOW_NS	   1000000000ull /* between looks at a process without a list */
#define BURST_NS   1000000000ull

struct ip_follow_dlopen {
	struct ip_link_map *link_map;
	uint64_t next_ns;    /* no look before that time */
	uint64_t changed_ns; /* when something changed last */
	struct ip_retry failures;
	uint64_t seen_ns, seen_tsc; /* when the image was seen for the last time */
	/* number of the target's image when its probes went live: other code that looks at the
	 * target may be the first to find a new image */
	unsigned images;
	bool listless, retry;
	bool wanted; /* an update is wanted, even if the list has not changed */
};

int ip_follow_dlopen_begin(struct ip_session *s)
{
	struct ip_follow_dlopen *f = calloc(1, sizeof(*f));

	ip_follow_dlopen_destroy(s->follow);
	s->follow = f;
	if (!f)
		return ip_error("out of memory");
	f->link_map = ip_link_map_create();
	if (!f->link_map)
		return -1;
	f->images = s->target->images;
	f->seen_ns = ip_now_ns();
	f->seen_tsc = ip_clock_now();
	/* The order matters: what came between the plan and now then shows as a change that must be
	 * looked at. */
	f->listless = ip_link_map_note(f->link_map, s->target) < 0;
	f->retry = !f->listless;
	for (size_t i = 0; i < s->modules.n; i++) {
		struct ip_module *m = &s->modules.items[i];

		m->fresh = false;
		/* a library may have been unloaded and loaded again since the plan */
		f->wanted |= m->may_go && m->list;
	}
	return ip_link_map_note_sites(f->link_map, s->target, &s->modules, ip_module_find_live);
}

void ip_follow_dlopen_destroy(struct ip_follow_dlopen *f)
{
	if (!f)
		return;
	ip_link_map_destroy(f->link_map);
	free(f);
}

struct ip_link_map *ip_follow_dlopen_link_map(const struct ip_follow_dlopen *f, bool *ret_behind)
{
	if (!f || !f->link_map || f->listless)
		return NULL;
	*ret_behind = f->retry;
	return ip_link_map_copy(f->link_map);
}

void ip_follow_dlopen_want(struct ip_follow_dlopen *f)
{
	if (f)
		f->wanted = f->retry = true;
}

bool ip_follow_dlopen_expects(const struct ip_follow_dlopen *f)
{
	return f && (f->retry || ip_now_ns() - f->changed_ns < BURST_NS);
}

bool ip_follow_dlopen_retries(const struct ip_follow_dlopen *f)
{
	return f && f->retry;
}

bool ip_follow_dlopen_is_due(const struct ip_session *s)
{
	const struct ip_follow_dlopen *f = s->follow;

	return !f || f->retry || f->images != s->target->images ||
	       ip_target_image_is_gone(s->target) ||
	       (!f->listless && ip_link_map_changed(f->link_map, s->target));
}

int ip_follow_dlopen_refresh(struct ip_session *s)
{
	struct ip_modules now;

	if (ip_target_refresh(s->target) < 0 || ip_modules_reload(s->target, &s->modules, &now) < 0)
		return -1;
	for (size_t i = 0; i < s->modules.n; i++)
		if (s->modules.items[i].list) {
			ip_trace_add_library(s->trace, "unload", &s->modules.items[i]);
			if (ip_site_monitor_forget(s->watch, s->modules.items[i].start,
						   s->modules.items[i].end, s->trace) < 0)
				ip_site_monitor_clear(s->watch,
						      /* no memory: no site is watched now */
						      s->trace);
		}
	for (size_t i = 0; i < now.n; i++)
		if (now.items[i].list && now.items[i].fresh)
			ip_trace_add_library(s->trace, "load", &now.items[i]);
	ip_modules_clear(&s->modules);
	s->modules = now;
	return 0;
}

/* Step 3: whether there is anything that could go live. If a library is at its old place but its
 * noted site is not as it was, the library was loaded anew. */
static bool anything_new(const struct ip_session *s)
{
	for (size_t i = 0; i < s->modules.n; i++) {
		const struct ip_module *m = &s->modules.items[i];

		if (m->list &&
		    (m->fresh || !ip_link_map_site_stands(s->follow->link_map, s->target, m)))
			return true;
	}
	return false;
}

/* Steps 2 to 4. 1: done; 0: the loader is changing its list; -1 with an error. */
static int catch_up(struct ip_session *s)
{
	const struct ip_change_options options = {.kind = "dlopen",
						  .max_stop_ns = s->options->max_stop_ns,
						  .values = s->options->values,
						  .link_map = s->follow->link_map};
	struct ip_follow_dlopen *f = s->follow;
	struct ip_change_result result;
	int noted = f->listless ? 1 : ip_link_map_note(f->link_map, s->target);

	if (noted == 0)
		return 0;
	f->listless |= noted < 0;
	if (ip_target_refresh(s->target) < 0)
		return -1;
	if (f->images != s->target->images)
		return 0; /* the next step of the session deals with it */
	if (ip_follow_dlopen_refresh(s) < 0)
		return -1;
	/* no stop if the user wants none */
	if (!s->options->no_stop && (f->failures.failing_ns || f->wanted || anything_new(s)) &&
	    ip_session_update(s, &options, &result) < 0)
		return -1;
	for (size_t i = 0; i < s->modules.n; i++)
		s->modules.items[i].fresh = false;
	f->wanted = false;
	return ip_link_map_note_sites(f->link_map, s->target, &s->modules, ip_module_find_live) < 0
		       ? -1
		       : 1;
}

/* The process executes another program now. */
static enum ip_end_reason leave_image(struct ip_session *s)
{
	bool children = ip_follow_fork_lives(s->followed);
	int ret;

	s->live = false;
	s->execed = true;
	ip_trace_add_exec(s->trace, s->target->inner_pid);
	ip_site_monitor_clear(s->watch, s->trace);
	ret = children ? ip_collector_flush_process(s->collector, s->target->inner_pid)
		       : ip_collector_flush(s->collector);
	if (ret < 0) {
		s->write_failed = true;
		return IP_END_WRITE_FAILED;
	}
	if (!s->options->follow_exec)
		return children ? IP_END_NONE : IP_END_EXECED;
	if (children) {
		ip_notice("pid %d executes another program now, which is not recorded: processes "
			  "that it forked before still are",
			  s->target->pid);
		return IP_END_NONE;
	}
	return ip_follow_exec_begin(s, s->follow->seen_ns, s->follow->seen_tsc) < 0 ? IP_END_EXECED
										    : IP_END_NONE;
}

/* Step 5. A machine may be busy for minutes, and a thread may sleep for hours: that is no reason to
 * give up for good. A try that takes long to fail has paused between its own tries. began_ns: when
 * the try began. */
static void failed(struct ip_session *s, uint64_t began_ns)
{
	struct ip_follow_dlopen *f = s->follow;
	bool tell;

	f->retry = true;
	f->next_ns = ip_retry_failed(&f->failures, began_ns, &tell);
	if (!tell || ip_target_image_is_gone(s->target) || !ip_target_alive(s->target))
		return;
	f->failures.told = true;
	ip_notice("%s: libraries that were loaded meanwhile are not recorded yet; iprobe goes on "
		  "trying",
		  ip_error_message());
}

static void worked(struct ip_session *s)
{
	if (ip_retry_worked(&s->follow->failures))
		ip_notice("pid %d: libraries that were loaded meanwhile are recorded now",
			  s->target->pid);
}

enum ip_end_reason ip_follow_dlopen_step(struct ip_session *s)
{
	struct ip_follow_dlopen *f = s->follow;
	uint64_t now = ip_now_ns();
	int done;

	if (!f || !ip_target_alive(s->target))
		return IP_END_NONE;
	if (s->execed)
		return ip_follow_exec_step(s);
	if (f->images != s->target->images || ip_target_image_is_gone(s->target)) {
		/* The target executes another program, or ends. If it ends, there is no new image
		 * either, and its end is reported in a moment. */
		if (s->launched || ip_target_refresh(s->target) < 0)
			return IP_END_NONE;
		return leave_image(s);
	}
	f->seen_ns = now;
	f->seen_tsc = ip_clock_now();
	if (now < f->next_ns ||
	    (!f->retry && !f->listless && !ip_link_map_changed(f->link_map, s->target)))
		return IP_END_NONE;
	f->changed_ns = now;
	done = catch_up(s);
	if (s->write_failed)
		return IP_END_WRITE_FAILED;
	if (done < 0) {
		failed(s, now);
		return IP_END_NONE;
	}
	now = ip_now_ns() + REST_SHARE * (ip_now_ns() - now);
	f->retry = done == 0;
	if (done)
		worked(s);
	f->next_ns = f->listless ? now + SLOW_NS : done ? now : 0;
	return IP_END_NONE;
}
