/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TSC, measured against the kernel's clocks. If the TSC cannot be trusted, one of those clocks
 * is used instead. Two readings far apart give the frequency: CLOCK_MONOTONIC_RAW is not slewed by
 * NTP.
 */
#ifndef IP_CLOCK_H
#define IP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct ip_clock_reading {
	uint64_t tsc;	      /* or ticks of the selected clock */
	uint64_t raw_ns;      /* CLOCK_MONOTONIC_RAW at tsc */
	uint64_t realtime_ns; /* CLOCK_REALTIME at tsc */
};

enum ip_clock_source {
	IP_CLOCK_AUTO, /* the TSC if it can be trusted */
	IP_CLOCK_TSC,
	/* CLOCK_MONOTONIC_RAW: its nanoseconds are used wherever TSC ticks would be */
	IP_CLOCK_MONOTONIC,
};

/* Selects the clock by which this process measures from now on. To be called before anything is
 * measured. Returns the selected clock. *ret_why: if another clock than the wanted one was selected
 * because the TSC cannot be trusted, the reason; else NULL. */
enum ip_clock_source ip_clock_select(enum ip_clock_source wanted, const char **ret_why);
enum ip_clock_source ip_clock_selected(void);

/* The present time, in ticks of the selected clock. */
uint64_t ip_clock_now(void);
/* The same, but read after all processors see every earlier store. */
uint64_t ip_clock_now_after(void);

/* Takes several readings, and returns the one with the narrowest bracket. */
void ip_clock_read(struct ip_clock_reading *ret);

/* The frequency in Hz between two readings. If they are less than min_ns apart, waits until they
 * are, and reads `to` again. */
uint64_t ip_clock_hz(const struct ip_clock_reading *from, struct ip_clock_reading *to,
		     uint64_t min_ns);

/* Whether the CPU says that the TSC runs at one rate in all states, and the kernel has not called
 * it unstable. *ret_why: the reason if not. */
bool ip_clock_trustworthy(const char **ret_why);

#endif
