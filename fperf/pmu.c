/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hooks are told about counters of the kernel.
 */
#include "fperf/pmu.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "fperf/events.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/process/target.h"

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

void ip_pmu_fill(const struct ip_fperf_event *const *events, unsigned n, bool scale,
		 struct ip_pmu_set *set, uint32_t *sources)
{
	*set = (struct ip_pmu_set){.scale = scale};
	for (unsigned i = 0; i < n; i++) {
		if (!events[i]->ncounters)
			continue;
		sources[i] = IP_FPERF_PMU + set->nevents;
		for (unsigned k = 0; k < events[i]->ncounters; k++) {
			set->events[set->nevents].uses |= 1u << set->ncounters;
			set->events[set->nevents].weights[set->ncounters] =
				events[i]->counters[k].weight;
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
		return "this machine has no PMU, or its hypervisor does not pass it on "
		       "(perf_event_open: no such event)";
	case EACCES:
	case EPERM:
		return "the kernel does not let this user count it (kernel.perf_event_paranoid, or "
		       "seccomp of a container)";
	case EINVAL:
		return "the PMU cannot count them at the same time, or not at all: ask for fewer, "
		       "or give --multiplex";
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

int ip_pmu_check(const struct ip_target *target, const struct ip_fperf_event *const *events,
		 unsigned n)
{
	long level = paranoia();
	bool may = capabilities_of(target->pid) & MAY_COUNT;

	if (!ip_pmu_counters(events, n))
		return 0;
	for (unsigned i = 0; i < n && !may; i++)
		if (events[i]->ncounters &&
		    (level > 2 || (level == 2 && sees_the_kernel(events[i]))))
			return ip_error("pid %d may not count %s: kernel.perf_event_paranoid is "
					"%ld, and the process has no CAP_PERFMON: lower it to %d, "
					"or leave the event out",
					target->pid, events[i]->name, level,
					level > 2 && !sees_the_kernel(events[i]) ? 2 : 1);
	if (ip_borrow_check(target->pid) < 0 || !target->anchor.remap)
		return ip_error("pid %d: the descriptors of %s could not be closed again in it (it "
				"has a shadow stack, or another runtime): leave the event out",
				target->pid, events[0]->name);
	return 0;
}
