/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What FPerf can count: the names of events, what each means, and whether it counts on this
 * machine.
 *
 * The kernel's own events have the names that PAPI and libpfm4 give them (perf::PAGE-FAULTS).
 * Events that the kernel reports by getrusage and clocks are counted without a descriptor in the
 * process (common/abi/fperf.h). All other events are counters of the kernel, which the hooks open
 * (common/abi/fperf_pmu.h). Some of these are known here by the kernel's generic numbers. For
 * presets and native events of the processor PAPI is asked (ip_fperf_events_ask()).
 *
 * Hardware events count user mode only, which is also PAPI's default. So the system calls in hooks
 * are not counted.
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
	int32_t weight; /* factor in the event's sum */
};

struct ip_fperf_event {
	const char *name;
	const char *unit; /* "ns", "ticks", "" */
	uint32_t source;  /* enum ip_fperf_source. IP_FPERF_PMU: counters of the kernel */
	const char *what;
	unsigned ncounters; /* number of counters of the kernel */
	struct ip_fperf_counter counters[IP_PMU_COUNTERS];
	uint32_t divisor; /* divides their sum; 0: none */
	/* Not NULL: the event is not a sum. It follows by this formula (formula.h) from the means
	 * of other events (parts), which are counted and shown, too. */
	const struct ip_formula *formula;
	unsigned nparts;
	const struct ip_fperf_event *parts[IP_PMU_COUNTERS];
};

/* Returns the event of this table with that name or alias. NULL: there is none. */
const struct ip_fperf_event *ip_fperf_event_named(const char *name);

/* A function that knows more names (PAPI). Returns the event, which is never freed. Returns NULL if
 * there is none: then *ret_why says why it does not count here; *ret_why NULL: the name is not
 * known. */
typedef const struct ip_fperf_event *(*ip_fperf_ask)(const char *name, const char **ret_why);
void ip_fperf_events_ask(ip_fperf_ask ask);

/* Returns all events of the table, *ret_n of them. */
const struct ip_fperf_event *ip_fperf_events(size_t *ret_n);

/* Tries the event, and returns why it does not count here: static text, one line. NULL: it does
 * count. */
const char *ip_fperf_why_not(const struct ip_fperf_event *event);

/* Parses comma-separated names into ret, which has room for IP_FPERF_EVENTS. The parts of a formula
 * come before it. Returns the number of events; -1 with an error: unknown, named twice, too many;
 * -2 with an error: known, but not counted here. */
int ip_fperf_events_parse(const char *text, const struct ip_fperf_event **ret);

/* Returns the index of the event with that name; -1: there is none. */
int ip_fperf_events_find(const struct ip_fperf_event *const *events, unsigned n, const char *name);

/* Returns the system calls that a source needs (IP_FPERF_READS_...). */
uint32_t ip_fperf_reads(uint32_t source);

#endif
