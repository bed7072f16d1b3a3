/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the bounds of the runtime. The steps are described in bounds.h.
 */
#include "hotpatcher/plan/bounds.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/ptrace/stops.h"

/* Returns whether the process still has the area mapped. It may have executed another program since
 * the area was opened. Then another file is mapped there, or nothing. */
static bool is_the_areas(const struct ip_target *target, const struct ip_area *area)
{
	const struct ip_mapping *m = ip_maps_find(&target->maps, target->anchor.area);
	struct stat st;

	return m && fstat(area->fd, &st) == 0 && m->inode == st.st_ino &&
	       m->dev_major == major(st.st_dev) && m->dev_minor == minor(st.st_dev);
}

int ip_bounds_write(const struct ip_target *target, struct ip_area *area,
		    const struct ip_user_payload *user)
{
	off_t end = lseek(area->fd, 0, SEEK_END);
	struct ip_rt_private own = {.frames = area->blocks.depth * sizeof(struct ip_meters_frame),
				    .modes = area->modes,
				    .meters = area->blocks.at,
				    .meters_size = area->blocks.size,
				    .nmeters = area->blocks.all,
				    .may_read = area->may_read,
				    .user_call = user->call,
				    .user_scratch = area->user_scratch,
				    .user_mask = user->mask,
				    .user_cell = user->cell_size,
				    .fperf = area->fperf,
				    .fperf_pmu = area->fperf_pmu,
				    .fperf_counters = area->fperf_counters,
				    .fperf_reads = area->fperf_reads};

	if (!target->has_runtime || !target->anchor.own)
		return ip_error("pid %d: its runtime does not say where its own memory is",
				target->pid);
	if (!is_the_areas(target, area))
		return ip_error("pid %d executes another program now: try again", target->pid);
	if (end < (off_t)IP_AREA_DATA_OFFSET)
		return ip_error("pid %d: the runtime's ring memory is damaged", target->pid);
	own.end = (uint64_t)end < area->window ? (uint64_t)end : area->window;
	own.place_last = target->anchor.area + own.end - sizeof(struct ip_hist_tails);
	own.nsubbufs = (own.end - IP_AREA_DATA_OFFSET) / IP_SUBBUF_SIZE;
	if (own.nsubbufs > IP_AREA_SUBBUFS)
		own.nsubbufs = IP_AREA_SUBBUFS;
	area->header->user = user->call != 0;
	/* the fields that the runtime itself writes are left alone */
	return ip_target_write(target, target->anchor.own, &own,
			       offsetof(struct ip_rt_private, inherited));
}

int ip_bounds_read(const struct ip_target *target, struct ip_rt_private *ret)
{
	if (!target->has_runtime || !target->anchor.own)
		return ip_error("pid %d: its runtime does not say where its own memory is",
				target->pid);
	return ip_target_read(target, target->anchor.own, ret, sizeof(*ret));
}

static int set(const struct ip_target *target, size_t offset, uint32_t word)
{
	if (!target->anchor.own)
		return 0;
	return ip_target_write(target, target->anchor.own + offset, &word, sizeof(word));
}

int ip_bounds_set_reading(const struct ip_target *target, struct ip_area *area, bool may_read)
{
	area->may_read = may_read;
	return set(target, offsetof(struct ip_rt_private, may_read), may_read);
}

/* Has a borrowed thread do one operation (what: enum ip_remap_what) with the area's mapping. Its
 * hold is a look of the target. locked: the caller has the process's lock. */
static int run(struct ip_target *target, uint32_t what, uint64_t find_ns, bool locked,
	       const char *to_what, const char *advice)
{
	struct ip_remap_piece piece = {
		.what = what, .at = target->anchor.area, .size = target->anchor.area_size};
	_cleanup_close_ int lock =
		target->anchor.remap && !locked ? ip_borrow_lock(target->pid) : -1;
	_cleanup_free_ char *why = NULL;
	struct ip_remap_hold held = {0};
	int done = -1;

	if ((lock >= 0 || (locked && target->anchor.remap)) && ip_remap_thread_check(target) == 0)
		done = ip_remap_thread_run(target, ip_borrow_anyone, find_ns, &piece, 1, &held);
	if (held.tsc)
		ip_stop_log_add_look(&ip_stops_of(target)->log, held.ns);
	if (done == 0 && !piece.error)
		return 0;
	why = strdup(ip_error_message());
	return ip_error("pid %d: none of its threads could be borrowed to %s (%s): %s", target->pid,
			to_what,
			!target->anchor.remap ? "not on this machine"
			: piece.error	      ? strerror(piece.error)
			: why		      ? why
					      : "?",
			advice);
}

int ip_bounds_set_inherited(struct ip_target *target, bool inherited)
{
	struct ip_rt_private own;

	if (ip_bounds_read(target, &own) < 0)
		return -1;
	if ((own.inherited != 0) == inherited)
		return 0;
	return inherited ? run(target, IP_REMAP_INHERIT, IP_REMAP_FIND_NS, false,
			       "give forked children the ring memory",
			       "start it by iprobe run --follow-fork")
			 : run(target, IP_REMAP_WITHHOLD, IP_REMAP_FIND_NS, false,
			       "keep the ring memory from forked children", "try again");
}

int ip_bounds_disown(struct ip_target *child, uint64_t find_ns)
{
	return run(child, IP_REMAP_DISOWN, find_ns, true, "take the ring memory from it",
		   "it has it still");
}

int ip_bounds_set_follow(const struct ip_target *target, uint32_t session)
{
	return set(target, offsetof(struct ip_rt_private, follow), session);
}
