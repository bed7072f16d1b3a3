/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling hooks about counters of the kernel, and clearing up behind them.
 */
#include "hotpatcher/fperf_pmu.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/grow.h"
#include "hotpatcher/area.h"
#include "hotpatcher/borrow_search.h"
#include "hotpatcher/flip_thread.h"
#include "hotpatcher/fperf_events.h"
#include "hotpatcher/target.h"

#define PAGE	  4096ul
#define PARANOID  "/proc/sys/kernel/perf_event_paranoid"
#define MAY_COUNT (1ull << 38 | 1ull << 21) /* CAP_PERFMON, CAP_SYS_ADMIN */

unsigned ip_pmu_counters(const struct ip_fperf_event *const *events, unsigned n)
{
	unsigned counters = 0;

	for (unsigned i = 0; i < n; i++)
		counters += events[i]->ncounters;
	return counters;
}

uint64_t ip_pmu_room(const struct ip_fperf_event *const *events, unsigned n)
{
	unsigned counters = ip_pmu_counters(events, n);

	return counters ? (IP_PMU_PLACE_SIZE(counters) + 7) / 8 * 8 : 0;
}

void ip_pmu_fill(const struct ip_fperf_event *const *events, unsigned n, bool scale, struct ip_pmu_set *set,
		 uint32_t *sources)
{
	*set = (struct ip_pmu_set){.scale = scale};
	for (unsigned i = 0; i < n; i++) {
		if (!events[i]->ncounters)
			continue;
		sources[i] = IP_FPERF_PMU + set->nevents;
		for (unsigned k = 0; k < events[i]->ncounters; k++) {
			set->events[set->nevents].uses |= 1u << set->ncounters;
			set->events[set->nevents].weights[set->ncounters] = events[i]->counters[k].weight;
			set->counters[set->ncounters++] = events[i]->counters[k].counter;
		}
		set->nevents++;
	}
}

const char *ip_pmu_error(int error)
{
	switch (error) {
	case ENOENT:
	case EOPNOTSUPP:
	case ENODEV:
		return "this machine has no PMU, or its hypervisor does not pass it on (perf_event_open: no "
		       "such event)";
	case EACCES:
	case EPERM:
		return "the kernel does not let this user count it (kernel.perf_event_paranoid, or seccomp "
		       "of a container)";
	case EINVAL:
		return "the PMU cannot count them at the same time, or not at all: ask for fewer, or give "
		       "--multiplex";
	case EMFILE:
	case ENFILE:
		return "there is no room for more file descriptors (ulimit -n)";
	case EBUSY:
		return "somebody else has the PMU to himself";
	default:
		return "the kernel refuses perf_event_open";
	}
}

static uint64_t capabilities_of(pid_t pid)
{
	char path[64], line[512];
	uint64_t capabilities = 0;
	_cleanup_fclose_ FILE *file = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "CapEff: %" SCNx64, &capabilities);
	return capabilities;
}

static long paranoia(void)
{
	_cleanup_fclose_ FILE *file = fopen(PARANOID, "re");
	long level = 2;

	if (file && fscanf(file, "%ld", &level) != 1)
		level = 2;
	return level;
}

static bool sees_the_kernel(const struct ip_fperf_event *e)
{
	for (unsigned i = 0; i < e->ncounters; i++)
		if (!(e->counters[i].counter.exclude & IP_PMU_NO_KERNEL))
			return true;
	return false;
}

int ip_pmu_check(const struct ip_target *target, const struct ip_fperf_event *const *events, unsigned n)
{
	long level = paranoia();
	bool may = capabilities_of(target->pid) & MAY_COUNT;

	if (!ip_pmu_counters(events, n))
		return 0;
	for (unsigned i = 0; i < n && !may; i++)
		if (events[i]->ncounters && (level > 2 || (level == 2 && sees_the_kernel(events[i]))))
			return ip_error("pid %d may not count %s: kernel.perf_event_paranoid is %ld, and the "
					"process has "
					"no CAP_PERFMON: lower it to %d, or leave the event out",
					target->pid, events[i]->name, level,
					level > 2 && !sees_the_kernel(events[i]) ? 2 : 1);
	if (ip_borrow_check(target->pid) < 0 || !target->anchor.flip)
		return ip_error("pid %d: the descriptors of %s could not be closed again in it (it has a "
				"shadow stack, or another "
				"runtime): leave the event out",
				target->pid, events[0]->name);
	return 0;
}

