/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What FPerf can count: names, what each means, and whether it counts on this machine.
 *
 * Names of the kernel's own events are those that PAPI and libpfm4 give them (perf::PAGE-FAULTS).
 * Those that the kernel tells by getrusage and clocks are counted without a descriptor in the
 * process (common/abi/fperf.h). All others are counters of the kernel, which the hooks open
 * (common/abi/fperf_pmu.h): some are known here by the kernel's generic numbers; presets and native
 * events of the processor are asked of whoever knows PAPI (ip_fperf_events_ask()).
 *
 * Hardware events count user mode only, which is what PAPI counts where nobody asks for more. So
 * our own system calls in hooks are not in them.
 */
#ifndef IP_EVENTS_H
#define IP_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/abi/fperf_pmu.h"

#define IP_FPERF_NAMES_DEFAULT                                                                     \
	"perf::TASK-CLOCK,tsc::CYCLES,perf::PAGE-FAULTS,perf::CONTEXT-SWITCHES"

struct ip_formula;

struct ip_fperf_counter {
	struct ip_pmu_counter counter;
	int32_t weight; /* in the event's sum */
};

struct ip_fperf_event {
	const char *name;
	const char *unit; /* "ns", "ticks", "" */
	uint32_t source;  /* enum ip_fperf_source; IP_FPERF_PMU: counters of the kernel */
	const char *what;
	unsigned ncounters; /* of the kernel */
	struct ip_fperf_counter counters[IP_PMU_COUNTERS];
	uint32_t divisor; /* of their sum; 0: none */
	/* That is no sum: it follows from the means of other events, which are counted, and shown,
	 * too (formula.h). NULL: it is one. */
	const struct ip_formula *formula;
	unsigned nparts;
	const struct ip_fperf_event *parts[IP_PMU_COUNTERS];
};

/* One that is known here, by its name or a shorter one; NULL: it is not. */
const struct ip_fperf_event *ip_fperf_event_named(const char *name);

/* Who knows more names (PAPI). The event, which lives for good; NULL where there is none:
 * *ret_why says why it does not count here, NULL: nobody knows it. */
typedef const struct ip_fperf_event *(*ip_fperf_ask)(const char *name, const char **ret_why);
void ip_fperf_events_ask(ip_fperf_ask ask);

/* All that are known; *ret_n of them. */
const struct ip_fperf_event *ip_fperf_events(size_t *ret_n);

/* Why an event does not count here, by trying; static text, one line. NULL: it does. */
const char *ip_fperf_why_not(const struct ip_fperf_event *event);

/* Comma-separated names into ret, which has room for IP_FPERF_EVENTS; parts of a formula stand
 * before it. How many; -1 with an error: unknown, twice, too many; -2 with an error: known, but
 * not counted here. */
int ip_fperf_events_parse(const char *text, const struct ip_fperf_event **ret);

/* Which of n it is, by its name; -1: none. */
int ip_fperf_events_find(const struct ip_fperf_event *const *events, unsigned n, const char *name);

/* System calls that a source takes (IP_FPERF_READS_...). */
uint32_t ip_fperf_reads(uint32_t source);

#endif
