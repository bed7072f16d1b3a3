/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of libiprobe-papi.so. It puts PAPI and libpfm4 behind one table of functions. So
 * fperf works where they are not installed, and loads them only when the user asks for what they
 * know. The library is never loaded into a process that is counted (common/abi/fperf_pmu.h tells
 * why).
 */
#ifndef IP_CLI_PAPI_NAMES_H
#define IP_CLI_PAPI_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "fperf/events.h"

#define PAPI_NAMES_ABI	  2u
#define PAPI_NAMES_SYMBOL "iprobe_papi_names"

struct papi_event {
	char name[128], what[512];
	unsigned ncounters; /* 0: it does not count on this machine */
	struct ip_pmu_counter counters[IP_PMU_COUNTERS];
	char parts[IP_PMU_COUNTERS][128]; /* names of the counters */
	/* in the notation of fperf/formula.h; "": the event is its only counter */
	char formula[256];
	double hz; /* clock of a core; 0: not known */
};

struct papi_names {
	unsigned abi;
	const char *version; /* version of PAPI */
	/* Finds an event. Returns 1; 0: there is no event of that name; -1: it does not count on
	 * this processor, and why tells the reason. */
	int (*find)(const char *name, struct papi_event *ret, char *why, size_t size);
	/* Visits all presets, or all native events of the PMUs of this machine. */
	void (*each)(bool natives,
		     void (*visit)(void *context, const struct papi_event *event,
				   const char *why_not),
		     void *context);
	/* Counts what work does with PAPI itself: PAPI_start, PAPI_read, PAPI_stop. Returns 0,
	 * or -1 and the reason in why. */
	int (*count)(const char *const *names, unsigned n, void (*work)(void *), void *context,
		     long long *values, char *why, size_t size);
};

#endif