struct pieces {
	struct ip_flip_piece *items;
	size_t n;
};

static int add(struct pieces *p, uint32_t what, uint64_t at, uint64_t staged, uint64_t size)
{
	if (ip_grow(&p->items, p->n, sizeof(*p->items)) < 0)
		return -1;
	p->items[p->n++] = (struct ip_flip_piece){.what = what, .at = at, .staged = staged, .size = size};
	return 0;
}

/* A page of a counter, and nothing else. */
static bool is_page(const struct ip_target *target, uint64_t page)
{
	const struct ip_mapping *m = ip_maps_find(&target->maps, page);

	return m && m->start == page && m->end == page + PAGE && !strncmp(m->perms, "r--s", 4) &&
	       strstr(m->path, "[perf_event]");
}

/* A descriptor of some counter: not in another image of the process, since exec has closed them. Which one, the process itself is asked later. */
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

/* What the thread of a block holds. */
static int gather(const struct ip_target *target, const struct ip_pmu_thread *t, struct pieces *p)
{
	for (unsigned i = 0; i < IP_PMU_COUNTERS; i++) {
		struct ip_pmu_held h = t->held[i];

		if (h.page && is_page(target, h.page) && add(p, IP_FLIP_DROP, 0, h.page, PAGE) < 0)
			return -1;
		if (h.id && h.fd >= 0 && is_counter(target, h.fd) && add(p, IP_FLIP_CLOSE, h.fd, 0, h.id) < 0)
			return -1;
	}
	return 0;
}

/* Not all of the area is mapped here: what is not there reads as zeros. */
static void read_area(const struct ip_area *area, uint64_t at, void *to, size_t size)
{
	ssize_t got = pread(area->fd, to, size, at);

	if (got < (ssize_t)size)
		memset((char *)to + (got > 0 ? got : 0), 0, size - (got > 0 ? got : 0));
}

/* Where a thread's counters are noted in block 0. What the target has scribbled over is not believed. */
struct notes {
	uint64_t at, blocks, size;
	uint32_t n;
};

static bool find_notes(const struct ip_area *area, struct notes *ret)
{
	/* once: the target may change it */
	const volatile struct ip_area_header *h = area->header;
	uint64_t at = h->meters, size = h->meters_size, all = h->meters_all, n = h->nmeters, fperf = h->fperf;
	struct ip_fperf_header header;

	if (!fperf || !n || n > all || all > IP_AREA_SLOTS || at < IP_AREA_DATA_OFFSET || at > area->window ||
	    size < sizeof(header) || size < IP_PMU_KEPT || size > (area->window - at) / all ||
	    fperf > all * size - sizeof(header))
		return false;
	read_area(area, at + fperf, &header, sizeof(header));
	if (header.abi != IP_FPERF_ABI || !header.pmu || header.pmu % 8 ||
	    header.pmu > (all - n + 1) * size - IP_PMU_KEPT)
		return false;
	*ret = (struct notes){at + header.pmu, at, size, n};
	return true;
}

/* A hook may be at work there. */
static bool is_busy(const struct ip_area *area, const struct ip_meters *m)
{
	return m->state == IP_METERS_OWNED && area->slots[m->slot % IP_AREA_SLOTS].guard;
}

static int close_all(struct ip_target *target, struct pieces *p)
{
	_cleanup_close_ int lock = p->n ? ip_borrow_lock(target->pid) : -1;
	struct ip_flip_hold held;

	if (p->n && lock < 0)
		return -1;
	for (size_t done = 0; done < p->n; done += IP_FLIP_PIECES) {
		size_t n = p->n - done < IP_FLIP_PIECES ? p->n - done : IP_FLIP_PIECES;

		if (ip_flip_thread_run(target, ip_borrow_anyone, IP_FLIP_FIND_NS, p->items + done, n, &held) <
		    0)
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
	ret = ret < 0 || busy ? ip_error("pid %d keeps %zu descriptors or pages of counters until it ends: "
					 "none of its threads could be "
					 "borrowed to close them",
					 target->pid, p.n)
			      : (int)p.n;
	free(p.items);
	return ret;
}
