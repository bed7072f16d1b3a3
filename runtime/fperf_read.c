/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hook reads of counters, and what two readings mean.
 *
 * System calls are made without the C library, so errno does not change. If one fails, a seccomp
 * filter has refused it: no more are made.
 */
#include "runtime/fperf_private.h"

#include "common/abi/fperf.h"
#include "common/elf/probe_list.h"
#include "runtime/arch/cpu.h"
#include "runtime/fperf_pmu.h"
#include "runtime/rt.h"

#define TRIALS 16 /* trials of a reading, to learn its bias */

#define THREAD_CPUTIME	 3 /* the kernel's number of CLOCK_THREAD_CPUTIME_ID */
#define RUSAGE_OF_THREAD 1

static void check(long result)
{
	if (result < 0) {
		*(volatile uint32_t *)&rt_private.may_read = 0;
		*(volatile uint32_t *)&rt_header->refused = 1;
	}
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
	uint32_t reads = *(volatile uint32_t *)&rt_private.fperf_reads;

	if (reads & IP_FPERF_READS_USAGE)
		read_usage(&r->usage);
	if (reads & IP_FPERF_READS_CLOCK)
		r->clock = read_clock();
	if (at->set)
		rt_pmu_read(at->set, at->pmu, &r->pmu);
	cpu_store_order();
	r->tsc = cpu_clock();
	cpu_store_order();
}

void rt_fperf_read_at_exit(const struct at *at, uint64_t entered, struct reading *r)
{
	uint32_t reads = *(volatile uint32_t *)&rt_private.fperf_reads;

	r->entered = entered;
	cpu_store_order();
	r->tsc = cpu_clock();
	cpu_store_order();
	if (at->set)
		rt_pmu_read(at->set, at->pmu, &r->pmu);
	if (reads & IP_FPERF_READS_CLOCK)
		r->clock = read_clock();
	if (reads & IP_FPERF_READS_USAGE)
		read_usage(&r->usage);
}

/* The time between two readings of the clock in one hook; 0 if another thread ran in between. */
static uint64_t between(const struct ip_fperf_header *h, uint64_t from, uint64_t to)
{
	return to - from < h->most_ticks ? rt_fperf_to_ns(h, to - from) : 0;
}

static uint64_t value_of(uint32_t source, const struct reading *r)
{
	switch (source) {
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

/* Writes to *ret what an event has counted since the open sample frame began. Returns 1 if the
 * value is exact, 2 if it is scaled, 0 if the event has no value. */
int rt_fperf_since(const struct ip_fperf_header *h, uint32_t e, const struct ip_fperf_start *start,
		   const struct reading *now, const struct rt_pmu_values *pmu, uint64_t *ret)
{
	uint32_t source = *(const volatile uint32_t *)&h->source[e], i = source - IP_FPERF_PMU;

	if (source == IP_FPERF_TSC) {
		*ret = now->entered - start->began;
		return 1;
	}
	if (source < IP_FPERF_PMU) {
		*ret = value_of(source, now) - start->values[e];
		if (source == IP_FPERF_TASK_CLOCK)
			*ret -= between(h, start->read, start->began) +
				between(h, now->entered, now->tsc);
		return 1;
	}
	if (i >= IP_FPERF_EVENTS || pmu->missing >> i & 1)
		return 0;
	*ret = pmu->value[i];
	return 1 + (pmu->scaled >> i & 1);
}

void rt_fperf_note(const struct at *at, uint32_t frame, struct ip_fperf_start *start,
		   const struct reading *now)
{
	for (uint32_t e = 0; e < rt_fperf_events_of(at->header); e++)
		start->values[e] = value_of(*(volatile uint32_t *)&at->header->source[e], now);
	start->read = start->began = now->tsc;
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

/* Learning: reads as a sample does. Then what is counted between the two hooks is what lies between
 * the hooks of a sample. Number 0 has no frame. So the marks of the kernel's counters go to the
 * place of the next frame. */
uint64_t *rt_fperf_trial(const struct at *at, uint32_t kind, uint64_t entered)
{
	const struct ip_fperf_header *h = at->header;
	struct ip_fperf_thread *t = at->thread;
	struct rt_pmu_values pmu;
	struct reading now;
	uint64_t path;

	if (t->ready || !rt_fperf_may_read(at))
		return kind == IP_PROBE_ENTRY ? &t->trial.began : NULL;
	if (kind == IP_PROBE_ENTRY) {
		rt_fperf_read_at_entry(at, &now);
		rt_fperf_note(at, rt_fperf_top(t), &t->trial, &now);
		t->trial_ticks = cpu_clock() - entered;
		return &t->trial.began;
	}
	rt_fperf_read_at_exit(at, entered, &now);
	rt_fperf_pmu_since(at, rt_fperf_top(t), &now, &pmu);
	path = entered - t->trial.began;
	t->path = path < t->path ? path : t->path;
	for (uint32_t e = 0; e < rt_fperf_events_of(h); e++) {
		uint64_t more;

		if (rt_fperf_since(h, e, &t->trial, &now, &pmu, &more) != 1)
			continue;
		/* a difference of counters may be negative */
		more = more >> 63 ? 0 : more;
		t->bias[e] = more < t->bias[e] ? more : t->bias[e];
	}
	t->trial_ticks += cpu_clock() - entered;
	return NULL;
}

uint64_t rt_fperf_learn_bias(const struct at *at)
{
	struct ip_fperf_thread *t = at->thread;
	uint64_t begin = cpu_clock();

	t->path = t->rest = ~0ull;
	for (uint32_t e = 0; e < IP_FPERF_EVENTS; e++)
		t->bias[e] = ~0ull;
	for (int i = 0; i < TRIALS; i++) {
		uint64_t from = cpu_clock(), rest;

		t->trial_ticks = 0;
		rt_fperf_try();
		rest = cpu_clock() - from - t->trial_ticks;
		t->rest = rest < t->rest ? rest : t->rest;
	}
	t->path = t->path < at->header->most_ticks ? t->path : 0;
	t->rest = t->rest < at->header->most_ticks ? t->rest / 2 : 0;
	for (uint32_t e = 0; e < IP_FPERF_EVENTS; e++)
		t->bias[e] = t->bias[e] == ~0ull ? 0 : t->bias[e];
	t->ready = 1;
	return rt_fperf_spend_once(at, begin);
}
