/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps sets of names.
 */
#include "cli/darc/darc_names.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

/* Where a name is, or would be. */
static size_t find(const struct cli_darc_names *names, const char *name, bool *ret_found)
{
	size_t low = 0, high = names->n;

	*ret_found = false;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const int x = strcmp(names->items[middle], name);

		*ret_found |= !x;
		if (x < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int cli_darc_names_add(struct cli_darc_names *names, const char *name, size_t length)
{
	char *copy = strndup(name, length);
	bool found;
	size_t at;

	if (!copy)
		return ip_error("out of memory");
	at = find(names, copy, &found);
	if (found || ip_array_grow(&names->items, names->n, sizeof(*names->items)) < 0) {
		free(copy);
		return found ? 0 : -1;
	}
	memmove(&names->items[at + 1], &names->items[at], (names->n - at) * sizeof(*names->items));
	names->items[at] = copy;
	names->n++;
	return 1;
}

bool cli_darc_names_has(const struct cli_darc_names *names, const char *name)
{
	bool found;

	find(names, name, &found);
	return found;
}

void cli_darc_names_clear(struct cli_darc_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
	*names = (struct cli_darc_names){0};
}

struct cli_darc_names *cli_darc_sets_get(struct cli_darc_sets *s, unsigned i, const char **ret_key)
{
	static const char *const keys[CLI_DARC_SETS] = {"path",	    "below", "looked", "again",
							"pointers", "known", "seen",   "callees"};
	struct cli_darc_names *const sets[CLI_DARC_SETS] = {&s->path,  &s->below,    &s->looked,
							    &s->again, &s->pointers, &s->known,
							    &s->seen,  &s->callees};

	*ret_key = keys[i];
	return sets[i];
}

void cli_darc_sets_clear(struct cli_darc_sets *s)
{
	const char *key;

	for (unsigned i = 0; i < CLI_DARC_SETS; i++)
		cli_darc_names_clear(cli_darc_sets_get(s, i, &key));
}
