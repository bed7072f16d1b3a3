/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a tree a parent has a lower index than its children. So one walk over the other tree's
 * nodes finds or makes the node for each.
 */
#include "analysis/profile/tree_compare.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"

static int compare_functions(const struct ip_recording *s, const struct ip_recording_function *f,
			     const struct ip_recording *other,
			     const struct ip_recording_function *g)
{
	int order = strcmp(f->linker_name, g->linker_name);

	return order ? order
		     : strcmp(ip_recording_module_name(s, f), ip_recording_module_name(other, g));
}

static int by_name(const void *a, const void *b, void *session)
{
	const struct ip_recording *s = session;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int order = compare_functions(s, &s->functions[x], s, &s->functions[y]);

	return order ? order : (x > y) - (x < y);
}

/* Returns all functions but the unknown one, sorted by name and module; session->nfunctions - 1
 * of them. */
static uint32_t *make_index(const struct ip_recording *s)
{
	uint32_t *index = calloc(s->nfunctions, sizeof(*index));

	for (uint32_t i = 1; index && i < s->nfunctions; i++)
		index[i - 1] = i;
	if (index && s->nfunctions > 1)
		qsort_r(index, s->nfunctions - 1, sizeof(*index), by_name, (void *)s);
	return index;
}

static bool is_same(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

/* Returns how alike two functions are that have the same name in modules of the same name. */
static unsigned likeness(const struct ip_recording *s, const struct ip_recording_function *f,
			 const struct ip_recording *other, const struct ip_recording_function *g)
{
	unsigned ret = is_same(f->file, g->file);

	if (f->module == IP_NO_MODULE || g->module == IP_NO_MODULE)
		return ret;
	return ret + 4 * is_same(s->modules[f->module].path, other->modules[g->module].path) +
	       2 * is_same(s->modules[f->module].build_id, other->modules[g->module].build_id);
}

/* Finds the function of s that is most like the other session's function g; of equally alike
 * functions the first. */
static uint32_t find_function(const struct ip_recording *s, const uint32_t *index,
			      const struct ip_recording *other,
			      const struct ip_recording_function *g)
{
	uint32_t low = 0, high = s->nfunctions - 1, found = UINT32_MAX;
	unsigned most = 0;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare_functions(s, &s->functions[index[middle]], other, g) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (;
	     low < s->nfunctions - 1 && !compare_functions(s, &s->functions[index[low]], other, g);
	     low++) {
		unsigned like = likeness(s, &s->functions[index[low]], other, g);

		if (found == UINT32_MAX || like > most) {
			found = index[low];
			most = like;
		}
	}
	return found;
}

/* Maps each function of other that occurs in tree to a function of session, or to a new number. */
static uint32_t *match_functions(struct ip_tree_compare *o, const struct ip_recording *session,
				 const struct ip_recording *other, const struct ip_calltree *tree)
{
	_cleanup_free_ bool *done = calloc(other->nfunctions, sizeof(*done));
	_cleanup_free_ uint32_t *index = make_index(session);
	uint32_t *match = calloc(other->nfunctions, sizeof(*match));

	o->functions = calloc(other->nfunctions, sizeof(*o->functions));
	if (!done || !index || !match || !o->functions) {
		free(match);
		ip_error("out of memory");
		return NULL;
	}
	for (uint32_t i = 1; i < tree->n; i++) {
		uint32_t function = tree->nodes[i].function;
		const struct ip_recording_function *f = &other->functions[function];

		if (done[function])
			continue;
		done[function] = true;
		/* function 0 is the unknown function in both sessions */
		if (function)
			match[function] = find_function(session, index, other, f);
		if (match[function] != UINT32_MAX)
			continue;
		match[function] = session->nfunctions + o->nfunctions;
		o->functions[o->nfunctions++] = function;
	}
	return match;
}

static int lay(struct ip_tree_compare *o, struct ip_calltree *tree, const struct ip_calltree *other,
	       const uint32_t *match)
{
	_cleanup_free_ uint32_t *place = malloc(other->n * sizeof(*place));

	/* the most nodes that there can be */
	o->nodes = calloc(tree->n + other->n, sizeof(*o->nodes));
	if (!place || !o->nodes)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < other->n; i++) {
		const struct ip_call_node *node = &other->nodes[i];

		place[i] =
			i ? ip_calltree_child(tree, place[node->parent], match[node->function]) : 0;
		if (place[i] == IP_NO_NODE)
			return -1;
		o->nodes[place[i]].total += node->total;
		o->nodes[place[i]].self += node->self;
	}
	return 0;
}

int ip_tree_compare_create(struct ip_calltree *tree, const struct ip_recording *session,
			   struct ip_trace_reader *other, const bool *roots,
			   struct ip_tree_compare **ret)
{
	const struct ip_calltree_options options = {.roots = roots};
	struct ip_tree_compare *o = calloc(1, sizeof(*o));
	_cleanup_free_ uint32_t *match = NULL;
	struct ip_calltree *others = NULL;
	int done = -1;

	if (!o)
		return ip_error("out of memory");
	if (ip_calltree_collect(other, &options, &others) == 0) {
		o->ticks = others->ticks;
		match = match_functions(o, session, other->session, others);
		done = match ? lay(o, tree, others, match) : -1;
		ip_calltree_destroy(others);
	}
	if (done < 0) {
		ip_tree_compare_destroy(o);
		return -1;
	}
	*ret = o;
	return 0;
}

void ip_tree_compare_destroy(struct ip_tree_compare *o)
{
	if (!o)
		return;
	free(o->nodes);
	free(o->functions);
	free(o);
}
