// SPDX-License-Identifier: Apache-2.0
/*
 * "Did you mean": the names that are nearest to a selection that has matched nothing.
 *
 * The distance is that of edit_distance.h, to the whole demangled name or to its last component,
 * whichever is less. A name that contains the wanted text is near too.
 */
#include "common/selection/selection.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/edit_distance.h"
#include "common/names/short_name.h"
#include "common/selection/selection_item.h"

#define NEAREST 3

struct candidate {
	unsigned distance;
	char *name;
};

/* A glob without its wildcards; malloc'ed. */
static char *plain_text(const char *glob)
{
	char *text = malloc(strlen(glob) + 1), *out = text;

	if (!text)
		return NULL;
	for (; *glob; glob++)
		if (!strchr("*?\\", *glob))
			*out++ = *glob;
	*out = '\0';
	return text;
}

static const char *last_component(const char *name)
{
	const char *last = name;

	/* A "::" inside template arguments does not begin a component. */
	for (const char *p = name; *p && *p != '<' && *p != '('; p++)
		if (p[0] == ':' && p[1] == ':')
			last = p + 2;
	return last;
}

static unsigned judge(const char *wanted, const char *name, unsigned limit)
{
	size_t nw = strlen(wanted), nn = strlen(name);
	const char *last = last_component(name);
	unsigned d = ip_edit_distance(wanted, nw, name, nn, limit);
	unsigned d_last =
		last != name ? ip_edit_distance(wanted, nw, last, strlen(last), limit) : limit + 1;

	if (d_last < d)
		d = d_last;
	if (d > limit && nw >= 3 && strcasestr(name, wanted))
		d = limit;
	return d;
}

/* Keeps the best names, in order. A name counts once. Takes the ownership of name. */
static void consider(struct candidate *best, char *name, unsigned d)
{
	size_t i;

	for (i = 0; i < NEAREST; i++)
		if (best[i].name && !strcmp(best[i].name, name))
			break;
	if (i < NEAREST) {
		free(name);
		return;
	}
	for (i = 0; i < NEAREST && best[i].name; i++)
		if (d < best[i].distance ||
		    (d == best[i].distance && strlen(name) < strlen(best[i].name)))
			break;
	if (i == NEAREST) {
		free(name);
		return;
	}
	free(best[NEAREST - 1].name);
	memmove(best + i + 1, best + i, (NEAREST - 1 - i) * sizeof(*best));
	best[i] = (struct candidate){d, name};
}

/* Makes a line of the best names, and frees them. Returns NULL where memory ran out. */
static char *join(struct candidate *best)
{
	_cleanup_free_ char *line = NULL;
	size_t size;
	FILE *out = open_memstream(&line, &size);

	for (size_t i = 0; i < NEAREST; i++) {
		if (best[i].name && out)
			fprintf(out, "%s%s", i ? ", " : "", best[i].name);
		free(best[i].name);
	}
	if (out)
		fclose(out);
	return line ? ip_steal_ptr(line) : NULL;
}

char *ip_nearest_names(const char *wanted, const char *const *names, size_t n)
{
	struct candidate best[NEAREST] = {0};
	unsigned limit = ip_edit_limit(strlen(wanted));

	for (size_t i = 0; *wanted && i < n; i++) {
		unsigned d = judge(wanted, names[i], limit);
		char *name = d <= limit ? strdup(names[i]) : NULL;

		if (name)
			consider(best, name, d);
	}
	return join(best);
}

/* Returns the item that is most likely misspelt, or NULL. */
static const struct ip_selection_item *wanted_item(const struct ip_selection *selection)
{
	const struct ip_selection_item *positive = NULL, *negative = NULL;

	for (size_t i = 0; selection && i < selection->nitems; i++) {
		const struct ip_selection_item *item = &selection->items[i];

		if (!item->negative && (!positive || (positive->used && !item->used)))
			positive = item;
		else if (item->negative && !item->used && !item->from_name && !negative)
			negative = item;
	}
	return positive && (!positive->used || !negative) ? positive : negative;
}

char *ip_selection_nearest(const struct ip_selection *selection, const char *const *linker_names,
			   size_t n)
{
	const struct ip_selection_item *item = wanted_item(selection);
	struct candidate best[NEAREST] = {0};
	_cleanup_free_ char *wanted = NULL, *wanted_bare = NULL;
	unsigned limit;

	if (!item || item->kind != IP_SELECT_FUNCTION)
		return strdup("");
	wanted = plain_text(item->glob);
	if (!wanted || !*wanted)
		return strdup("");
	limit = ip_edit_limit(strlen(wanted));
	/* "map<*>::find" and "map::find" are near to each instance of it */
	if (!item->has_list || strstr(item->glob, "<*>"))
		wanted_bare = ip_name_without_templates(wanted);

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *base =
			strndup(linker_names[i], ip_base_name_length(linker_names[i]));
		char *name = base ? ip_demangle(base, item->has_paren) : NULL;
		char *shorter = name ? ip_short_name(name, SIZE_MAX) : NULL;
		unsigned d = name ? judge(wanted, name, limit) : limit + 1,
			 d_shorter = shorter ? judge(wanted, shorter, limit) : limit + 1;

		_cleanup_free_ char *bare = shorter && wanted_bare && strchr(shorter, '<')
						    ? ip_name_without_templates(shorter)
						    : NULL;
		unsigned d_bare = bare ? judge(wanted_bare, bare, limit) : limit + 1;

		free(name);
		d = d_shorter < d ? d_shorter : d;
		d = d_bare < d ? d_bare : d;
		if (shorter && d <= limit)
			consider(best, shorter, d);
		else
			free(shorter);
	}

	return join(best);
}

char *ip_selection_unused_nearest(const struct ip_selection *selection,
				  const char *const *linker_names, size_t n)
{
	_cleanup_free_ char *unused = ip_selection_unused(selection);
	_cleanup_free_ char *nearest =
		unused ? ip_selection_nearest(selection, linker_names, n) : NULL;
	char *text;

	if (!nearest || !*nearest)
		return ip_steal_ptr(unused);
	return asprintf(&text, "%s (nearest: %s)", unused, nearest) < 0 ? NULL : text;
}
