/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries events in fperf itself, with the hooks' own code, before a process is patched for them.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cli/fperf/fperf.h"
#include "common/abi/anchor.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "fperf/pmu.h"
#include "hotpatcher/ptrace/stop.h"
#include "runtime/fperf_pmu.h"

extern struct ip_rt_private rt_private;
/* The runtime's own code, which runs here, reads this value of it. */
struct ip_rt_private rt_private = {.fperf_counters = IP_PMU_COUNTERS};

#define WORK_NS 500000ull

static void spin(void)
{
	uint64_t began = ip_now_ns();

	while (ip_now_ns() - began < WORK_NS)
		;
}

static bool has_values(const struct ip_pmu_set *set, struct ip_pmu_thread *t)
{
	struct rt_pmu_reading reading;
	struct rt_pmu_values got;

	rt_pmu_read(set, t, &reading);
	rt_pmu_note(set, t, 0, &reading);
	spin();
	rt_pmu_read(set, t, &reading);
	rt_pmu_since(set, t, 0, &reading, &got);
	return !(got.missing & ((1u << set->nevents) - 1));
}

int fperf_try(const struct ip_fperf_options *o)
{
	uint64_t room = ip_pmu_room(o->events, o->nevents);
	_cleanup_free_ struct ip_pmu_thread *t = room ? calloc(1, room) : NULL;
	struct ip_pmu_set set;
	uint32_t sources[IP_FPERF_EVENTS];
	bool counts;

	if (!room)
		return 0;
	if (!t)
		return ip_error("out of memory");
	ip_pmu_fill(o->events, o->nevents, o->multiplex, &set, sources);
	if (!rt_pmu_ready(&set, t, gettid()))
		return ip_error("-e %s does not count here, together with the others: %s",
				ip_fperf_event_of_counter(o, t->failed), ip_pmu_error(t->error));
	/* the scheduler may have disturbed one try, but not all */
	counts = o->multiplex;
	for (unsigned i = 0; i < 5 && !counts; i++)
		counts = has_values(&set, t);
	rt_pmu_close(t);
	return counts ? 0
		      : ip_error("these events do not count at the same time: somebody else has "
				 "counters in the PMU (the NMI watchdog, perf): ask for fewer, or "
				 "give --multiplex");
}
