// SPDX-License-Identifier: Apache-2.0
/*
 * "Did you mean": the names that are nearest to a selection that has matched nothing.
 *
 * The distance is that of edit_distance.h, to the whole demangled name or to its last component,
 * whichever is less. A name that contains the wanted text is near too. For file: and lib: it is
 * that of the last components of paths. What is written as a regular expression, or is a source
 * file without file:, is told in the words of -f.
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
static void consider(struct ip_selection_near *near, char *name, unsigned d)
{
	const size_t n = IP_SELECTION_NEAREST;
	size_t i;

	for (i = 0; i < n; i++)
		if (near->best[i].name && !strcmp(near->best[i].name, name))
			break;
	if (i < n) {
		free(name);
		return;
	}
	for (i = 0; i < n && near->best[i].name; i++)
		if (d < near->best[i].distance ||
		    (d == near->best[i].distance && strlen(name) < strlen(near->best[i].name)))
			break;
	if (i == n) {
		free(name);
		return;
	}
	free(near->best[n - 1].name);
	memmove(near->best + i + 1, near->best + i, (n - 1 - i) * sizeof(*near->best));
	near->best[i].distance = d;
	near->best[i].name = name;
}

void ip_selection_near_clear(struct ip_selection_near *near)
{
	for (size_t i = 0; i < IP_SELECTION_NEAREST; i++)
		free(near->best[i].name);
	*near = (struct ip_selection_near){0};
}

/* Makes a line of the best names, each behind the prefix. Returns NULL where memory ran out. */
static char *line_of(const struct ip_selection_near *near, const char *prefix)
{
	_cleanup_free_ char *line = NULL;
	size_t size;
	FILE *out = open_memstream(&line, &size);

	for (size_t i = 0; i < IP_SELECTION_NEAREST && out; i++)
		if (near->best[i].name)
			fprintf(out, "%s%s%s", i ? ", " : "", prefix, near->best[i].name);
	if (out)
		fclose(out);
	return line ? ip_steal_ptr(line) : NULL;
}

/* The same, and frees them. */
static char *join(struct ip_selection_near *near)
{
	char *line = line_of(near, "");

	ip_selection_near_clear(near);
	return line;
}

static const char *last_of_path(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

bool ip_selection_is_source(const char *glob)
{
	static const char *const ends[] = {".c",   ".cc",  ".cpp", ".cxx", ".c++", ".h",  ".hh",
					   ".hpp", ".hxx", ".rs",  ".go",  ".d",   ".f90"};
	const char *dot = strrchr(last_of_path(glob), '.');

	for (size_t i = 0; dot && dot[1] && i < sizeof(ends) / sizeof(*ends); i++)
		if (!strcmp(dot, ends[i]))
			return true;
	return false;
}

void ip_selection_note_path(struct ip_selection_item *item, const char *path)
{
	const char *name = last_of_path(path);
	_cleanup_free_ char *wanted = NULL;
	unsigned limit, d;
	char *copy;

	/* functions of a file come one after the other */
	for (size_t i = 0; i < IP_SELECTION_NEAREST && item->paths.best[i].name; i++)
		if (!strcmp(item->paths.best[i].name, name))
			return;
	wanted = plain_text(last_of_path(item->glob));
	if (!wanted || !*wanted)
		return;
	limit = ip_edit_limit(strlen(wanted));
	d = judge(wanted, name, limit);
	copy = d <= limit ? strdup(name) : NULL;
	if (copy)
		consider(&item->paths, copy, d);
}

/* Makes a glob of what looks like a regular expression: /^h1_/, h1_.*; malloc'ed. NULL: it does not
 * look so, or no glob says the same. */
static char *glob_of_regex(const char *text)
{
	size_t n = strlen(text);
	const bool slashes = n > 2 && *text == '/' && text[n - 1] == '/';
	const bool anchored = text[slashes] == '^';
	_cleanup_free_ char *glob = malloc(n + 3);
	bool at_end;
	char *out = glob;

	if (!glob)
		return NULL;
	text += slashes + anchored;
	n -= 2 * slashes + anchored;
	at_end = n && text[n - 1] == '$';
	n -= at_end;
	if (!n || memchr(text, '/', n) ||
	    (!slashes && !anchored && !at_end && !strstr(text, ".*") && !strstr(text, ".+")))
		return NULL;
	if (slashes && !anchored)
		*out++ = '*';
	for (size_t i = 0; i < n; i++) {
		if (strchr("()[]{}|\\?+*^$", text[i]))
			return NULL;
		if (text[i] != '.')
			*out++ = text[i];
		else if (i + 1 < n && (text[i + 1] == '*' || text[i + 1] == '+'))
			*out++ = text[++i] == '+' ? '*' : text[i];
		else
			*out++ = '?';
	}
	if ((slashes || anchored) && !at_end && out[-1] != '*')
		*out++ = '*';
	*out = '\0';
	return ip_steal_ptr(glob);
}

/* Makes a selection of names that have ; or | between them, malloc'ed. NULL: there is none. */
static char *with_commas(const char *text)
{
	char *copy = strpbrk(text, ";|") ? strdup(text) : NULL;

	for (char *p = copy; p && *p; p++)
		if (*p == ';' || *p == '|')
			*p = ',';
	return copy;
}

/* Returns the selection that a regular expression means, or a list without commas, where it matches
 * one of the names; malloc'ed. NULL: there is none. */
static char *meant_by_regex(const char *text, const char *const *linker_names, size_t n)
{
	_cleanup_free_ char *list = with_commas(text);
	_cleanup_free_ char *glob = list ? ip_steal_ptr(list) : glob_of_regex(text);
	struct ip_selection *selection;
	bool matches = false;

	if (!glob || ip_selection_parse_names(glob, &selection) < 0)
		return NULL;
	for (size_t i = 0; i < n && !matches; i++)
		matches = ip_selection_match(selection, linker_names[i], NULL, NULL);
	ip_selection_destroy(selection);
	return matches ? ip_steal_ptr(glob) : NULL;
}

char *ip_nearest_names(const char *wanted, const char *const *names, size_t n)
{
	struct ip_selection_near near = {0};
	unsigned limit = ip_edit_limit(strlen(wanted));

	for (size_t i = 0; *wanted && i < n; i++) {
		unsigned d = judge(wanted, names[i], limit);
		char *name = d <= limit ? strdup(names[i]) : NULL;

		if (name)
			consider(&near, name, d);
	}
	return join(&near);
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
	struct ip_selection_near near = {0};
	_cleanup_free_ char *wanted = NULL, *wanted_bare = NULL;
	unsigned limit;

	if (!item)
		return strdup("");
	if (item->kind != IP_SELECT_FUNCTION)
		return line_of(&item->paths, item->kind == IP_SELECT_FILE ? "file:" : "lib:");
	if (item->paths.best[0].name)
		return line_of(&item->paths, "file:");
	wanted = meant_by_regex(item->glob, linker_names, n);
	if (wanted)
		return ip_steal_ptr(wanted);
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
			consider(&near, shorter, d);
		else
			free(shorter);
	}

	return join(&near);
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
