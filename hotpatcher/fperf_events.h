/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What FPerf can count: names, what each means, and whether it counts on this machine.
 *
 * Names of the kernel's own events are those that PAPI and libpfm4 give them (perf::PAGE-FAULTS). They are counted without a descriptor in the
 * process (common/fperf_abi.h), so nothing there can close one or read it. What takes a PMU is known by name, to say why it does not count.
 */
#ifndef IP_FPERF_EVENTS_H
#define IP_FPERF_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/fperf_abi.h"

#define IP_FPERF_NAMES_DEFAULT "perf::TASK-CLOCK,tsc::CYCLES,perf::PAGE-FAULTS,perf::CONTEXT-SWITCHES"

struct ip_fperf_event {
	const char *name;
	const char *unit; /* "ns", "ticks", "" */
	uint32_t source;  /* enum ip_fperf_source; IP_FPERF_NONE: it does not count here */
	const char *what;
};

/* All that are known; *ret_n of them. */
const struct ip_fperf_event *ip_fperf_events(size_t *ret_n);

/* Why an event of a PMU does not count here; static text, one line. */
const char *ip_fperf_why_no_pmu(void);

/* Comma-separated names into ret, which has room for IP_FPERF_EVENTS. How many; -1 with an error: unknown, twice,
 * too many; -2 with an error: known, but not counted here. */
int ip_fperf_events_parse(const char *text, const struct ip_fperf_event **ret);

/* System calls that a source takes (IP_FPERF_READS_...). */
uint32_t ip_fperf_reads(uint32_t source);

#endif
