/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of perf_event_open(2) as times of the TSC.
 *
 * Samples are stamped by CLOCK_MONOTONIC_RAW, which the kernel makes of the TSC by a factor that
 * never changes, where the TSC is its clocksource. Both are read together from time to time; a time
 * between two readings lies on the line between them. perf's own clock has the factor in the
 * mapped page (cap_user_time_zero), but not in a virtual machine whose scheduler's clock is the
 * host's.
 */
#ifndef IP_PERF_CLOCK_H
#define IP_PERF_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define IP_PERF_READINGS 64u

struct ip_perf_reading {
	uint64_t ns, tsc;
	double rate; /* ticks for each ns up to the next reading, which the last one has not */
};

struct ip_perf_clock {
	struct ip_perf_reading readings[IP_PERF_READINGS];
	size_t n;
	uint64_t within; /* ticks that a reading takes which is not interrupted */
	/* Reads both clocks; ip_perf_clock_read(). Returns the ticks within which they were read.
	 */
	uint64_t (*read)(uint64_t *ret_ns, uint64_t *ret_tsc);
};

/* Reads both clocks at the same time, as far as that goes. Returns the number of ticks within
 * which they were read; they differ by half of it at most. */
uint64_t ip_perf_clock_read(uint64_t *ret_ns, uint64_t *ret_tsc);

/* The first reading: before anything is recorded. Returns 0, or -1 with an error: the clock cannot
 * be read precisely enough to be compared with the TSC. */
int ip_perf_clock_begin(struct ip_perf_clock *clock);

/* The TSC at that time of CLOCK_MONOTONIC_RAW, which is past. */
uint64_t ip_perf_clock_tsc(struct ip_perf_clock *clock, uint64_t ns);

#endif
