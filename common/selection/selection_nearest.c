// SPDX-License-Identifier: Apache-2.0
/*
 * "Did you mean": the names that are nearest to a selection that has matched nothing.
 *
 * The distance is Levenshtein's with case folded, to the whole demangled name or to its last
 * component, whichever is less. A name that contains the wanted text is near too.
 */
#include "common/selection/selection.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/selection/selection_item.h"

#define NEAREST	 3
#define WORD_MAX 96 /* longer words are compared by their first bytes */

struct candidate {
	unsigned distance;
	char *name;
};

static unsigned fold(char c)
{
	return (unsigned)tolower((unsigned char)c);
}

/* Distance of two words, or limit + 1 if it is more than limit. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb, unsigned limit)
{
	unsigned row[WORD_MAX + 1];

	if (na > WORD_MAX || nb > WORD_MAX || (na > nb ? na - nb : nb - na) > limit)
		return limit + 1;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned diagonal = row[0], best;

		best = row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned above = row[j];
			unsigned d = diagonal + (fold(a[i - 1]) != fold(b[j - 1]));

			if (above + 1 < d)
				d = above + 1;
			if (row[j - 1] + 1 < d)
				d = row[j - 1] + 1;
			row[j] = d;
			diagonal = above;
			if (d < best)
				best = d;
		}
		if (best > limit)
			return limit + 1;
	}
	return row[nb] > limit ? limit + 1 : row[nb];
}

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
	unsigned d = distance(wanted, nw, name, nn, limit);
	unsigned d_last =
		last != name ? distance(wanted, nw, last, strlen(last), limit) : limit + 1;

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

char *ip_selection_nearest(const struct ip_selection *selection, const char *const *linker_names,
			   size_t n)
{
	const struct ip_selection_item *item = NULL;
	struct candidate best[NEAREST] = {0};
	_cleanup_free_ char *wanted = NULL;
	_cleanup_free_ char *line = NULL;
	size_t size;
	unsigned limit;
	FILE *out;

	for (size_t i = 0; selection && i < selection->nitems && !item; i++)
		if (!selection->items[i].negative)
			item = &selection->items[i];
	if (!item || item->kind != IP_SELECT_FUNCTION)
		return strdup("");
	wanted = plain_text(item->glob);
	if (!wanted || !*wanted)
		return strdup("");
	/* A third of the letters may be wrong, but at least two; in a word of one or two letters,
	 * one. */
	limit = (unsigned)(strlen(wanted) > WORD_MAX ? WORD_MAX : strlen(wanted)) / 3;
	if (limit < 2)
		limit = strlen(wanted) > 2 ? 2 : 1;

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *base =
			strndup(linker_names[i], ip_base_name_length(linker_names[i]));
		char *name = base ? ip_demangle(base, item->has_paren) : NULL;
		_cleanup_free_ char *bare = name ? ip_without_abi_tags(name) : NULL;
		unsigned d = name ? judge(wanted, bare ? bare : name, limit) : limit + 1;

		if (d <= limit)
			consider(best, name, d);
		else
			free(name);
	}

	out = open_memstream(&line, &size);
	for (size_t i = 0; i < NEAREST; i++) {
		if (best[i].name && out)
			fprintf(out, "%s%s", i ? ", " : "", best[i].name);
		free(best[i].name);
	}
	if (out)
		fclose(out);
	return line ? ip_steal_ptr(line) : NULL;
}
