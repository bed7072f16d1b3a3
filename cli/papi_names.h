/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libiprobe-papi.so offers: PAPI and libpfm4 behind one table of functions, so that fperf does
 * without them where they are not installed, and loads them only when somebody asks for what they
 * know. It is never loaded into a process that is counted (common/abi/fperf_pmu.h tells why).
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
	unsigned ncounters; /* 0: it does not count here */
	struct ip_pmu_counter counters[IP_PMU_COUNTERS];
	char parts[IP_PMU_COUNTERS][128]; /* their names */
	char formula[256];		  /* as formula.h has it; "": the only counter is it */
	double hz;			  /* of a core; 0: not known */
};

struct papi_names {
	unsigned abi;
	const char *version; /* of PAPI */
	/* 1; 0: there is no such name; -1: it does not count on this processor: why. */
	int (*find)(const char *name, struct papi_event *ret, char *why, size_t size);
	/* All presets, or all native events of the PMUs that are here. */
	void (*each)(bool natives,
		     void (*visit)(void *context, const struct papi_event *event,
				   const char *why_not),
		     void *context);
	/* Counts what work does by PAPI itself: PAPI_start, PAPI_read, PAPI_stop. 0; -1: why. */
	int (*count)(const char *const *names, unsigned n, void (*work)(void *), void *context,
		     long long *values, char *why, size_t size);
};

#endif
