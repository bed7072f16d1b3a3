/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hook reads of counters, and what two readings mean.
 *
 * Calls of the kernel are made by hand, so errno stays. Where one fails a filter has done that: none is made any more.
 */
#include "runtime/fperf_internal.h"

#include "common/fperf_abi.h"
#include "runtime/arch/cpu.h"
#include "runtime/fperf_pmu.h"
#include "runtime/rt.h"

#define TRIALS 16 /* of a reading, to learn its bias */

#define THREAD_CPUTIME	 3 /* CLOCK_THREAD_CPUTIME_ID, the kernel's numbers */
#define RUSAGE_OF_THREAD 1

static void check(long result)
{
	if (result < 0)
		*(volatile uint32_t *)&rt_header->may_read = 0;
}

static void read_usage(struct usage *u)
{
	u->minor = u->major = u->voluntary = u->forced = 0;
	check(cpu_syscall(SYS_getrusage, RUSAGE_OF_THREAD, u, 0, 0));
}

static uint64_t read_clock(void)
{
	int64_t time[2] = {0, 0};

	check(cpu_syscall(SYS_clock_gettime, THREAD_CPUTIME, time, 0, 0));
	return time[0] * 1000000000ull + time[1];
}

void rt_fperf_read_at_entry(const struct at *at, struct reading *r)
{
	const struct ip_fperf_header *h = at->header;

	if (h->reads & IP_FPERF_READS_USAGE)
		read_usage(&r->usage);
	if (h->reads & IP_FPERF_READS_CLOCK)
		r->clock = read_clock();
	if (at->set)
		rt_pmu_read(at->set, at->pmu, &r->pmu);
	cpu_store_order();
	r->tsc = cpu_clock();
	cpu_store_order();
}

void rt_fperf_read_at_exit(const struct at *at, struct reading *r)
{
	const struct ip_fperf_header *h = at->header;

	cpu_store_order();
	r->tsc = cpu_clock();
	cpu_store_order();
	if (at->set)
		rt_pmu_read(at->set, at->pmu, &r->pmu);
	if (h->reads & IP_FPERF_READS_CLOCK)
		r->clock = read_clock();
	if (h->reads & IP_FPERF_READS_USAGE)
		read_usage(&r->usage);
}

static uint64_t value_of(uint32_t source, const struct reading *r)
{
	switch (source) {
	case IP_FPERF_TSC:
		return r->tsc;
	case IP_FPERF_TASK_CLOCK:
		return r->clock;
	case IP_FPERF_FAULTS:
		return r->usage.minor + r->usage.major;
	case IP_FPERF_FAULTS_MINOR:
		return r->usage.minor;
	case IP_FPERF_FAULTS_MAJOR:
		return r->usage.major;
	case IP_FPERF_SWITCHES:
		return r->usage.voluntary + r->usage.forced;
	case IP_FPERF_SWITCHES_VOLUNTARY:
		return r->usage.voluntary;
	case IP_FPERF_SWITCHES_FORCED:
		return r->usage.forced;
	default:
		return 0;
	}
}

/* What an event has counted since the open sample frame began, in *ret. 1: yes; 2: it is scaled; 0: it has no value. */
int rt_fperf_since(const struct ip_fperf_header *h, uint32_t e, const uint64_t *values,
		   const struct reading *now, const struct rt_pmu_values *pmu, uint64_t *ret)
{
	uint32_t source = h->source[e], i = source - IP_FPERF_PMU;

	if (source < IP_FPERF_PMU) {
		*ret = value_of(source, now) - values[e];
		return 1;
	}
	if (i >= IP_FPERF_EVENTS || pmu->missing >> i & 1)
		return 0;
	*ret = pmu->value[i];
	return 1 + (pmu->scaled >> i & 1);
}

void rt_fperf_note(const struct at *at, uint32_t frame, uint64_t *values, const struct reading *now)
{
	for (uint32_t e = 0; e < rt_fperf_events_of(at->header); e++)
		values[e] = value_of(at->header->source[e], now);
	if (at->set)
		rt_pmu_note(at->set, at->pmu, frame, &now->pmu);
}

void rt_fperf_pmu_since(const struct at *at, uint32_t frame, const struct reading *now,
			struct rt_pmu_values *ret)
{
	ret->missing = ~0u;
	if (at->set)
		rt_pmu_since(at->set, at->pmu, frame, &now->pmu, ret);
}

/* The least that two readings in a row differ by: what is more was somebody else's. frame: one that is not open yet. How long it took,
 * which has been accounted for. */
uint64_t rt_fperf_learn_bias(const struct at *at, uint32_t frame)
{
	const struct ip_fperf_header *h = at->header;
	struct ip_fperf_thread *t = at->thread;
	struct rt_pmu_values pmu;
	struct reading now;
	uint64_t *values = t->frames[frame].values, begin = cpu_clock();

	for (uint32_t e = 0; e < IP_FPERF_EVENTS; e++)
		t->bias[e] = ~0ull;
	for (int i = 0; i < TRIALS; i++) {
		rt_fperf_read_at_entry(at, &now);
		rt_fperf_note(at, frame, values, &now);
		rt_fperf_read_at_exit(at, &now);
		rt_fperf_pmu_since(at, frame, &now, &pmu);
		for (uint32_t e = 0; e < rt_fperf_events_of(h); e++) {
			uint64_t more;

			if (rt_fperf_since(h, e, values, &now, &pmu, &more) != 1)
				continue;
			/* of a difference of counters it may be below 0 */
			more = more >> 63 ? 0 : more;
			t->bias[e] = more < t->bias[e] ? more : t->bias[e];
		}
	}
	for (uint32_t e = 0; e < IP_FPERF_EVENTS; e++)
		t->bias[e] = t->bias[e] == ~0ull ? 0 : t->bias[e];
	t->ready = 1;
	return rt_fperf_spend_once(at, begin);
}
