/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes rows when they are needed, and reads percentiles out of them.
 */
#include "analysis/profile/histogram.h"

#include <math.h>
#include <string.h>

#include "common/error.h"

void ip_histogram_deinit(struct ip_histogram *h)
{
	for (unsigned i = 0; i < IP_HISTOGRAM_ROWS; i++)
		free(h->rows[i]);
	*h = (struct ip_histogram){0};
}

void ip_histogram_merge(struct ip_histogram *to, struct ip_histogram *from)
{
	for (unsigned i = 0; i < IP_HISTOGRAM_ROWS; i++) {
		uint32_t *a = to->rows[i], *b = from->rows[i];

		if (!a) {
			to->rows[i] = b;
			from->rows[i] = NULL;
			continue;
		}
		for (unsigned k = 0; b && k < IP_HISTOGRAM_STEPS; k++)
			a[k] = a[k] + b[k] < a[k] ? UINT32_MAX : a[k] + b[k];
	}
	to->count += from->count;
	to->dropped += from->dropped;
	ip_histogram_deinit(from);
}

int ip_histogram_copy(struct ip_histogram *to, const struct ip_histogram *from)
{
	for (unsigned i = 0; i < IP_HISTOGRAM_ROWS; i++) {
		if (!from->rows[i])
			continue;
		if (!ip_histogram_row(to, i))
			return ip_error("out of memory");
		memcpy(to->rows[i], from->rows[i], IP_HISTOGRAM_STEPS * sizeof(uint32_t));
	}
	to->count = from->count;
	to->dropped = from->dropped;
	return 0;
}

uint32_t *ip_histogram_row(struct ip_histogram *h, unsigned row)
{
	h->rows[row] = calloc(IP_HISTOGRAM_STEPS, sizeof(uint32_t));
	return h->rows[row];
}

/* Returns the middle of the values that a step stands for. */
static uint64_t value_of(unsigned row, unsigned step)
{
	uint64_t low, width;

	if (row == 0)
		return step;
	width = 1ull << (row - 1);
	low = (uint64_t)(IP_HISTOGRAM_STEPS + step) << (row - 1);
	return low + width / 2;
}

/* Returns the middle of the step that the value of a rank is in. */
static uint64_t value_of_rank(const struct ip_histogram *h, uint64_t rank)
{
	uint64_t seen = 0, last = 0;

	for (unsigned row = 0; row < IP_HISTOGRAM_ROWS; row++)
		for (unsigned step = 0; h->rows[row] && step < IP_HISTOGRAM_STEPS; step++) {
			if (!h->rows[row][step])
				continue;
			seen += h->rows[row][step];
			last = value_of(row, step);
			if (seen >= rank)
				return last;
		}
	return last;
}

uint64_t ip_histogram_percentile(const struct ip_histogram *h, double share, uint64_t min,
				 uint64_t max)
{
	const double wanted = ceil(share * (double)h->count);
	uint64_t value;

	if (!h->count)
		return 0;
	value = value_of_rank(h, wanted < 1 ? 1 : (uint64_t)wanted);
	return value < min ? min : value > max ? max : value;
}
