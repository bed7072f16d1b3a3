/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step 2 of fperf_pmu.h.
 */
#include "session/pmu_leftovers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/abi/borrow.h"
#include "common/abi/fperf_pmu.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/stops.h"
#include "hotpatcher/shm/area.h"

#define PAGE 4096ul

struct pieces {
	struct ip_remap_piece *items;
	size_t n;
};

static int add(struct pieces *p, uint32_t what, uint64_t at, uint64_t staged, uint64_t size)
{
	if (ip_array_grow(&p->items, p->n, sizeof(*p->items)) < 0)
		return -1;
	p->items[p->n++] =
		(struct ip_remap_piece){.what = what, .at = at, .staged = staged, .size = size};
	return 0;
}

/* Whether the page is the mapped page of a counter, and nothing else. */
static bool is_page(const struct ip_target *target, uint64_t page)
{
	const struct ip_mapping *m = ip_maps_find(&target->maps, page);

	return m && m->start == page && m->end == page + PAGE && !strncmp(m->perms, "r--s", 4) &&
	       strstr(m->path, "[perf_event]");
}

/* Whether the descriptor belongs to a counter. In another image of the process it does not, since
 * exec has closed the counters. Which counter it is, the process itself is asked later. */
static bool is_counter(const struct ip_target *target, int fd)
{
	char path[64], name[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", target->pid, fd);
	n = readlink(path, name, sizeof(name) - 1);
	if (n < 0)
		return errno != ENOENT;
	name[n] = '\0';
	return strstr(name, "[perf_event]");
}

/* Collects what the thread of a block still holds. */
static int gather(const struct ip_target *target, const struct ip_pmu_thread *t, struct pieces *p)
{
	for (unsigned i = 0; i < IP_PMU_COUNTERS; i++) {
		struct ip_pmu_held h = t->held[i];

		if (h.page && is_page(target, h.page) && add(p, IP_REMAP_DROP, 0, h.page, PAGE) < 0)
			return -1;
		if (h.id && h.fd >= 0 && is_counter(target, h.fd) &&
		    add(p, IP_REMAP_CLOSE, h.fd, 0, h.id) < 0)
			return -1;
	}
	return 0;
}

/* Reads from the area. Not all of the area is mapped here, so it is read from its file; what is not
 * there reads as zeros. */
static void read_area(const struct ip_area *area, uint64_t at, void *to, size_t size)
{
	ssize_t got = pread(area->fd, to, size, at);

	if (got < (ssize_t)size)
		memset((char *)to + (got > 0 ? got : 0), 0, size - (got > 0 ? got : 0));
}

/* Where the counters of a thread are noted: in its block, at the place that block 0 gives. A note
 * that the target has overwritten is not trusted. */
struct notes {
	uint64_t at, blocks, size;
	uint32_t n;
};

static bool find_notes(const struct ip_area *area, struct notes *ret)
{
	/* read once: the target may change it */
	const volatile struct ip_area_header *h = area->header;
	uint64_t at = h->meters, size = h->meters_size, all = h->meters_all, n = h->nmeters,
		 fperf = h->fperf;
	struct ip_fperf_header header;

	if (!fperf || !n || n > all || all > IP_AREA_SLOTS || at < IP_AREA_DATA_OFFSET ||
	    at > area->window || size < sizeof(header) || size < IP_PMU_KEPT ||
	    size > (area->window - at) / all || fperf > all * size - sizeof(header))
		return false;
	read_area(area, at + fperf, &header, sizeof(header));
	if (header.abi != IP_FPERF_ABI || !header.pmu || header.pmu % 8 ||
	    header.pmu > (all - n + 1) * size - IP_PMU_KEPT)
		return false;
	*ret = (struct notes){at + header.pmu, at, size, n};
	return true;
}

/* Whether a hook may be using the counters of this block. */
static bool is_busy(const struct ip_area *area, const struct ip_meters *m)
{
	return m->state == IP_METERS_OWNED && area->slots[m->slot % IP_AREA_SLOTS].guard;
}

static int close_all(struct ip_target *target, struct pieces *p)
{
	_cleanup_close_ int lock = p->n ? ip_borrow_lock(target->pid) : -1;
	struct ip_remap_hold held;

	if (p->n && lock < 0)
		return -1;
	for (size_t done = 0; done < p->n; done += IP_REMAP_PIECES) {
		size_t n = p->n - done < IP_REMAP_PIECES ? p->n - done : IP_REMAP_PIECES;

		int ret = ip_remap_thread_run(target, ip_borrow_anyone, IP_REMAP_FIND_NS,
					      p->items + done, n, &held);

		if (held.tsc)
			ip_stop_log_add_look(&ip_stops_of(target)->log, held.ns);
		if (ret < 0)
			return -1;
	}
	return 0;
}

int ip_pmu_clean(struct ip_target *target, const struct ip_area *area)
{
	struct notes found = {0};
	const bool any = find_notes(area, &found);
	const uint64_t notes = found.at, first = found.blocks, size = found.size;
	const uint32_t n = any ? found.n : 0, none = IP_PMU_NONE;
	struct ip_meters m;
	struct ip_pmu_thread t;
	struct pieces p = {0};
	unsigned busy = 0;
	int ret = n ? ip_target_refresh(target) : 0;

	for (uint32_t b = 1; b < n && ret == 0; b++) {
		read_area(area, first + b * size, &m, sizeof(m));
		read_area(area, notes + b * size, &t, IP_PMU_KEPT);
		if (m.state == IP_METERS_PART || !t.state)
			continue;
		if (is_busy(area, &m))
			busy++;
		else
			ret = gather(target, &t, &p);
	}
	if (ret == 0)
		ret = close_all(target, &p);
	for (uint32_t b = 1; b < n && ret == 0 && !busy; b++) {
		read_area(area, first + b * size, &m, sizeof(m));
		read_area(area, notes + b * size, &t, IP_PMU_KEPT);
		if (m.state != IP_METERS_PART && t.state &&
		    pwrite(area->fd, &none, sizeof(none),
			   notes + b * size + offsetof(struct ip_pmu_thread, state)) < 0)
			ret = -1;
	}
	ret = ret < 0 || busy
		      ? ip_error("pid %d keeps %zu descriptors or pages of counters until it ends: "
				 "none of its threads could be borrowed to close them",
				 target->pid, p.n)
		      : (int)p.n;
	free(p.items);
	return ret;
}
