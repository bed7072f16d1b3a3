/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search. At a node there is a table with a row for each operation and a column for each
 * candidate: column 0 is the node's own residue, the others are its callees.
 */
#include "analysis/darc/root_causes.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/darc/candidates.h"
#include "analysis/darc/chance.h"
#include "common/array.h"
#include "common/error.h"

struct finder {
	const struct ip_ftree *ftree;
	const struct ip_root_causes_options *options;
	size_t noperations; /* of the peak */
	struct ip_root_causes *found;
};

static int add_cause(struct finder *f, uint32_t node, enum ip_darc_stop stop,
		     struct ip_darc_sample *samples, size_t n,
		     const struct ip_darc_sample *reference, size_t nreference,
		     const struct ip_darc_loop *loop)
{
	struct ip_root_causes *r = f->found;
	struct ip_darc_cause c = {
		.node = node, .stop = stop, .samples = samples, .n = n, .loop = *loop};

	c.reference = calloc(nreference + 1, sizeof(*c.reference));
	if (!c.reference || ip_array_grow(&r->items, r->n, sizeof(c)) < 0) {
		free(samples);
		free(c.reference);
		return ip_error("out of memory");
	}
	if (nreference)
		memcpy(c.reference, reference, nreference * sizeof(*reference));
	c.share = f->noperations ? (double)n / f->noperations : 0;
	r->items[r->n++] = c;

	return 0;
}

/* The operations that a candidate is the cause of. The caller frees the array; NULL with an error.
 */
static struct ip_darc_sample *samples_of(const struct ip_candidates *c, size_t column,
					 size_t *ret_n)
{
	struct ip_darc_sample *samples = calloc(c->n + 1, sizeof(*samples));

	*ret_n = 0;
	if (!samples)
		ip_error("out of memory");
	for (size_t i = 0; samples && i < c->n; i++)
		if (c->chosen[i] == column) {
			samples[*ret_n] = c->samples[i];
			if (column && c->columns[column].node != IP_CANDIDATE_QUEUE)
				samples[*ret_n].call =
					ip_darc_callee(c->samples[i].call, c->columns[column].node);
			++*ret_n;
		}
	return samples;
}

/* The calls of a callee in the reference. */
static struct ip_darc_sample *reference_of(const struct ip_candidates *c, size_t column)
{
	struct ip_darc_sample *samples = calloc(c->nreference + 1, sizeof(*samples));

	if (!samples)
		ip_error("out of memory");
	for (size_t i = 0; samples && i < c->nreference; i++) {
		samples[i] = c->reference[i];
		samples[i].call = ip_darc_callee(samples[i].call, c->columns[column].node);
	}
	return samples;
}

static void keep_figures(struct finder *f, uint32_t node, const struct ip_candidates *c)
{
	struct ip_darc_figures *own = &f->found->figures[node];

	own->own = c->columns[0].longest;
	own->reference_own = c->columns[0].reference_longest;
	own->own_maxcount = c->columns[0].maxcount;
	for (size_t i = 1; i < c->ncolumns; i++) {
		const struct ip_candidate *from = &c->columns[i];

		if (from->node == IP_CANDIDATE_QUEUE)
			continue;

		f->found->figures[from->node] =
			(struct ip_darc_figures){.looked = true,
						 .operations = c->n,
						 .maxcount = from->maxcount,
						 .calls = from->calls,
						 .longest = from->longest,
						 .sum = from->sum,
						 .reference_calls = from->reference_calls,
						 .reference_longest = from->reference_longest,
						 .reference_sum = from->reference_sum};
	}
	if (c->ncolumns > f->found->functions)
		f->found->functions = c->ncolumns;
}

static int descend(struct finder *f, uint32_t node, const struct ip_darc_sample *samples, size_t n,
		   const struct ip_darc_sample *reference, size_t nreference);

