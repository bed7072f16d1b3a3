/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests two histograms against each other.
 */
#include "analysis/profile/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"

#define STEPS (IP_HISTOGRAM_ROWS * IP_HISTOGRAM_STEPS)
#define TAIL  0.99
/* Either side must have at least so many expected calls above the percentile. */
#define TAIL_CALLS  5.0
#define BATCHES_MIN 16u

/* Merges each two batches into one. */
static void halve(struct ip_batches *b)
{
	for (size_t i = 0; i < IP_BATCHES / 2; i++) {
		struct ip_batch merged = b->batches[2 * i];

		merged.sum += b->batches[2 * i + 1].sum;
		for (unsigned r = 0; r < IP_HISTOGRAM_ROWS; r++)
			merged.rows[r] += b->batches[2 * i + 1].rows[r];
		b->batches[i] = merged;
	}
	b->n = IP_BATCHES / 2;
	b->size *= 2;
}

void ip_batches_add(struct ip_batches *b, uint64_t value)
{
	unsigned row = ip_histogram_row_of(value), step = ip_histogram_step_of(value, row);
	struct ip_batch *last;

	if (!b->size)
		b->size = b->in_last = 1; /* no batch has begun yet */
	else if (b->in_last < b->size)
		b->in_last++;
	else
		b->in_last = 1;
	if (b->in_last == 1) {
		if (b->n == IP_BATCHES)
			halve(b);
		memset(&b->batches[b->n++], 0, sizeof(*b->batches));
	}
	last = &b->batches[b->n - 1];
	last->sum += row * IP_HISTOGRAM_STEPS + step;
	last->rows[row]++;
}

/* Returns the counts by step, in order of durations. *ret_n is the number of calls. NULL with an
 * error. */
static uint64_t *counts_of(const struct ip_durations *d, uint64_t *ret_n)
{
	uint64_t *counts = calloc(STEPS, sizeof(*counts));

	*ret_n = 0;
	if (!counts) {
		ip_error("out of memory");
		return NULL;
	}
	for (unsigned i = 0; d->histogram && i < STEPS; i++) {
		const uint32_t *row = d->histogram->rows[i / IP_HISTOGRAM_STEPS];

		counts[i] = row ? row[i % IP_HISTOGRAM_STEPS] : 0;
	}
	for (unsigned i = 0; !d->histogram && i < d->nbuckets && i < STEPS; i++)
		counts[i] = d->buckets[i];
	for (unsigned i = 0; i < STEPS; i++)
		*ret_n += counts[i];
	return counts;
}

/* Estimates the design effect of a figure from batch means. The figure has this mean and
 * variance over all calls. of() returns the sum of the figure in a batch. */
static double design_effect(const struct ip_batches *b, double mean, double variance, unsigned row,
			    double (*of)(const struct ip_batch *batch, unsigned row))
{
	/* the last batch may not be full */
	size_t n = b && b->n ? b->n - (b->in_last < b->size) : 0;
	double squares = 0, effect;

	if (n < BATCHES_MIN || b->size < 2 || variance <= 0)
		return 1;
	for (size_t i = 0; i < n; i++) {
		double difference = of(&b->batches[i], row) / b->size - mean;

		squares += difference * difference;
	}
	effect = squares / (n - 1) * b->size / variance;
	return effect > 1 ? effect : 1;
}

static double sum_of(const struct ip_batch *batch, unsigned row)
{
	return batch->sum;
}

/* Returns the calls of a batch in this row and the rows above. */
static double behind(const struct ip_batch *batch, unsigned row)
{
	double n = 0;

	for (; row < IP_HISTOGRAM_ROWS; row++)
		n += batch->rows[row];
	return n;
}

static double location_effect(const struct ip_durations *d, const uint64_t *counts, uint64_t n)
{
	double sum = 0, squares = 0, mean;

	for (unsigned i = 0; i < STEPS; i++) {
		sum += (double)counts[i] * i;
		squares += (double)counts[i] * i * i;
	}
	mean = sum / n;
	return design_effect(d->batches, mean, squares / n - mean * mean, 0, sum_of);
}

/* Batches know powers of two only. So the effect is that of calls from the power of two on that
 * the threshold lies in. */
