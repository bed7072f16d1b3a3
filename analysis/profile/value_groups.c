/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of groups by function and value.
 */
#include "analysis/profile/value_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/profile/value_choice.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

#define LOG2 "/log2"

struct ip_value_groups *ip_value_groups_create(const struct ip_recording *s, const char *dir,
					       const char *text)
{
	struct ip_value_groups *g = calloc(1, sizeof(*g));
	_cleanup_free_ char *name = strdup(text);
	size_t length = strlen(text), suffix = strlen(LOG2);

	if (g && name) {
		g->ranges = length > suffix && !strcmp(text + length - suffix, LOG2);
		if (g->ranges)
			name[length - suffix] = '\0';
		g->size = 1024;
		g->index = calloc(g->size, sizeof(*g->index));
		g->functions = calloc(s->nfunctions, sizeof(*g->functions));
	}
	if (!g || !name || !g->index || !g->functions)
		ip_error("out of memory");
	else if (ip_value_name_find(s, dir, name, &g->name) == 0)
		return g;
	ip_value_groups_destroy(g);
	return NULL;
}

void ip_value_groups_destroy(struct ip_value_groups *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n; i++) {
		free(g->items[i]->words);
		free(g->items[i]);
	}
	free(g->items);
	free(g->index);
	free(g->functions);
	ip_value_name_clear(&g->name);
	free(g);
}

static int grow_index(struct ip_value_groups *g)
{
	size_t size = 2 * g->size;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	for (size_t i = 0; i < g->size; i++) {
		size_t at;

		if (!g->index[i])
			continue;
		at = g->items[g->index[i] - 1]->hash & (size - 1);
		while (index[at])
			at = (at + 1) & (size - 1);
		index[at] = g->index[i];
	}
	free(g->index);
	g->index = index;
	g->size = size;
	return 0;
}

static uint32_t add(struct ip_value_groups *g, uint32_t function, const struct ip_value_key *key,
		    uint64_t hash)
{
	struct ip_value_group *group;

	if (g->n >= INT32_MAX || ip_array_grow(&g->items, g->n, sizeof(*g->items)) < 0)
		return UINT32_MAX;
	group = calloc(1, sizeof(*group));
	if (!group) {
		ip_error("out of memory");
		return UINT32_MAX;
	}
	*group = (struct ip_value_group){.function = function, .key = *key, .hash = hash};
	if (ip_value_key_copy(&group->key, &group->words) < 0) {
		free(group);
		return UINT32_MAX;
	}
	g->items[g->n] = group;
	return g->n++;
}

/* Returns the function's group for calls that have no group by a value. *slot is its number + 1. */
static uint32_t without(struct ip_value_groups *g, uint32_t function, uint32_t *slot,
			enum ip_value_key_kind kind)
{
	const struct ip_value_key key = {.kind = kind};
	uint32_t added;

	if (*slot)
		return *slot - 1;
	added = add(g, function, &key, 0);
	*slot = added + 1;
	return added;
}

uint64_t ip_value_group_hash(uint32_t function, const struct ip_value_key *key)
{
	uint64_t hash = (ip_value_key_hash(key) ^ function) * 0x9e3779b97f4a7c15ull;

	return hash ^ hash >> 32;
}

static uint32_t of_value(struct ip_value_groups *g, uint32_t function, const struct ip_value *value)
{
	struct ip_value_key key = ip_value_key_make(value, g->ranges);
	struct ip_value_function *f = &g->functions[function];
	uint64_t hash;
	uint32_t added;
	size_t at;

	if (key.kind == IP_KEY_MISSING)
		return without(g, function, &f->missing, IP_KEY_MISSING);
	hash = ip_value_group_hash(function, &key);
	for (at = hash & (g->size - 1); g->index[at]; at = (at + 1) & (g->size - 1)) {
		const struct ip_value_group *group = g->items[g->index[at] - 1];

		if (group->hash == hash && group->function == function &&
		    ip_value_key_equals(&group->key, &key))
			return g->index[at] - 1;
	}
	if (f->values == IP_VALUES_OF_FUNCTION || g->nvalues == IP_VALUES_OF_ALL ||
	    (g->chosen && !ip_value_choice_has(g->chosen, hash))) {
		g->others++;
		return without(g, function, &f->others, IP_KEY_OTHERS);
	}
	if (2 * (g->nvalues + 1) > g->size) {
		if (grow_index(g) < 0)
			return UINT32_MAX;
		for (at = hash & (g->size - 1); g->index[at];)
			at = (at + 1) & (g->size - 1);
	}
	added = add(g, function, &key, hash);
	if (added == UINT32_MAX)
		return UINT32_MAX;
	g->index[at] = added + 1;
	g->nvalues++;
	f->values++;
	return added;
}

uint32_t ip_value_groups_at_entry(struct ip_value_groups *g, uint32_t function,
				  const uint64_t *payload)
{
	struct ip_value value;

	return of_value(g, function,
			ip_value_name_get(&g->name, payload, false, &value) ? &value : NULL);
}

int ip_value_groups_at_exit(struct ip_value_groups *g, uint32_t function, const uint64_t *payload,
			    uint32_t *ret)
{
	struct ip_value value;

	if (!ip_value_name_get(&g->name, payload, true, &value))
		return 0;
	*ret = of_value(g, function, &value);
	return *ret == UINT32_MAX ? -1 : 1;
}

bool ip_value_groups_has_values(const struct ip_value_groups *g, uint32_t function)
{
	return g->functions[function].values || g->functions[function].others;
}

char *ip_value_group_text(const struct ip_value_groups *g, const struct ip_value_group *group)
{
	bool has_value = group->key.kind != IP_KEY_MISSING && group->key.kind != IP_KEY_OTHERS;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (out) {
		ip_print(out, "%s%s", g->name.text, has_value ? "=" : " ");
		ip_value_key_print(out, &group->key);
	}
	return ip_print_end_text(out, &text);
}