/* A candidate is a root cause. */
static int follow(struct finder *f, uint32_t node, const struct ip_candidates *c, size_t column)
{
	const struct ip_candidate *cause = &c->columns[column];
	struct ip_darc_loop loop = {.node = IP_FTREE_NONE};
	struct ip_darc_sample *samples, *reference;
	size_t n;
	int ret;

	samples = samples_of(c, column, &n);
	if (!samples)
		return -1;
	if (!n) { /* others of its bin were always larger */
		free(samples);
		return 0;
	}
	if (cause->node == IP_CANDIDATE_QUEUE)
		return add_cause(f, node, IP_DARC_PREEMPTED, samples, n, c->reference,
				 c->nreference, &loop);
	if (!column) {
		ip_candidates_loop(c, &loop);
		return add_cause(f, node, IP_DARC_OWN, samples, n, c->reference, c->nreference,
				 &loop);
	}
	reference = reference_of(c, column);
	if (!reference) {
		free(samples);
		return -1;
	}
	if (f->ftree->nodes[cause->node].depth >= f->options->depth) {
		ret = add_cause(f, cause->node, IP_DARC_DEPTH, samples, n, reference, c->nreference,
				&loop);
	} else {
		ret = descend(f, cause->node, samples, n, reference, c->nreference);
		free(samples);
	}
	free(reference);
	return ret;
}

static int descend(struct finder *f, uint32_t node, const struct ip_darc_sample *samples, size_t n,
		   const struct ip_darc_sample *reference, size_t nreference)
{
	struct ip_candidates c;
	int ret = ip_candidates_make(f->ftree, samples, n, reference, nreference,
				     f->options->ticks_per_ns, !node && f->options->queue,
				     f->options->peak_from, &c);

	if (ret == 0) {
		ip_candidates_decide(&c, f->options->maxcount_percent);
		keep_figures(f, node, &c);
	}
	if (ret == 0 && c.spread) {
		struct ip_darc_sample *all = calloc(n + 1, sizeof(*all));
		const struct ip_darc_loop none = {.node = IP_FTREE_NONE};

		ret = all ? 0 : ip_error("out of memory");
		if (ret == 0) {
			memcpy(all, samples, n * sizeof(*all));
			ret = add_cause(f, node, IP_DARC_SPREAD, all, n, reference, nreference,
					&none);
		}
	} else {
		for (size_t i = 0; ret == 0 && i < c.ncolumns; i++)
			if (c.columns[i].cause)
				ret = follow(f, node, &c, i);
	}
	ip_candidates_clear(&c);
	return ret;
}

void ip_darc_cause_clear(struct ip_darc_cause *c)
{
	free(c->samples);
	free(c->reference);
}

/* Marks the nodes on the path of a cause. */
static void note_cause(struct ip_root_causes *r, const struct ip_ftree *ftree,
		       const struct ip_darc_cause *c)
{
	r->depth_reached |= c->stop == IP_DARC_DEPTH;
	for (uint32_t up = c->node; up != IP_FTREE_NONE; up = ftree->nodes[up].parent)
		r->figures[up].cause = true;
}

/* The operations with their calls of F0. */
static struct ip_darc_sample *all_samples(const struct ip_darc_operations *operations)
{
	struct ip_darc_sample *samples = calloc(operations->n + 1, sizeof(*samples));

	for (size_t i = 0; samples && i < operations->n; i++)
		samples[i] =
			(struct ip_darc_sample){&operations->items[i], operations->items[i].call};
	return samples;
}

int ip_root_causes_find(const struct ip_ftree *ftree, const struct ip_darc_operations *peak,
			const struct ip_darc_operations *reference,
			const struct ip_root_causes_options *options, struct ip_root_causes *ret)
{
	struct finder f = {
		.ftree = ftree, .options = options, .noperations = peak->n, .found = ret};
	struct ip_darc_sample *samples = all_samples(peak), *others = all_samples(reference);
	int code = -1;

	*ret = (struct ip_root_causes){.nfigures = ftree->n};
	ret->figures = calloc(ftree->n, sizeof(*ret->figures));
	if (!samples || !others || !ret->figures)
		ip_error("out of memory");
	else
		code = descend(&f, 0, samples, peak->n, others, reference->n);
	free(samples);
	free(others);
	if (code == 0) {
		struct ip_darc_figures *first = &ret->figures[0];

		first->looked = true;
		first->operations = first->maxcount = peak->n;
		first->calls = first->reference_calls = 1;
		first->longest = first->sum = ip_candidates_mean(peak);
		first->reference_longest = first->reference_sum = ip_candidates_median(reference);
		code = ip_chance_give_up(ftree, peak, reference, options->maxcount_percent,
					 options->keeps_chance, ret);
		for (size_t i = 0; i < ret->n; i++)
			note_cause(ret, ftree, &ret->items[i]);
	}
	return code;
}

void ip_root_causes_clear(struct ip_root_causes *r)
{
	for (size_t i = 0; i < r->n; i++)
		ip_darc_cause_clear(&r->items[i]);
	free(r->items);
	free(r->figures);
	*r = (struct ip_root_causes){0};
}
