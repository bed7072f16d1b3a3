/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TSC against the kernel's clocks, or one of these in its place where it cannot be trusted. Two
 * readings far apart give the frequency: CLOCK_MONOTONIC_RAW is not slewed by NTP.
 */
#ifndef IP_CLOCK_H
#define IP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct ip_clock_reading {
	uint64_t tsc;	      /* or ticks of what was selected */
	uint64_t raw_ns;      /* CLOCK_MONOTONIC_RAW at tsc */
	uint64_t realtime_ns; /* CLOCK_REALTIME at tsc */
};

enum ip_clock_source {
	IP_CLOCK_AUTO, /* the TSC where it can be trusted */
	IP_CLOCK_TSC,
	IP_CLOCK_MONOTONIC, /* CLOCK_MONOTONIC_RAW: its nanoseconds stand wherever a TSC would */
};

/* What this process measures by from now on; before anything is measured. The one that it is.
 * *ret_why: if that is another one because the TSC cannot be trusted, the reason; else NULL. */
enum ip_clock_source ip_clock_select(enum ip_clock_source wanted, const char **ret_why);
enum ip_clock_source ip_clock_selected(void);

/* Now, in ticks of what was selected. */
uint64_t ip_clock_now(void);
/* The same, read after every store made before is seen by all processors. */
uint64_t ip_clock_now_after(void);

/* The reading with the narrowest bracket out of several. */
void ip_clock_read(struct ip_clock_reading *ret);

/* Hz between two readings; where they are less than min_ns apart, waits until they are and reads to
 * again. */
uint64_t ip_clock_hz(const struct ip_clock_reading *from, struct ip_clock_reading *to,
		     uint64_t min_ns);

/* Whether the CPU says that the TSC runs at one rate in all states, and the kernel has not
 * called it unstable. where: reason if not. */
bool ip_clock_trustworthy(const char **ret_why);

#endif
