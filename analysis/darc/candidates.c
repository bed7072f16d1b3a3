/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares candidates.
 */
#include "analysis/darc/candidates.h"

#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

/* Causes explain so much of what the samples are slower by, at least. */
#define EXPLAINED 0.5
/* The samples are slower in proportion where what each candidate is slower by differs so little
 * from its share of the time, altogether; and so many have a tenth of the time at least. */
#define PROPORTION   0.15
#define SUBSTANTIAL  0.1
#define SUBSTANTIALS 3u

static int by_value(const void *left, const void *right)
{
	const double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static double median(double *values, size_t n)
{
	if (!n)
		return 0;
	qsort(values, n, sizeof(*values), by_value);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static double own_of(const struct ip_darc_call *call)
{
	return call && call->ticks > call->inside ? call->ticks - call->inside : 0;
}

/* The column of a callee. */
static size_t find(const struct ip_candidates *c, uint32_t node)
{
	size_t i = 1;

	while (i < c->ncolumns && c->columns[i].node != node)
		i++;
	return i;
}

static int add_column(struct ip_candidates *c, uint32_t node)
{
	if (ip_array_grow(&c->columns, c->ncolumns, sizeof(*c->columns)) < 0)
		return -1;
	c->columns[c->ncolumns++] = (struct ip_candidate){.node = node};
	return 0;
}

/* Fills in the medians of the reference. values: room for it. */
static void find_medians(struct ip_candidates *c, struct ip_candidate *column, double *values)
{
	const size_t n = c->nreference;
	const bool own = column->node == IP_FTREE_NONE, queue = column->node == IP_CANDIDATE_QUEUE;
	size_t called = 0;

	for (int what = 0; what < (own || queue ? 1 : 3); what++) {
		for (size_t i = 0; i < n; i++) {
			const struct ip_darc_call *call = c->reference[i].call, *callee;

			callee = own ? NULL : ip_darc_callee(call, column->node);
			values[i] = own		? own_of(call)
				    : queue	? c->reference[i].operation->queued
				    : !callee	? 0
				    : what == 0 ? callee->ticks
				    : what == 1 ? callee->sum
						: callee->count;
		}
		*(what == 0   ? &column->reference_longest
		  : what == 1 ? &column->reference_sum
			      : &column->reference_calls) = median(values, n);
	}
	for (size_t i = 0; !own && !queue && i < n; i++) {
		const struct ip_darc_call *callee =
			ip_darc_callee(c->reference[i].call, column->node);

		if (callee)
			values[called++] = (double)callee->sum / callee->count;
	}
	column->reference_each = median(values, called);
}

int ip_candidates_make(const struct ip_ftree *ftree, const struct ip_darc_sample *samples, size_t n,
		       const struct ip_darc_sample *reference, size_t nreference,
		       double ticks_per_ns, bool queue, double peak_from, struct ip_candidates *ret)
{
	double *values = calloc(nreference + 1, sizeof(*values));

	*ret = (struct ip_candidates){.samples = samples,
				      .reference = reference,
				      .n = n,
				      .nreference = nreference,
				      .ticks_per_ns = ticks_per_ns,
				      .queue = queue,
				      .peak_from = peak_from};
	ret->chosen = calloc(n + 1, sizeof(*ret->chosen));
	if (!values || !ret->chosen || add_column(ret, IP_FTREE_NONE) < 0 ||
	    (queue && add_column(ret, IP_CANDIDATE_QUEUE) < 0)) {
		free(values);
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < n; i++) {
		const struct ip_darc_call *call = samples[i].call;

		ret->columns[0].longest += own_of(call);
		if (queue)
			ret->columns[1].longest += samples[i].operation->queued;
		for (const struct ip_darc_call *callee = call ? call->callees : NULL; callee;
		     callee = callee->next) {
			const size_t at = find(ret, callee->node);

			if (at == ret->ncolumns && add_column(ret, callee->node) < 0) {
				free(values);
				return -1;
			}
			ret->columns[at].longest += callee->ticks;
			ret->columns[at].sum += callee->sum;
			ret->columns[at].calls += callee->count;
		}
	}
	for (size_t i = 0; i < ret->ncolumns; i++) {
		struct ip_candidate *column = &ret->columns[i];

		column->longest /= n ? n : 1;
		column->sum /= n ? n : 1;
		column->calls /= n ? n : 1;
		find_medians(ret, column, values);
	}
	free(values);
	return 0;
}

/* What of a sample counts for a column: what the longest call, or the residue, is longer than in
 * the reference. *ret_loop: the same of the other calls of a callee. */
static double excess_of(const struct ip_candidates *c, size_t column,
			const struct ip_darc_sample *sample, double *ret_loop)
{
	const struct ip_candidate *x = &c->columns[column];
	const struct ip_darc_call *callee;
	double loop;

	*ret_loop = 0;
	if (!column)
		return fmax(0, own_of(sample->call) - x->reference_longest);
	if (x->node == IP_CANDIDATE_QUEUE)
		return c->peak_from > 0 && (double)(sample->operation->ticks -
						    sample->operation->queued) >= c->peak_from
			       ? 0
			       : fmax(0, sample->operation->queued - x->reference_longest);
	callee = ip_darc_callee(sample->call, x->node);
	if (!callee)
		return 0;
	loop = fmax(0, (double)(callee->sum - callee->ticks) -
			       fmax(0, x->reference_sum - x->reference_longest));
	/* its calls are slower, more than that there are more of them: so it is the callee */
	if (loop > 0 && x->reference_calls > 0 && x->reference_each > 0 &&
	    (double)callee->sum / callee->count / x->reference_each >=
		    callee->count / x->reference_calls)
		return fmax(0, (double)callee->sum - x->reference_sum);
	*ret_loop = loop;
	return fmax(0, (double)callee->ticks - x->reference_longest);
}

/* The bin of a time. */
static int bin_of(const struct ip_candidates *c, double ticks)
{
	const double ns = ticks / c->ticks_per_ns;

	return ns < 1 ? 0 : (int)floor(log2(ns));
}

/* The residue of a sample: what the function takes itself, and its loops. *ret_loop: the column of
 * the longest loop; 0: there is none. */
static double residue_of(const struct ip_candidates *c, const struct ip_darc_sample *sample,
			 size_t *ret_loop)
{
	double unused, most = 0, residue = excess_of(c, 0, sample, &unused);

	*ret_loop = 0;
	for (size_t i = 1; i < c->ncolumns; i++) {
		double loop;

		excess_of(c, i, sample, &loop);
		residue += loop;
		if (loop > most) {
			most = loop;
			*ret_loop = i;
		}
	}
	*ret_loop = most > residue / 2 ? *ret_loop : 0;
	return residue;
}

/* Counts the candidates in the bin of the largest one of a sample. Returns what they are slower by
 * together. */
static double count_sample(struct ip_candidates *c, const struct ip_darc_sample *sample)
{
	size_t loop;
	const double residue = residue_of(c, sample, &loop);
	double most = residue, unused, explained = 0;
	int bin;

	for (size_t i = 1; i < c->ncolumns; i++)
		most = fmax(most, excess_of(c, i, sample, &unused));
	if (most <= 0)
		return 0;
	bin = bin_of(c, most);
	for (size_t i = 0; i < c->ncolumns; i++) {
		const double x = i ? excess_of(c, i, sample, &unused) : residue;

		c->columns[i].excess += x;
		if (x <= 0 || bin_of(c, x) != bin)
			continue;
		c->columns[i].maxcount++;
		explained += x;
		if (!i)
			c->columns[loop].looped += loop > 0;
	}
	return explained;
}

/* Of a sample: the cause with the largest part in it; SIZE_MAX: none has one. */
static size_t choose(const struct ip_candidates *c, const struct ip_darc_sample *sample)
{
	size_t best = SIZE_MAX, loop;
	double most = 0, unused, cut = 0;

	for (size_t i = 0; i < c->ncolumns; i++) {
		const double x =
			i ? excess_of(c, i, sample, &unused) : residue_of(c, sample, &loop);

		cut = fmax(cut, x);
		if (c->columns[i].cause && x > most) {
			most = x;
			best = i;
		}
	}
	return best != SIZE_MAX && bin_of(c, most) == bin_of(c, cut) ? best : SIZE_MAX;
}

/* Whether the candidates are slower in proportion to the time that they take in the reference. */
static bool in_proportion(const struct ip_candidates *c)
{
	double time = 0, excess = 0, apart = 0;
	size_t substantial = 0;

	for (size_t i = 0; i < c->ncolumns; i++) {
		if (c->columns[i].node == IP_CANDIDATE_QUEUE)
			continue;
		time += i ? c->columns[i].reference_sum : c->columns[i].reference_longest;
		excess += c->columns[i].excess;
	}
	if (time <= 0 || excess <= 0)
		return false;
	for (size_t i = 0; i < c->ncolumns; i++) {
		if (c->columns[i].node == IP_CANDIDATE_QUEUE)
			continue;
		const double share =
			(i ? c->columns[i].reference_sum : c->columns[i].reference_longest) / time;

		substantial += share >= SUBSTANTIAL;
		apart += fabs(share - c->columns[i].excess / excess) / 2;
	}
	return substantial >= SUBSTANTIALS && apart < PROPORTION;
}

void ip_candidates_decide(struct ip_candidates *c, double percent)
{
	double unused, explained = 0, *ticks = calloc(c->nreference + 1, sizeof(*ticks)), usual = 0;
	uint64_t most = 0;

	for (size_t i = 0; ticks && i < c->nreference; i++)
		ticks[i] = c->reference[i].call ? c->reference[i].call->ticks : 0;
	if (ticks)
		usual = median(ticks, c->nreference);
	free(ticks);
	for (size_t i = 0; i < c->n; i++) {
		const struct ip_darc_call *call = c->samples[i].call;

		c->excess += call && call->ticks > usual ? call->ticks - usual : 0;
		explained += count_sample(c, &c->samples[i]);
		if (c->queue)
			c->excess += excess_of(c, 1, &c->samples[i], &unused);
	}
	for (size_t i = 0; i < c->ncolumns; i++) {
		const uint64_t weight = c->columns[i].node == IP_CANDIDATE_QUEUE
						? c->columns[i].maxcount / IP_CANDIDATE_QUEUE_PART
						: c->columns[i].maxcount;

		most = weight > most ? weight : most;
	}
	for (size_t i = 0; i < c->ncolumns; i++)
		c->columns[i].cause = c->columns[i].maxcount &&
				      (double)c->columns[i].maxcount * 100 >= percent * most;
	for (size_t i = 0; i < c->n; i++)
		c->chosen[i] = choose(c, &c->samples[i]);
	c->spread = c->nreference && c->ncolumns > 1 &&
		    (explained < EXPLAINED * c->excess || in_proportion(c));
}

void ip_candidates_loop(const struct ip_candidates *c, struct ip_darc_loop *ret)
{
	const struct ip_candidate *best = NULL;

	for (size_t i = 1; i < c->ncolumns; i++)
		if (c->columns[i].looped && (!best || c->columns[i].looped > best->looped))
			best = &c->columns[i];
	*ret = (struct ip_darc_loop){.node = IP_FTREE_NONE};
	if (!best || 2 * best->looped < c->columns[0].maxcount)
		return;
	*ret = (struct ip_darc_loop){.node = best->node,
				     .calls = best->calls,
				     .reference_calls = best->reference_calls,
				     .ticks = best->sum,
				     .reference_ticks = best->reference_sum};
}

double ip_candidates_mean(const struct ip_darc_operations *o)
{
	double sum = 0;

	for (size_t i = 0; i < o->n; i++)
		sum += o->items[i].ticks;
	return o->n ? sum / o->n : 0;
}

double ip_candidates_median(const struct ip_darc_operations *o)
{
	double *ticks = calloc(o->n + 1, sizeof(*ticks)), found = 0;

	for (size_t i = 0; ticks && i < o->n; i++)
		ticks[i] = o->items[i].ticks;
	if (ticks)
		found = median(ticks, o->n);
	free(ticks);
	return found;
}

void ip_candidates_clear(struct ip_candidates *c)
{
	free(c->columns);
	free(c->chosen);
	*c = (struct ip_candidates){0};
}
