/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up. Sums are of differences from the mean: those of squares would lose their digits.
 */
#include "analysis/darc/variance.h"

#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

#define PAIR_SHARE 0.01

static int by_share(const void *left, const void *right)
{
	const struct ip_node_variance *a = left, *b = right;

	if (a->share != b->share)
		return a->share > b->share ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

static int by_variance(const void *left, const void *right)
{
	const struct ip_node_variance *a = left, *b = right;

	return a->variance != b->variance ? (a->variance > b->variance ? -1 : 1) : 0;
}

static int by_size(const void *left, const void *right)
{
	const double a = fabs(((const struct ip_node_covariance *)left)->share),
		     b = fabs(((const struct ip_node_covariance *)right)->share);

	return a != b ? (a > b ? -1 : 1) : 0;
}

/* Means and variances of the nodes, and their covariances with the latency. */
static void find_nodes(const struct ip_darc_operations *o, struct ip_variances *r)
{
	struct ip_node_variance *v = r->nodes;

	for (size_t i = 0; i < o->n; i++) {
		r->mean += (double)o->items[i].ticks / o->n;
		for (size_t k = 0; k < o->items[i].nown; k++)
			v[o->items[i].own[k].node].mean += (double)o->items[i].own[k].ticks / o->n;
	}
	/* an operation without a node: that took 0 ticks */
	for (size_t i = 0; i < o->n; i++) {
		const double latency = o->items[i].ticks - r->mean;

		r->variance += latency * latency / o->n;
		for (size_t k = 0; k < o->items[i].nown; k++) {
			struct ip_node_variance *x = &v[o->items[i].own[k].node];
			const double ticks = o->items[i].own[k].ticks;

			x->variance += ticks * (ticks - 2 * x->mean) / o->n;
			x->share += ticks * latency / o->n;
		}
	}
	for (size_t i = 0; i < r->n; i++) {
		v[i].variance = fmax(0, v[i].variance + v[i].mean * v[i].mean);
		v[i].share = r->variance > 0 ? v[i].share / r->variance : 0;
	}
}

/* Covariances of the nodes with the largest variances. column: by node, its number among these
 * plus one; 0: it is none. */
static int find_pairs(const struct ip_darc_operations *o, struct ip_variances *r,
		      const uint8_t *column, size_t n)
{
	double *sums = calloc(n * n + 1, sizeof(*sums));

	if (!sums)
		return ip_error("out of memory");
	for (size_t i = 0; i < o->n; i++) {
		double x[IP_VARIANCE_PAIRED];

		for (size_t k = 0; k < n; k++)
			x[k] = -r->nodes[k].mean;
		for (size_t k = 0; k < o->items[i].nown; k++) {
			const struct ip_darc_own *own = &o->items[i].own[k];

			if (column[own->node])
				x[column[own->node] - 1] += own->ticks;
		}
		for (size_t a = 0; a < n; a++)
			for (size_t b = a + 1; b < n; b++)
				sums[a * n + b] += x[a] * x[b] / o->n;
	}
	for (size_t a = 0; a < n; a++)
		for (size_t b = a + 1; b < n; b++) {
			const struct ip_node_covariance pair = {
				r->nodes[a].node, r->nodes[b].node,
				r->variance > 0 ? 2 * sums[a * n + b] / r->variance : 0};

			if (fabs(pair.share) < PAIR_SHARE)
				continue;
			if (ip_array_grow(&r->pairs, r->npairs, sizeof(pair)) < 0) {
				free(sums);
				return -1;
			}
			r->pairs[r->npairs++] = pair;
		}
	free(sums);
	if (r->npairs)
		qsort(r->pairs, r->npairs, sizeof(*r->pairs), by_size);
	return 0;
}

int ip_variances_find(const struct ip_ftree *ftree, const struct ip_darc_operations *o,
		      struct ip_variances *ret)
{
	uint8_t *column = calloc(ftree->n, sizeof(*column));
	size_t n = ftree->n < IP_VARIANCE_PAIRED ? ftree->n : IP_VARIANCE_PAIRED;
	int code;

	*ret = (struct ip_variances){.operations = o->n, .n = ftree->n};
	ret->nodes = calloc(ftree->n, sizeof(*ret->nodes));
	if (!column || !ret->nodes) {
		free(column);
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < ftree->n; i++)
		ret->nodes[i].node = i;
	find_nodes(o, ret);
	qsort(ret->nodes, ret->n, sizeof(*ret->nodes), by_variance);
	for (size_t i = 0; i < n; i++)
		column[ret->nodes[i].node] = i + 1;
	code = find_pairs(o, ret, column, n);
	free(column);
	qsort(ret->nodes, ret->n, sizeof(*ret->nodes), by_share);
	return code;
}

void ip_variances_clear(struct ip_variances *v)
{
	free(v->nodes);
	free(v->pairs);
	*v = (struct ip_variances){0};
}
