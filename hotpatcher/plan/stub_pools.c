/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a target map another pool for stubs. stub_pools.h describes the steps; the comments here name
 * them.
 */
#include "hotpatcher/plan/stub_pools.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/ptrace/stops.h"

#define PAGE   4096ull
#define LOWEST (1ull << 20)   /* the kernel lets nobody map anything below mmap_min_addr */
#define MARGIN (1ull << 20)   /* from what lies above, which is mostly the loader's */
#define GROWTH (256ull << 20) /* for a heap, which begins above the executable */

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

bool ip_stub_pools_reaches(const struct ip_module *module, uint64_t start, uint64_t size,
			   uint64_t reach)
{
	return distance(module->start, start + size) < reach &&
	       distance(module->end, start) < reach && distance(module->start, start) < reach &&
	       distance(module->end, start + size) < reach;
}

/* Step 1. The place lies high in its gap, since the heap grows from below. */
uint64_t ip_stub_pools_place(const struct ip_target *target, const struct ip_module *module,
			     uint64_t size, uint64_t reach)
{
	const struct ip_maps *maps = &target->maps;

	for (size_t i = 0; i < maps->n; i++) {
		const struct ip_mapping *above = &maps->items[i], *below = i ? above - 1 : NULL;
		/* a gap as wide as this may be that of the heap, of whichever module it begins at
		 */
		uint64_t low = below ? below->end : LOWEST, least = low + (below ? MARGIN : 0),
			 high = above->start, at;

		if (!strcmp(above->path, "[stack]"))
			continue; /* the stack grows down into it */
		if (below && (!strcmp(below->path, "[heap]") || high - low > 2 * GROWTH))
			least = low + GROWTH;
		if (high < least || high - least < size + MARGIN)
			continue;
		at = high - MARGIN - size;
		/* as high as a call from the module reaches */
		if (at > module->start && at - module->start >= reach - size - PAGE)
			at = module->start + reach - size - PAGE;
		at &= ~(PAGE - 1);
		if (at >= least && ip_stub_pools_reaches(module, at, size, reach))
			return at;
	}
	return 0;
}

int ip_stub_pools_add(struct ip_target *target, const struct ip_module *module, uint64_t size,
		      uint64_t reach)
{
	struct ip_remap_piece piece = {.what = IP_REMAP_POOL};
	struct ip_remap_hold held = {0};
	_cleanup_close_ int lock = -1;
	int done = -1;

	piece.size = (size + IP_POOL_HEAD + IP_POOL_SIZE_LEAST - 1) & ~(IP_POOL_SIZE_LEAST - 1ull);
	if (!target->anchor.remap || size > IP_POOL_SIZE_MAX - IP_POOL_SIZE_LEAST)
		return ip_error("%s: no room for its stubs within a call's reach of %#lx..%#lx",
				module->path, module->start, module->end);
	lock = ip_borrow_lock(target->pid);
	if (lock >= 0 && ip_target_refresh(target) == 0)
		piece.at = ip_stub_pools_place(target, module, piece.size, reach);
	if (piece.at && ip_remap_thread_check(target) == 0)
		done = ip_remap_thread_run(target, ip_borrow_anyone, IP_REMAP_FIND_NS, &piece, 1,
					   &held);
	else if (lock >= 0 && !piece.at)
		ip_error("nothing is free there");
	if (held.tsc)
		ip_stop_log_add_look(&ip_stops_of(target)->log, held.ns);
	if (done == 0 && piece.error)
		done = ip_error("%s",
				piece.error == ENOMEM	? "its limit on address space: raise it "
							  "(prlimit --as)"
				: piece.error == ENOSPC ? "it has as many pools as it can have"
							: strerror(piece.error));
	if (done == 0)
		done = ip_target_refresh(target); /* 3 */
	return done < 0 ? ip_error_prefix("%s: no room for its stubs within a call's reach of "
					  "%#lx..%#lx, and pid %d cannot make any",
					  module->path, module->start, module->end, target->pid)
			: 0;
}
