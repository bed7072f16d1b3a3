/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of durations for percentiles. It is log-linear, with 64 steps for each power of
 * two: a value read out of it differs by less than 0.8 % from the true value, and values below
 * 128 are exact. Memory grows with the range of the values: 256 bytes for each power of two that
 * occurs.
 *
 * Steps of nanoseconds begin elsewhere than steps of ticks. So that all views show the same
 * percentile of the same calls, each counts ticks, and asks ip_histogram_percentile().
 */
#ifndef IP_HISTOGRAM_H
#define IP_HISTOGRAM_H

#include <stdint.h>
#include <stdlib.h>

#define IP_HISTOGRAM_STEP_BITS 6
#define IP_HISTOGRAM_STEPS     (1u << IP_HISTOGRAM_STEP_BITS)
#define IP_HISTOGRAM_ROWS      (64 - IP_HISTOGRAM_STEP_BITS + 1)

/* All zero: an empty histogram. */
struct ip_histogram {
	uint32_t *rows[IP_HISTOGRAM_ROWS];
	uint64_t count;
	uint64_t dropped; /* values that could not be counted because memory ran out */
};

void ip_histogram_deinit(struct ip_histogram *histogram);

/* Moves the values of from to another histogram. from is empty then. */
void ip_histogram_merge(struct ip_histogram *to, struct ip_histogram *from);

/* Makes *to, which is empty, the same as from. Returns -1 with an error where memory ran out: then
 * *to is to be cleared all the same. */
int ip_histogram_copy(struct ip_histogram *to, const struct ip_histogram *from);

/* Makes a row. Private to ip_histogram_add(). Returns NULL where memory ran out. */
uint32_t *ip_histogram_row(struct ip_histogram *histogram, unsigned row);

/* Row 0 holds the values 0..63, one a step. Row r > 0 holds [64 << (r - 1), 64 << r) in 64
 * steps. */
static inline unsigned ip_histogram_row_of(uint64_t value)
{
	return 64 - __builtin_clzll(value | (IP_HISTOGRAM_STEPS - 1)) - IP_HISTOGRAM_STEP_BITS;
}

static inline unsigned ip_histogram_step_of(uint64_t value, unsigned row)
{
	return (row ? value >> (row - 1) : value) & (IP_HISTOGRAM_STEPS - 1);
}

/* The first value of a step. */
static inline uint64_t ip_histogram_step_from(unsigned row, unsigned step)
{
	return row ? (uint64_t)(IP_HISTOGRAM_STEPS + step) << (row - 1) : step;
}

/* Adds a value to its step only: the caller adds it to count. A step stops at 2^32 - 1. Where
 * memory runs out, the value is taken out of count and put into dropped. */
static inline void ip_histogram_put(struct ip_histogram *h, uint64_t value)
{
	unsigned row = ip_histogram_row_of(value), step = ip_histogram_step_of(value, row);
	uint32_t *counts = h->rows[row];

	if (__builtin_expect(!counts, 0)) {
		counts = ip_histogram_row(h, row);
		if (!counts) {
			h->dropped++;
			h->count--;
			return;
		}
	}
	counts[step] += counts[step] != UINT32_MAX;
}

static inline void ip_histogram_add(struct ip_histogram *h, uint64_t value)
{
	h->count++;
	ip_histogram_put(h, value);
}

/* Returns the value that the share (0..1) of all values does not exceed (nearest rank): the middle
 * of its step, kept within the smallest and the largest value, which the caller knows exactly. 0
 * where the histogram is empty. */
uint64_t ip_histogram_percentile(const struct ip_histogram *histogram, double share, uint64_t min,
				 uint64_t max);

#endif
