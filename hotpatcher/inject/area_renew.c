/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring memory for a forked process. area_renew.h describes the steps; the comments here name them.
 */
#include "hotpatcher/inject/area_renew.h"

#include <stdlib.h>
#include <string.h>

#include "common/abi/area.h"
#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/process/shared_mm.h"

#define PAGE	4096ull
#define FIND_NS 2000000000ull

enum found {
	NOTHING, /* covers alone */
	/* private memory in all of the area's range but the tables (rt_area_disown()) */
	LEFT_OVER,
	AREA,
	OTHER, /* the program's own memory, at least in part */
};

static bool is_private(const struct ip_mapping *m)
{
	return !m->inode && !memcmp(m->perms, "rw-p", 4);
}

static bool is_cover(const struct ip_mapping *m, uint64_t area)
{
	for (unsigned i = 0; is_private(m) && i < IP_AREA_COVERS; i++)
		if (m->start == area + ip_area_cover(i) && m->end == m->start + PAGE)
			return true;
	return false;
}

/* Step 2. */
static enum found look(const struct ip_target *target)
{
	const uint64_t area = target->anchor.area, end = area + target->anchor.area_size;
	const struct ip_mapping *first = ip_maps_find(&target->maps, area);
	uint64_t filled = area;
	unsigned covers = 0, wanted = 0, n = 0;

	if (end <= area || area % PAGE || end % PAGE)
		return OTHER;
	if (first && first->inode)
		return first->start == area ? AREA : OTHER;
	for (size_t i = 0; i < target->maps.n; i++) {
		const struct ip_mapping *m = &target->maps.items[i];

		if (m->end <= area || m->start >= end)
			continue;
		if (m->start < area || m->end > end || !is_private(m))
			return OTHER;
		n++;
		covers += is_cover(m, area);
		if (filled == area + IP_AREA_TABLES_OFFSET && m->start == area + IP_AREA_TABLES_END)
			filled = m->start; /* the tables, which it did not need */
		filled = m->start == filled ? m->end : filled;
	}
	while (wanted < IP_AREA_COVERS && ip_area_cover(wanted) < end - area)
		wanted++;
	if (covers == n && covers == wanted)
		return NOTHING;
	return filled == end ? LEFT_OVER : OTHER;
}

/* Whether the process shares all its memory with the one that made the area. What cannot be told is
 * not so: then check_alone() refuses with the reason. */
static bool is_of_one_memory(const struct ip_target *target)
{
	_cleanup_free_ pid_t *others = NULL;
	size_t n = 0;

	/* who is asked by name need not be searched for among strangers, of whom it may not be
	 * known whether they share the memory */
	if (target->inner_pid == target->pid)
		return ip_shared_mm_is(target->pid, target->anchor.pid) &&
		       ip_proc_inner_pid(target->anchor.pid) == target->anchor.pid;
	if (ip_shared_mm_find(target->pid, target->pid, &others, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (ip_shared_mm_is(target->pid, others[i]) &&
		    ip_proc_inner_pid(others[i]) == target->anchor.pid)
			return true;
	return false;
}

bool ip_area_renew_is_needed(const struct ip_target *target, bool *ret_shares)
{
	const struct ip_rt_anchor *a = &target->anchor;
	enum found found;

	*ret_shares = false;
	if (!target->has_runtime || a->error || !a->gate || a->pid == target->inner_pid)
		return false;
	found = look(target);
	if (found == AREA && is_of_one_memory(target))
		return false;
	*ret_shares = found == AREA;
	return true;
}

/* Step 3. */
static int check_alone(const struct ip_target *target)
{
	_cleanup_free_ pid_t *others = NULL;
	size_t n;

	if (ip_shared_mm_find(target->pid, target->pid, &others, &n) < 0)
		return -1;
	return n ? ip_error("pid %d shares its memory with pid %d (vfork): it cannot get ring "
			    "memory of its own: try again when it has executed another program",
			    target->pid, others[0])
		 : 0;
}

static int check(const struct ip_target *target)
{
	if (!target->anchor.remap)
		return ip_error("pid %d was forked from a process that iprobe had attached to, and "
				"its runtime cannot make ring memory anew (32-bit programs): "
				"restart it",
				target->pid);
	if (ip_proc_status(target->pid, "Seccomp") > 0)
		return ip_error("pid %d was forked from a process that iprobe had attached to, and "
				"is under seccomp, whose filter might kill it for the calls that "
				"make ring memory: restart the service, and attach to this process "
				"first",
				target->pid);
	return 0;
}

/* Steps 2 and 3. */
static int decide(struct ip_target *target, bool shares, enum found *ret)
{
	if (check(target) < 0 || ip_target_refresh(target) < 0)
		return -1;
	*ret = look(target);
	if (*ret == OTHER || (*ret == AREA) != shares)
		return ip_error("pid %d was forked from a process that iprobe had attached to, and "
				"other memory lies at %#lx now, where its ring memory belongs: "
				"restart it",
				target->pid, target->anchor.area);
	return check_alone(target) < 0 || ip_remap_thread_check(target) < 0 ? -1 : 0;
}

int ip_area_renew_check(struct ip_target *target, bool shares)
{
	enum found found;

	return decide(target, shares, &found);
}

int ip_area_renew(struct ip_target *target, bool shares, uint64_t *ret_held_ns)
{
	struct ip_remap_piece piece = {
		.at = target->anchor.area, .size = target->anchor.area_size, .error = -1};
	struct ip_remap_hold held = {0};
	enum found found;

	*ret_held_ns = 0;
	if (decide(target, shares, &found) < 0)
		return -1;
	piece.what = found == NOTHING ? IP_REMAP_RENEW : IP_REMAP_REPLACE;
	if (ip_remap_thread_run(target, ip_borrow_anyone, FIND_NS, &piece, 1, &held) < 0)
		return ip_error("pid %d was forked from a process that iprobe had attached to, and "
				"none of its threads could be borrowed to make ring memory of its "
				"own: try again",
				target->pid);
	*ret_held_ns = held.ns;
	if (piece.error)
		return ip_error("pid %d could not make ring memory of its own (%s)", target->pid,
				strerror(piece.error));
	return ip_target_refresh(target);
}