static double tail_effect(const struct ip_durations *d, const uint64_t *counts, uint64_t n,
			  unsigned step)
{
	unsigned row = step / IP_HISTOGRAM_STEPS;
	double share = 0, at_next = 0;

	for (unsigned i = row * IP_HISTOGRAM_STEPS; i < STEPS; i++) {
		share += counts[i];
		at_next += i >= (row + 1) * IP_HISTOGRAM_STEPS ? counts[i] : 0;
	}
	/* Takes this power of two or the next, whichever has a share that tells something. */
	if (share > n / 2.0 && at_next > 0) {
		share = at_next;
		row++;
	}
	share /= n;
	return design_effect(d->batches, share, share * (1 - share), row, behind);
}

static double two_sided(double difference, double variance)
{
	return variance > 0 ? erfc(fabs(difference) / sqrt(2 * variance)) : 1;
}

static void compare_location(const struct ip_durations *d1, const uint64_t *c1,
			     const struct ip_durations *d2, const uint64_t *c2,
			     struct ip_comparison *ret)
{
	double n1 = ret->n1, n2 = ret->n2, n = n1 + n2, below = 0, wins = 0, ties = 0;
	double e1 = location_effect(d1, c1, ret->n1), e2 = location_effect(d2, c2, ret->n2);

	for (unsigned i = 0; i < STEPS; i++) {
		double equal = (double)c1[i] + (double)c2[i];

		wins += c2[i] * (below + 0.5 * c1[i]);
		below += c1[i];
		ties += equal * (equal * equal - 1);
	}
	ret->superior = wins / (n1 * n2);
	ret->location =
		two_sided(ret->superior - 0.5,
			  (1 - ties / (n * (n * n - 1))) * (e1 / n1 + e2 / n2) / 12 * (n + 1) / n);
}

static void compare_tail(const struct ip_durations *d1, const uint64_t *c1,
			 const struct ip_durations *d2, const uint64_t *c2,
			 struct ip_comparison *ret)
{
	double n1 = ret->n1, n2 = ret->n2, seen = 0, k1 = 0, k2 = 0, share;
	unsigned step = 0;

	/* the first step above the common percentile */
	while (step < STEPS && seen < TAIL * (n1 + n2))
		seen += (double)c1[step] + (double)c2[step], step++;
	for (unsigned i = step; i < STEPS; i++) {
		k1 += c1[i];
		k2 += c2[i];
	}
	ret->tail1 = k1 / n1;
	ret->tail2 = k2 / n2;
	share = (k1 + k2) / (n1 + n2);
	if (share * n1 < TAIL_CALLS || share * n2 < TAIL_CALLS)
		return;
	ret->tail = two_sided(ret->tail2 - ret->tail1,
			      share * (1 - share) *
				      (tail_effect(d1, c1, ret->n1, step) / n1 +
				       tail_effect(d2, c2, ret->n2, step) / n2));
}

int ip_compare(const struct ip_durations *first, const struct ip_durations *second,
	       struct ip_comparison *ret)
{
	_cleanup_free_ uint64_t *c1 = NULL, *c2 = NULL;

	*ret = (struct ip_comparison){.superior = 0.5, .location = NAN, .tail = NAN};
	c1 = counts_of(first, &ret->n1);
	c2 = c1 ? counts_of(second, &ret->n2) : NULL;
	if (!c2)
		return -1;
	if (ret->n1 < IP_COMPARE_MIN || ret->n2 < IP_COMPARE_MIN)
		return 0;
	compare_location(first, c1, second, c2, ret);
	if (first->histogram && second->histogram)
		compare_tail(first, c1, second, c2, ret);
	return 0;
}

struct ranked {
	double p;
	size_t index;
};

static int by_p(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->p < y->p ? -1 : x->p > y->p;
}

int ip_compare_adjust(const double *p, size_t n, double *ret_q)
{
	_cleanup_free_ struct ranked *ranked = calloc(n + 1, sizeof(*ranked));
	double least = 1;
	size_t m = 0;

	if (!ranked)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		ret_q[i] = NAN;
		if (!isnan(p[i]))
			ranked[m++] = (struct ranked){p[i], i};
	}
	qsort(ranked, m, sizeof(*ranked), by_p);
	for (size_t i = m; i--;) {
		double q = ranked[i].p * m / (i + 1);

		least = q < least ? q : least;
		ret_q[ranked[i].index] = least;
	}
	return 0;
}
