/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells causes from chance. Causes are judged by call path: one that is called at several places
 * has a node for each, and what is significant of all of them may not be so of each.
 */
#include "analysis/darc/chance.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/darc/candidates.h"
#include "common/error.h"

/* So improbable is it by chance that a cause is as frequent; and its odds are so many times those
 * of a hit. */
#define IMPROBABLE 0.01
#define ODDS	   2.0
/* The same of what was taken for chance before others were found: it is judged again. */
#define IMPROBABLE_AGAIN 0.001
/* Where more operations are to come, a cause of so many may turn out to be one. */
#define FEW 3u
/* What has as much of the time is where a hit would be, too: of so many operations nothing else can
 * be the cause. */
#define ALMOST_ALL 0.9
#define HALF	   0.5

/* The causes of one call path. */
struct group {
	uint32_t node; /* of one of them */
	enum ip_darc_stop stop;
	size_t n;    /* operations */
	double time; /* the part of all time in which a hit would be of this path; 0..1 */
	bool chance;
};

struct judge {
	const struct ip_ftree *ftree;
	const struct ip_darc_operations *peak;
	struct ip_root_causes *causes;
	struct group *groups;
	size_t ngroups;
	/* by node: its part of the time, with what it calls: in most of the reference, and of the
	 * peak what is not of the longest calls */
	double *usual, *beside;
};

/* 0: a call; else IP_FTREE_QUEUED or IP_FTREE_SERVED. */
static uint64_t where(const struct ip_ftree *t, uint32_t node)
{
	return ip_ftree_is_elsewhere(&t->nodes[node]) ? t->nodes[node].call_site : 0;
}

static bool same_path(const struct ip_ftree *t, uint32_t a, uint32_t b)
{
	if (t->nodes[a].depth != t->nodes[b].depth)
		return false;
	while (a != b && a != IP_FTREE_NONE && t->nodes[a].function == t->nodes[b].function &&
	       where(t, a) == where(t, b)) {
		a = t->nodes[a].parent;
		b = t->nodes[b].parent;
	}
	return a == b;
}

/* Takes off what belongs to the longest calls alone. */
static void take_off(double *ticks, const struct ip_darc_call *call)
{
	for (; call; call = call->next) {
		ticks[call->node] -= call->ticks > call->inside ? call->ticks - call->inside : 0;
		take_off(ticks, call->callees);
	}
}

/* The part of the time of each node, with its callees. beside: without the longest calls. ret: by
 * node, all 0. */
static void find_times(const struct ip_ftree *t, const struct ip_darc_operations *o, bool beside,
		       double *ret)
{
	double all = 0;

	for (size_t i = 0; i < o->n; i++) {
		const struct ip_darc_operation *operation = &o->items[i];

		all += (double)(operation->ticks - operation->queued);
		for (size_t k = 0; k < operation->nown; k++)
			ret[operation->own[k].node] += (double)operation->own[k].ticks;
		if (beside && operation->nown)
			take_off(ret, operation->call);
	}
	for (size_t i = 0; i < t->n; i++)
		ret[i] = all > 0 && ret[i] > 0 ? ret[i] / all : 0;
	/* a node stands behind the one above it */
	for (size_t i = t->n; i-- > 1;)
		ret[t->nodes[i].parent] += ret[i];
}

/* Parts of the time, each as another measure of it tells. */
struct parts {
	double usual, beside; /* means */
	double figure;	      /* a median */
};

/* Adds the part of the time that a node has: with its callees where these are not told apart. */
static void add_parts(const struct judge *j, uint32_t node, enum ip_darc_stop stop,
		      struct parts *parts)
{
	const struct ip_darc_figures *f = &j->causes->figures[node];
	const double all = j->causes->figures[0].reference_longest;

	parts->usual += j->usual[node];
	parts->beside += j->beside[node];
	for (size_t i = node + 1; stop == IP_DARC_OWN && i < j->ftree->n; i++)
		if (j->ftree->nodes[i].parent == node) {
			parts->usual -= j->usual[i];
			parts->beside -= j->beside[i];
		}
	if (all > 0)
		parts->figure +=
			(stop == IP_DARC_OWN ? f->reference_own : f->reference_longest) / all;
}

/* The part of the time that a path has. Of several nodes no more than one measure tells of all of
 * them: the largest one of each would be more than there is. */
static double time_of(const struct judge *j, const struct group *g)
{
	struct parts parts = {0};

	for (uint32_t i = 0; i < j->ftree->n; i++)
		if (same_path(j->ftree, i, g->node))
			add_parts(j, i, g->stop, &parts);
	return fmax(fmax(parts.usual, parts.beside), parts.figure);
}

static void make_groups(struct judge *j)
{
	struct ip_root_causes *r = j->causes;

	for (size_t i = 0; i < r->n; i++) {
		struct ip_darc_cause *c = &r->items[i];
		size_t g = 0;

		while (g < j->ngroups && (j->groups[g].stop != c->stop ||
					  !same_path(j->ftree, j->groups[g].node, c->node)))
			g++;
		if (g == j->ngroups)
			j->groups[j->ngroups++] = (struct group){.node = c->node, .stop = c->stop};
		j->groups[g].n += c->n;
		c->path = g;
	}
	/* hits are where the function is not a cause, too */
	for (size_t g = 0; g < j->ngroups; g++)
		j->groups[g].time = time_of(j, &j->groups[g]);
}

