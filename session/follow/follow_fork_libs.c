/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the libraries that followed children load. follow_fork_libs.h describes the steps; the
 * comments here name them.
 */
#include "session/follow/follow_fork_libs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/retry.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/process/link_map.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"
#include "session/update.h"

#define LOOK_NS	   1000000ull /* between looks, at least */
#define LOOK_SHARE 20	      /* one part in so many of our time goes to looks */

/* What is kept of a child. */
struct memory {
	struct ip_link_map *link_map;
	struct ip_retry failures;
	uint64_t next_ns; /* no look before that time */
	uint32_t changes; /* number of changes of the session's selection that the child has */
	bool retry;
};

static void forget(void *kept)
{
	struct memory *m = kept;

	if (!m)
		return;
	ip_link_map_destroy(m->link_map);
	free(m);
}

/* Step 1. NULL: memory ran out, or nothing is known of the target itself yet. */
static struct memory *remember(const struct ip_session *s)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->link_map = ip_follow_dlopen_link_map(s->follow, &m->retry);
	m->changes = s->changes;
	if (!m->link_map) {
		free(m);
		return NULL;
	}
	return m;
}

/* Step 1: whether the child has to be opened. */
static bool differs(const struct ip_session *s, const struct memory *m, pid_t pid)
{
	/* without the child's memory file: opening that costs more than the look */
	const struct ip_target glance = {.pid = pid, .arch = s->target->arch, .mem = -1};

	return m->retry || m->changes != s->changes || ip_link_map_changed(m->link_map, &glance);
}

/* Steps 3 to 5. 1: done; 0: the loader is changing its list; -1 with an error. */
static int catch_up(struct ip_session *s, struct memory *m, struct ip_target *target)
{
	const struct ip_change_options options = {.kind = "dlopen",
						  .child = true,
						  .max_stop_ns = s->options->max_stop_ns,
						  .values = s->options->values,
						  .link_map = m->link_map};
	struct ip_session view = *s; /* the same session, as it applies to this process */
	struct ip_change_result result;
	struct ip_modules modules;
	uint32_t changes = s->changes;
	int ret = ip_link_map_note(m->link_map, target);

	if (ret == 0)
		return 0;
	if (ret < 0)
		return ip_error("pid %d: its loader's list cannot be read", target->pid);
	if (ip_target_refresh(target) < 0 || ip_modules_load(target, &modules) < 0)
		return -1;
	view.target = target;
	view.modules = modules;
	view.watch = NULL;
	view.live = true;
	ret = ip_session_update(&view, &options, &result);
	s->counted = view.counted;
	s->write_failed = view.write_failed;
	if (ret == 0)
		ret = ip_link_map_note_sites(m->link_map, target, &modules, ip_module_find_live);
	if (ret == 0)
		m->changes = changes;
	ip_modules_clear(&modules);
	return ret < 0 ? -1 : 1;
}

/* Steps 2 to 5. Returns what catch_up() does, and 1 also if the process is no child with the
 * target's image any more. */
static int enter(struct ip_session *s, struct memory *m, pid_t pid)
{
	struct ip_target *target;
	int ret = 1;

	if (ip_stops_open(pid, &target) < 0)
		return -1;
	target->one_image = true;
	target->plt = s->target->plt;
	if (ip_follow_fork_has(s->followed, pid) && target->has_runtime &&
	    !ip_target_image_is_gone(target))
		ret = catch_up(s, m, target);
	if (ret < 0 && (!ip_target_alive(target) || ip_target_image_is_gone(target)))
		ret = 1; /* it has ended, or executes another program */
	ip_follow_fork_close_target(s->followed, target);
	return ret;
}

static void failed(const struct ip_session *s, struct memory *m, pid_t pid, uint64_t began_ns)
{
	bool tell;

	m->next_ns = ip_retry_failed(&m->failures, began_ns, &tell);
	if (!tell)
		return;
	m->failures.told = true;
	ip_notice("pid %d, forked from pid %d: libraries that it has loaded are not recorded yet: "
		  "%s; iprobe goes on trying",
		  pid, s->target->pid, ip_error_message());
}

/* Looks at one child. 1: it was changed, or that was tried. */
static int look_at(void *data, pid_t pid, void **kept)
{
	struct ip_session *s = data;
	struct memory *m = *kept ? *kept : (*kept = remember(s));
	uint64_t now = ip_now_ns();
	int done;

	if (!m || now < m->next_ns || !differs(s, m, pid))
		return 0;
	done = enter(s, m, pid);
	m->retry = done <= 0;
	if (done < 0)
		failed(s, m, pid, now);
	else if (done && ip_retry_worked(&m->failures))
		ip_notice(
			"pid %d, forked from pid %d: libraries that it has loaded are recorded now",
			pid, s->target->pid);
	return 1;
}

struct question {
	const struct ip_target *except;
	const struct ip_area_module *entry;
};

/* Whether the process has the module of the entry at the address that the entry gives. */
static int has_it(void *data, pid_t pid, void **kept)
{
	const struct question *q = data;
	struct ip_target glance = {.pid = pid};
	_cleanup_close_ int mem = -1;
	uint8_t id[IP_BUILD_ID_MAX];
	char name[64];

	if (pid == q->except->pid)
		return 0;
	snprintf(name, sizeof(name), "/proc/%d/mem", pid);
	glance.mem = mem = ip_delegation_open(name, O_RDONLY);
	return mem >= 0 &&
	       ip_modules_build_id_at(&glance, q->entry->load_bias, q->entry->load_bias, id) ==
		       q->entry->build_id_size &&
	       !memcmp(id, q->entry->build_id, q->entry->build_id_size);
}

static bool is_elsewhere(void *data, const struct ip_target *except,
			 const struct ip_area_module *entry)
{
	const struct ip_session *s = data;
	struct question q = {except, entry};

	return has_it(&q, s->target->pid, NULL) ||
	       ip_follow_fork_each(s->followed, has_it, &q, NULL);
}

void ip_follow_fork_libs_step(struct ip_session *s)
{
	uint64_t now = ip_now_ns();

	/* no stop if the user wants none */
	if (!s->options->follow_fork || s->options->no_stop || now < s->children_ns)
		return;
	s->area->elsewhere = is_elsewhere;
	s->area->elsewhere_data = s;
	ip_follow_fork_each(s->followed, look_at, s, forget);
	s->children_ns = now + LOOK_NS + LOOK_SHARE * (ip_now_ns() - now);
}
