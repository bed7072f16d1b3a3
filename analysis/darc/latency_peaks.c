/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds peaks. Each local maximum of the histogram is a candidate. The lower of two candidates is
 * given up where no valley lies between them: what is left, from the least distinct on, are peaks.
 */
#include "analysis/darc/latency_peaks.h"

#include <math.h>

/* A difference of so many standard deviations is no chance. */
#define SIGNIFICANT 2.5
/* The core of a peak has bins with as many calls as its highest one, divided by this, or more. */
#define CORE 8u

/* 2^(1/4), 2^(2/4), 2^(3/4) */
static const double steps[IP_PEAK_STEPS] = {1, 1.189207115002721, 1.4142135623730951,
					    1.681792830507429};

uint64_t ip_peak_bin_from(unsigned bin)
{
	if (!bin)
		return 0;
	return bin < IP_PEAK_BINS ? (uint64_t)ceil(ldexp(steps[bin % IP_PEAK_STEPS],
							 (int)(bin / IP_PEAK_STEPS)))
				  : UINT64_MAX;
}

void ip_peak_bins_add(struct ip_peak_bins *b, uint64_t ns)
{
	unsigned bin = ns ? (63 - __builtin_clzll(ns)) * IP_PEAK_STEPS : 0;

	for (unsigned i = 1, first = bin; i < IP_PEAK_STEPS; i++)
		bin = ns >= ip_peak_bin_from(first + i) ? first + i : bin;
	b->calls[bin]++;
	b->total += ns;
	b->min = b->count && b->min < ns ? b->min : ns;
	b->max = b->max > ns ? b->max : ns;
	b->count++;
}

/* Bins of a width, and the candidates among them. */
struct search {
	uint64_t calls[IP_PEAK_BINS];
	unsigned n, width;
	unsigned tops[IP_PEAK_BINS];
	size_t ntops;
};

/* The lowest bin between two; of several the middle of those in the longest row. */
static unsigned valley(const struct search *s, unsigned left, unsigned right)
{
	unsigned lowest = left, first = left, length = 0;

	for (unsigned b = left; b <= right; b++)
		lowest = s->calls[b] < s->calls[lowest] ? b : lowest;
	for (unsigned b = lowest, from = b; b <= right; b++) {
		if (s->calls[b] != s->calls[lowest]) {
			from = b + 1;
		} else if (b + 1 - from > length) {
			length = b + 1 - from;
			first = from;
		}
	}
	return first + length / 2;
}

/* How much a candidate differs from the higher of the valleys beside it: 1 or more is a peak. */
static double distinct(const struct search *s, size_t i)
{
	const unsigned top = s->tops[i];
	double best = INFINITY;

	for (int side = 0; side < 2; side++) {
		unsigned other, v;
		double p, q, x;

		if (side ? i + 1 == s->ntops : i == 0)
			continue;
		other = s->tops[side ? i + 1 : i - 1];
		/* of two neighbours the lower one may have to go */
		if (s->calls[other] < s->calls[top])
			continue;
		v = side ? valley(s, top, other) : valley(s, other, top);
		p = s->calls[top];
		q = s->calls[v];
		x = log2((p + 1) / (q + 1));
		x = fmin(x, p > q ? (p - q) / (SIGNIFICANT * sqrt(p + q)) : 0);
		best = fmin(best, x);
	}
	return best;
}

static void find_tops(struct search *s)
{
	for (unsigned b = 0; b < s->n; b++) {
		const uint64_t before = b ? s->calls[b - 1] : 0,
			       behind = b + 1 < s->n ? s->calls[b + 1] : 0;

		if (s->calls[b] && s->calls[b] > before && s->calls[b] >= behind)
			s->tops[s->ntops++] = b;
	}
	while (s->ntops > 1) {
		double least = INFINITY;
		size_t found = 0;

		for (size_t i = 0; i < s->ntops; i++) {
			const double x = distinct(s, i);

			if (x < least) {
				least = x;
				found = i;
			}
		}
		if (least >= 1 && s->ntops <= IP_PEAKS_MOST)
			return;
		s->ntops--;
		for (size_t i = found; i < s->ntops; i++)
			s->tops[i] = s->tops[i + 1];
	}
}

/* The core of a peak, whose bins are these. */
static void find_core(const struct search *s, unsigned from, unsigned to, unsigned top,
		      struct ip_peak *p)
{
	const uint64_t least = (s->calls[top] + CORE - 1) / CORE;
	unsigned first = top, end = top + 1;

	while (first > from && s->calls[first - 1] >= least)
		first--;
	while (end < to && s->calls[end] >= least)
		end++;
	/* what slows a call down that is slow already is no other reason */
	end = end + IP_PEAK_STEPS / s->width < to ? end + IP_PEAK_STEPS / s->width : to;
	p->core_from_ns = ip_peak_bin_from(first * s->width);
	p->core_to_ns = ip_peak_bin_from(end * s->width);
	for (unsigned b = first; b < end; b++)
		p->core_count += s->calls[b];
}

static void find_at(const struct ip_peak_bins *bins, unsigned width, struct ip_peaks *ret)
{
	struct search s = {.n = IP_PEAK_BINS / width, .width = width};
	unsigned from = 0;

	for (unsigned b = 0; b < IP_PEAK_BINS; b++)
		s.calls[b / width] += bins->calls[b];
	find_tops(&s);
	*ret = (struct ip_peaks){.n = s.ntops, .steps = IP_PEAK_STEPS / width};
	for (size_t i = 0; i < s.ntops; i++) {
		struct ip_peak *p = &ret->items[i];
		const unsigned to = i + 1 < s.ntops ? valley(&s, s.tops[i], s.tops[i + 1]) : s.n;

		for (unsigned b = from; b < to; b++)
			p->count += s.calls[b];
		p->from_ns = ip_peak_bin_from(from * width);
		p->to_ns = ip_peak_bin_from(to * width);
		p->top_from_ns = ip_peak_bin_from(s.tops[i] * width);
		p->top_to_ns = ip_peak_bin_from((s.tops[i] + 1) * width);
		find_core(&s, from, to, s.tops[i], p);
		p->refused = p->count < IP_PEAK_SAMPLES;
		from = to;
	}
}

void ip_peaks_find(const struct ip_peak_bins *bins, struct ip_peaks *ret)
{
	find_at(bins, IP_PEAK_STEPS, ret);
	for (unsigned width = IP_PEAK_STEPS / 2; width && ip_peaks_count(ret) < 2; width /= 2) {
		struct ip_peaks finer;

		find_at(bins, width, &finer);
		if (ip_peaks_count(&finer) > 1)
			*ret = finer;
	}
}

const struct ip_peak *ip_peaks_number(const struct ip_peaks *peaks, size_t number)
{
	for (size_t i = 0; i < peaks->n; i++)
		if (!peaks->items[i].refused && --number == 0)
			return &peaks->items[i];
	return NULL;
}

size_t ip_peaks_count(const struct ip_peaks *peaks)
{
	size_t n = 0;

	for (size_t i = 0; i < peaks->n; i++)
		n += !peaks->items[i].refused;
	return n;
}