/* How probable it is that of n operations so many or more are hit, of which each is with a
 * probability. */
static double tail(size_t hits, size_t n, double probability)
{
	double sum = 0;

	if (!hits || probability >= 1)
		return 1;
	if (probability <= 0)
		return 0;
	for (size_t k = hits; k <= n; k++)
		sum += exp(lgamma((double)n + 1) - lgamma((double)k + 1) -
			   lgamma((double)(n - k) + 1) + (double)k * log(probability) +
			   (double)(n - k) * log1p(-probability));
	return sum;
}

/* rest: of the operations, those that other causes leave. remaining: of the time, likewise. */
static bool may_be_chance(const struct judge *j, const struct group *g, size_t rest,
			  double remaining, double improbable)
{
	const double share = (double)g->n / (double)j->peak->n,
		     left = rest ? (double)g->n / (double)rest : 1,
		     time = g->time < remaining ? g->time / remaining : 1;

	/* the kernel tells that one; and those that are gone on with are judged in the end */
	if (g->stop == IP_DARC_PREEMPTED || g->stop == IP_DARC_DEPTH || !g->time)
		return false;
	if (time >= ALMOST_ALL && share >= HALF)
		return false;
	return tail(g->n, rest, time) > improbable || left * (1 - time) < ODDS * time * (1 - left);
}

static int by_share(const void *left, const void *right, void *context)
{
	const struct ip_darc_cause *a = left, *b = right;
	const struct group *groups = context;

	if (a->path != b->path && groups[a->path].n != groups[b->path].n)
		return groups[a->path].n > groups[b->path].n ? -1 : 1;
	if (a->path != b->path)
		return a->path < b->path ? -1 : 1;
	if (a->n != b->n)
		return a->n > b->n ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

/* How many operations count where others are compared with a cause. */
static size_t weight_of(const struct group *g)
{
	return g->stop == IP_DARC_PREEMPTED ? g->n / IP_CANDIDATE_QUEUE_PART : g->n;
}

/* Judges the paths of the causes, which are sorted. What a cause that is found leaves of the
 * operations and of the time is what the others are judged by: of two that are as frequent, one may
 * have so much of the time that it is told from chance behind the other one only. */
static void judge_groups(struct judge *j, double percent, size_t least)
{
	const struct ip_root_causes *r = j->causes;
	size_t rest = j->peak->n, most = 0;
	double remaining = 1, improbable = IMPROBABLE;
	bool found = true;

	for (size_t g = 0; g < j->ngroups; g++)
		j->groups[g].chance = true;
	while (found) {
		found = false;
		for (size_t i = 0; i < r->n; i++) {
			struct group *g = &j->groups[r->items[i].path];

			if (!g->chance || may_be_chance(j, g, rest, remaining, improbable))
				continue;
			g->chance = false;
			if (g->n < least || 100.0 * (double)g->n < percent * (double)most)
				continue;
			most = weight_of(g) > most ? weight_of(g) : most;
			if (g->stop == IP_DARC_SPREAD)
				continue;
			rest -= g->n;
			/* what takes a CPU away has no time of its own */
			if (g->stop != IP_DARC_PREEMPTED)
				remaining -= g->time < remaining ? g->time : remaining;
			found = true;
		}
		improbable = IMPROBABLE_AGAIN;
	}
}

/* The causes are sorted. */
static void give_up(struct judge *j, double percent, bool keeps)
{
	struct ip_root_causes *r = j->causes;
	size_t left = 0, most = 0, path = SIZE_MAX, of_path = 0;
	bool gone = false;

	/* what is frequent in the node above it may be rare after all */
	judge_groups(j, percent, keeps ? FEW : IP_DARC_CALLS);
	for (size_t i = 0; i < r->n; i++) {
		struct ip_darc_cause *c = &r->items[i];
		const struct group *g = &j->groups[c->path];

		if (c->path != path) {
			path = c->path;
			of_path = c->n;
			gone = g->n < (keeps && !g->chance ? FEW : IP_DARC_CALLS) ||
			       (g->chance && !keeps) ||
			       100.0 * (double)g->n < percent * (double)most;
			if (!gone && !g->chance)
				most = weight_of(g) > most ? weight_of(g) : most;
		}
		c->chance = g->chance;
		if (gone || 100.0 * (double)c->n < percent * (double)of_path) {
			ip_darc_cause_clear(c);
			continue;
		}
		r->items[left++] = *c;
	}
	r->n = left;
}

int ip_chance_give_up(const struct ip_ftree *ftree, const struct ip_darc_operations *peak,
		      const struct ip_darc_operations *reference, double percent, bool keeps,
		      struct ip_root_causes *causes)
{
	struct judge j = {.ftree = ftree,
			  .peak = peak,
			  .causes = causes,
			  .groups = calloc(causes->n + 1, sizeof(*j.groups)),
			  .usual = calloc(ftree->n, sizeof(*j.usual)),
			  .beside = calloc(ftree->n, sizeof(*j.beside))};
	const bool there = j.groups && j.usual && j.beside;

	if (there) {
		find_times(ftree, reference, false, j.usual);
		find_times(ftree, peak, true, j.beside);
		make_groups(&j);
		if (causes->n)
			qsort_r(causes->items, causes->n, sizeof(*causes->items), by_share,
				j.groups);
		give_up(&j, percent, keeps);
	}
	free(j.groups);
	free(j.usual);
	free(j.beside);
	return there ? 0 : ip_error("out of memory");
}
