/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peaks of a function's latency, as a person sees them in its histogram on log-log axes. A peak
 * is one way in which the function does its work.
 *
 * Joukov, Traeger, Iyer, Wright, Zadok: Operating system profiling via latency analysis (OSprof),
 * 2006.
 */
#ifndef IP_LATENCY_PEAKS_H
#define IP_LATENCY_PEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A peak of fewer calls is refused: what it is made of may be chance. */
#define IP_PEAK_SAMPLES 20u
#define IP_PEAKS_MOST	32u

/* Bins are quarters of powers of two of nanoseconds; bin 0 also has calls of 0 ns. */
#define IP_PEAK_STEPS 4u
#define IP_PEAK_BINS  (64u * IP_PEAK_STEPS)

/* All zero: of no calls. */
struct ip_peak_bins {
	uint64_t calls[IP_PEAK_BINS];
	uint64_t count, min, max, total; /* ns */
};

void ip_peak_bins_add(struct ip_peak_bins *bins, uint64_t ns);
/* The first duration that a bin has, in ns. That of bin IP_PEAK_BINS is UINT64_MAX. */
uint64_t ip_peak_bin_from(unsigned bin);

struct ip_peak {
	uint64_t from_ns, to_ns;	 /* to_ns: not included */
	uint64_t top_from_ns, top_to_ns; /* the highest bin */
	/* The bins around that one, each with an eighth as many calls or more, and up to twice as
	 * long: calls farther away may be there for another reason. */
	uint64_t core_from_ns, core_to_ns;
	uint64_t count, core_count;
	bool refused; /* of fewer than IP_PEAK_SAMPLES calls */
};

struct ip_peaks {
	struct ip_peak items[IP_PEAKS_MOST]; /* in order of durations; they cover all calls */
	size_t n;
	unsigned steps; /* bins for each power of two by which they were found: 1, 2 or 4 */
};

/* Finds them. Two are told apart where the histogram falls between them to a half of the lower one
 * or below, by more than chance makes it fall. Whole powers of two are looked at first; where these
 * show one peak only, halves and quarters. */
void ip_peaks_find(const struct ip_peak_bins *bins, struct ip_peaks *ret);

/* The peak that has a number, from 1 on: those that were refused have none. NULL: there is none. */
const struct ip_peak *ip_peaks_number(const struct ip_peaks *peaks, size_t number);
/* How many have numbers. */
size_t ip_peaks_count(const struct ip_peaks *peaks);

#endif
