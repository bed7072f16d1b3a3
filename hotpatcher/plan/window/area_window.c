/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a target map more of its area. area_window.h describes the steps; the comments here name
 * them.
 */
#include "hotpatcher/plan/window/area_window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"
#include "common/units.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/plan/value_plan.h"
#include "hotpatcher/plan/window/late_hooks.h"
#include "hotpatcher/ptrace/stops.h"

#define PAGE	   4096ull
#define GIVE_NS	   300000000ull	 /* to find that no thread is in a hook, and one to borrow */
#define WAITING_NS 20000000ull	 /* how long only waiting threads are borrowed then */
#define TAKE_NS	   1000000000ull /* likewise, where the user has asked for it */

/* Bytes of stubs that the module's probes have at most: three each (stub_layout.h). */
static uint64_t most_stubs(const struct ip_target *target, const struct ip_module *module)
{
	const struct ip_arch *arch = target->arch;
	uint64_t size =
		arch->stub_size > arch->jump_stub_size ? arch->stub_size : arch->jump_stub_size;

	return module->list ? IP_POOL_HEAD + 3 * size * module->list->header->nprobes : 0;
}

struct ip_inject_room ip_area_window_first(const struct ip_target *target,
					   const struct ip_modules *modules, uint64_t memory)
{
	const uint64_t wanted = memory ? ip_area_size_for(memory) : 0;
	struct ip_inject_room ret = {.area = wanted <= IP_AREA_SMALL_SIZE ? IP_AREA_SMALL_SIZE
					     : wanted < IP_AREA_OWN_SIZE  ? wanted
									 : IP_AREA_OWN_SIZE - PAGE};
	struct ip_stub_room room;
	uint64_t pool = 0;

	if (ip_values_is_confined(target) || target->arch->bits != 64)
		return (struct ip_inject_room){IP_AREA_OWN_SIZE, IP_POOL_SIZE_MAX};
	for (size_t i = 0; i < modules->n; i++) {
		const struct ip_module *m = &modules->items[i];
		uint64_t most = most_stubs(target, m);

		if (!ip_module_room(m, &room) || m->may_go || room.size < most)
			pool += most;
	}
	pool = (pool + PAGE - 1) & ~(PAGE - 1);
	ret.pool = pool < IP_POOL_SIZE_LEAST ? IP_POOL_SIZE_LEAST
		   : pool > IP_POOL_SIZE_MAX ? IP_POOL_SIZE_MAX
					     : pool;
	return ret;
}

/* Steps 2 and 3. The caller has the lock of the process. */
static int map_more(struct ip_target *target, struct ip_area *area, struct ip_remap_piece *pieces,
		    size_t n, uint64_t find_ns)
{
	struct ip_remap_hold held = {0};
	int32_t error = 0;
	int done;

	if (ip_proc_status(target->pid, "Seccomp") > 0)
		return ip_error("it is under seccomp by now, whose filter might kill a thread that "
				"makes the calls");
	done = ip_remap_thread_check(target);
	if (done == 0)
		done = ip_remap_thread_run(target, ip_borrow_anyone, find_ns, pieces, n, &held);
	if (held.tsc)
		ip_stop_log_add_look(&ip_stops_of(target)->log, held.ns);
	for (size_t i = 0; done == 0 && i < n && !error; i++)
		error = pieces[i].error;
	if (done < 0)
		return -1;
	if (ip_target_refresh(target) < 0 || ip_area_look(area, target) < 0)
		return -1;
	return error ? ip_error("%s", error == ENOMEM ? "its limit on address space, or on the "
							"number of mappings: prlimit --as"
						      : strerror(error))
		     : 0;
}

static int refuse(const struct ip_target *target, const struct ip_area *area, uint64_t size,
		  const char *advice)
{
	_cleanup_free_ char *why = strdup(ip_error_message());
	char have[16], need[16];

	return ip_error("pid %d: it cannot map ring memory of %s, of which it has %s (%s): %s",
			target->pid, ip_format_size(size, need), ip_format_size(area->window, have),
			why ? why : "?", advice);
}

int ip_area_window_fit(struct ip_target *target, struct ip_area *area, uint64_t size, bool tables)
{
	struct ip_remap_piece pieces[2];
	_cleanup_close_ int lock = -1;
	size_t n = 0;

	tables = tables && !area->tables;
	if (size > area->window)
		pieces[n++] = (struct ip_remap_piece){.at = target->anchor.area,
						      .size = size,
						      .staged = IP_AREA_DATA_OFFSET,
						      .what = IP_REMAP_WIDEN};
	if (tables)
		pieces[n++] =
			(struct ip_remap_piece){.at = target->anchor.area, .what = IP_REMAP_TABLES};
	if (!n)
		return 0;
	lock = ip_borrow_lock(target->pid);
	if (lock < 0)
		return -1;
	if (map_more(target, area, pieces, n, IP_REMAP_FIND_NS) < 0)
		return refuse(target, area, size > area->window ? size : area->window,
			      "give less --memory, record without values, filters and payloads, or "
			      "raise the limit");
	if (size > area->window || (tables && !area->tables))
		return ip_error("pid %d executes another program now: try again", target->pid);
	return 0;
}

/* Which threads to borrow at the end of a session: soon those that run, too, since all threads may.
 */
static enum ip_borrow_which soon_running(uint64_t ns)
{
	return ns < WAITING_NS ? IP_BORROW_WAITING : IP_BORROW_RUNNING;
}

/* Steps 6 to 8. */
static int unmap(struct ip_target *target, const struct ip_area *area, uint32_t what,
		 uint64_t limit_ns, bool may_stop)
{
	struct ip_remap_piece piece = {
		.what = what, .at = target->anchor.area, .size = IP_AREA_SMALL_SIZE};
	struct ip_remap_hold held = {0};
	_cleanup_close_ int lock = -1;
	int done;

	if (!target->anchor.remap || target->arch->bits != 64)
		return ip_error("its runtime cannot do that on this machine");
	if (ip_values_is_confined(target))
		return ip_error("it is under seccomp, or may be soon (libseccomp), and could not "
				"be asked for it again");
	lock = ip_borrow_lock(target->pid);
	if (lock < 0 || ip_late_hooks_check(target, area, limit_ns, may_stop) < 0 ||
	    ip_remap_thread_check(target) < 0)
		return -1;
	done = ip_remap_thread_run(target, may_stop ? soon_running : ip_borrow_waiting, limit_ns,
				   &piece, 1, &held);
	if (held.tsc)
		ip_stop_log_add_look(&ip_stops_of(target)->log, held.ns);
	if (done < 0)
		return -1;
	if (piece.error)
		return ip_error("%s", strerror(piece.error));
	return ip_target_refresh(target);
}

int ip_area_window_give(struct ip_target *target, struct ip_area *area, bool may_stop)
{
	/* what a program has loaded itself is mapped as it was from the start */
	if (!target->injected || (area->window <= IP_AREA_SMALL_SIZE && !area->tables))
		return 0;
	if (unmap(target, area, IP_REMAP_NARROW, GIVE_NS, may_stop) < 0)
		return -1;
	return ip_area_look(area, target);
}

int ip_area_window_remove(struct ip_target *target, const struct ip_area *area, bool may_stop)
{
	return unmap(target, area, IP_REMAP_REMOVE, TAKE_NS, may_stop) < 0
		       ? ip_error_prefix("pid %d: nothing is removed", target->pid)
		       : 0;
}
