/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the session of a process records, seen from outside: from the rings, without asking its
 * iprobe.
 */
#ifndef IP_RATES_H
#define IP_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/target.h"

/* A second of what its threads write into rings, as far as the interval tells. Calls that are
 * counted instead of logged write nothing. */
struct ip_rates {
	pid_t iprobe;	      /* of the session, as it sees itself */
	uint64_t interval_ns; /* that was looked at */
	uint64_t events;      /* a record of 8 bytes each; those with values count as more */
	uint64_t bytes;
	uint64_t lost; /* events */
};

/* Looks twice, that long apart. True: the process has a session, and its rings may be looked at. */
bool ip_rates_look(const struct ip_target *target, uint64_t interval_ns, struct ip_rates *ret);

#endif
