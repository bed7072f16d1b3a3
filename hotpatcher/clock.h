/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TSC against the kernel's clocks. Two readings far apart give the frequency: CLOCK_MONOTONIC_RAW is not slewed by NTP.
 */
#ifndef IP_CLOCK_H
#define IP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct ip_clock_reading {
	uint64_t tsc;
	uint64_t raw_ns;      /* CLOCK_MONOTONIC_RAW at tsc */
	uint64_t realtime_ns; /* CLOCK_REALTIME at tsc */
};

/* The reading with the narrowest bracket out of several. */
void ip_clock_read(struct ip_clock_reading *ret);

/* Hz between two readings; where they are less than min_ns apart, waits until they are and reads to again. */
uint64_t ip_clock_hz(const struct ip_clock_reading *from, struct ip_clock_reading *to, uint64_t min_ns);

/* Whether the CPU says that the TSC runs at one rate in all states, and the kernel has not called it
 * unstable. where: reason if not. */
bool ip_clock_trustworthy(const char **ret_why);

#endif
