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

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
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
		size_t slot = hash_of(form) & (slots - 1), first;

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
