// SPDX-License-Identifier: Apache-2.0
/*
 * Short forms of names that stay apart.
 */
#include "common/names/short_names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/names/short_name.h"

const char *ip_short_names_form(const struct ip_short_names *name)
{
	return name->form ? name->form : name->name;
}

static uint64_t hash_of(const char *text, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
	return hash ^ hash >> 29;
}

/* Marks the names whose form another name has, too. Returns how many there are; SIZE_MAX: out of
 * memory. */
static size_t find_same(const struct ip_short_names *names, size_t n, bool *same)
{
	_cleanup_free_ size_t *table = NULL; /* index + 1 */
	size_t slots = 16, found = 0;

	while (slots < 2 * n)
		slots *= 2;
	table = calloc(slots, sizeof(*table));
	if (!table)
		return SIZE_MAX;
	for (size_t i = 0; i < n; i++) {
		const char *form = ip_short_names_form(&names[i]);
		size_t slot = hash_of(form, strlen(form)) & (slots - 1), first;

		while (table[slot] && strcmp(ip_short_names_form(&names[table[slot] - 1]), form))
			slot = (slot + 1) & (slots - 1);
		if (!table[slot]) {
			table[slot] = i + 1;
			continue;
		}
		first = table[slot] - 1;
		if (same[first] || strcmp(names[first].name, names[i].name)) {
			found += !same[first];
			same[first] = same[i] = true;
			found++;
		}
	}
	return found;
}

/* What a name lies in: the begin of its form. */
struct scope {
	const char *name; /* NULL: the place is free */
	size_t length;	  /* of the scope in the name */
	const char *form; /* the shortest one */
	size_t form_length;
};

/* The place of a scope. */
static struct scope *find_scope(struct scope *table, size_t slots, const char *name, size_t length)
{
	size_t slot = hash_of(name, length) & (slots - 1);

	while (table[slot].name &&
	       (table[slot].length != length || memcmp(table[slot].name, name, length) != 0))
		slot = (slot + 1) & (slots - 1);
	return &table[slot];
}

/* How much of a class is elided depends on how long the method's own name is: all take the shortest
 * form. */
static void share_scopes(struct ip_short_names *names, size_t n)
{
	_cleanup_free_ struct scope *table = NULL;
	size_t slots = 16;

	while (slots < 2 * n)
		slots *= 2;
	table = calloc(slots, sizeof(*table));
	for (int pass = 0; table && pass < 2; pass++)
		for (size_t i = 0; i < n; i++) {
			const size_t length =
				names[i].form ? ip_name_scope_length(names[i].name) : 0;
			const size_t own = length ? ip_name_scope_length(names[i].form) : 0;
			struct scope *scope;
			char *form;

			if (!own || !memchr(names[i].name, '<', length))
				continue;
			scope = find_scope(table, slots, names[i].name, length);
			if (!pass && (!scope->name || own < scope->form_length))
				*scope = (struct scope){names[i].name, length, names[i].form, own};
			if (!pass || own == scope->form_length)
				continue;
			/* the form that the shortest one is a part of stays as it is */
			form = malloc(scope->form_length + strlen(names[i].form + own) + 1);
			if (!form)
				return;
			memcpy(form, scope->form, scope->form_length);
			strcpy(form + scope->form_length, names[i].form + own);
			free(names[i].form);
			names[i].form = form;
		}
}

void ip_short_names_make(struct ip_short_names *names, size_t n)
{
	static const size_t limits[] = {96, 160, SIZE_MAX, 0}; /* 0: the whole name */
	_cleanup_free_ bool *same = calloc(n + 1, sizeof(*same));
	size_t mangled = 0;

	for (size_t i = 0; i < n; i++)
		mangled += names[i].mangled;
	if (!mangled || !same)
		return;
	for (size_t i = 0; i < n; i++)
		if (names[i].mangled)
			names[i].form = ip_short_name(names[i].name, IP_SHORT_NAME_LIMIT);
	share_scopes(names, n);
	for (size_t step = 0; step < sizeof(limits) / sizeof(*limits); step++) {
		size_t found;

		memset(same, 0, n * sizeof(*same));
		found = find_same(names, n, same);
		if (!found)
			break;
		for (size_t i = 0; i < n; i++) {
			/* names are not told apart where memory runs out: they are whole */
			if (!same[i] && found != SIZE_MAX)
				continue;
			free(names[i].form);
			names[i].form = !limits[step] || found == SIZE_MAX
						? NULL
						: ip_short_name(names[i].name, limits[step]);
		}
	}
}
