/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions in the table of fperf. See fperf_names.h.
 */
#include "cli/fperf/fperf_names.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/names/short_name.h"
#include "common/names/short_names.h"

static int by_name(const void *a, const void *b, void *context)
{
	const struct ip_fperf_row *rows = context;

	return strcmp(rows[*(const size_t *)a].bare_name, rows[*(const size_t *)b].bare_name);
}

/* Marks the rows whose name without parameters another row has, too: overloads, and functions of
 * other modules. Returns NULL where memory ran out. */
static bool *find_ambiguous(const struct ip_fperf_row *rows, size_t n)
{
	bool *ambiguous = calloc(n + 1, sizeof(*ambiguous));
	_cleanup_free_ size_t *order = calloc(n + 1, sizeof(*order));

	if (!ambiguous || !order) {
		free(ambiguous);
		return NULL;
	}
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_name, (void *)rows);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(rows[order[i - 1]].bare_name, rows[order[i]].bare_name))
			ambiguous[order[i - 1]] = ambiguous[order[i]] = true;
	return ambiguous;
}

/* Returns the name of a row that has its name with others: with its parameters and its module. */
static char *name_apart(const struct ip_fperf_row *row, bool full)
{
	_cleanup_free_ char *shorter = full ? NULL : ip_short_name(row->function, SIZE_MAX);
	char *name;

	if (asprintf(&name, "%s [%s]", shorter ? shorter : row->function, row->module) < 0)
		return NULL;
	return name;
}

char **fperf_names(const struct ip_fperf_row *rows, size_t n, bool full)
{
	_cleanup_free_ struct ip_short_names *forms = calloc(n + 1, sizeof(*forms));
	_cleanup_free_ bool *ambiguous = find_ambiguous(rows, n);
	char **names = forms && ambiguous ? calloc(n + 1, sizeof(*names)) : NULL;

	if (!names)
		return NULL;
	for (size_t i = 0; i < n; i++)
		forms[i] = (struct ip_short_names){.name = rows[i].bare_name,
						   .mangled = rows[i].mangled};
	if (!full)
		ip_short_names_make(forms, n);
	for (size_t i = 0; i < n; i++) {
		names[i] = ambiguous[i] ? name_apart(&rows[i], full)
					: strdup(full ? rows[i].function
						      : ip_short_names_form(&forms[i]));
		free(forms[i].form);
	}
	return names;
}

void fperf_names_free(char **names, size_t n)
{
	for (size_t i = 0; names && i < n; i++)
		free(names[i]);
	free(names);
}
