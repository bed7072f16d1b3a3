// SPDX-License-Identifier: Apache-2.0
/*
 * The selection language: items, and what matches them. selection_parse.c splits a text into items.
 */
#include "common/selection/selection.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/names/short_name.h"
#include "common/selection/selection_item.h"

/* The names of one function. Each is made when an item first needs it. */
struct names {
	const char *linker;
	char *base;	 /* without the compiler's suffixes */
	char *plain;	 /* demangled, without arguments */
	char *with_args; /* demangled, with arguments */
	char *shorter;	 /* the short form of plain, in which nothing is elided */
	char *shorter_args;
	char *bare; /* shorter, without template arguments */
	char *bare_args;
};

static bool glob_matches(const char *glob, const char *text)
{
	return text && fnmatch(glob, text, 0) == 0;
}

/* Matches a demangled name with and without its ABI tags. To the linker, a function that returns a
 * std::string is f[abi:cxx11], but no programmer wrote that. */
static bool glob_matches_demangled(const char *glob, const char *name)
{
	_cleanup_free_ char *bare = NULL;

	if (glob_matches(glob, name))
		return true;
	bare = name ? ip_without_abi_tags(name) : NULL;
	return bare && glob_matches(glob, bare);
}

static const char *names_base(struct names *names)
{
	if (!names->base) {
		names->base = strndup(names->linker, ip_plt_name_length(names->linker));
		if (names->base)
			names->base[ip_base_name_length(names->base)] = '\0';
	}
	return names->base;
}

static const char *names_plain(struct names *names)
{
	if (!names->plain && names_base(names))
		names->plain = ip_demangle(names_base(names), false);
	return names->plain;
}

static const char *names_with_args(struct names *names)
{
	if (!names->with_args && names_base(names))
		names->with_args = ip_demangle(names_base(names), true);
	return names->with_args;
}

static const char *names_shorter(struct names *names, bool with_args)
{
	char **ret = with_args ? &names->shorter_args : &names->shorter;
	const char *whole = with_args ? names_with_args(names) : names_plain(names);

	if (!*ret && whole)
		*ret = ip_short_name(whole, SIZE_MAX);
	return *ret;
}

/* Returns the short form without template arguments, or NULL where the name has none. */
static const char *names_bare(struct names *names, bool with_args)
{
	char **ret = with_args ? &names->bare_args : &names->bare;
	const char *plain = names_plain(names), *shorter;

	if (*ret || !plain || !strchr(plain, '<'))
		return *ret;
	shorter = names_shorter(names, with_args);
	if (shorter)
		*ret = ip_name_without_templates(shorter);
	return *ret;
}

/* Whether a glob can match the short form of a name and not the name itself. */
static bool may_be_short(const char *glob, struct names *names)
{
	const char *plain = names_plain(names);

	return plain && (strpbrk(glob, "<{") || strstr(glob, "std::") || strstr(plain, ")::"));
}

static bool matches_name(const struct ip_selection_item *item, struct names *names)
{
	if (glob_matches(item->glob, names_base(names)))
		return true;
	if (names->linker[0] != '_')
		return false; /* demanglers do not change it */
	/* A glob without '(' means the name alone: 'set*int' must not match set(int). */
	if (glob_matches_demangled(item->glob, names_plain(names)) ||
	    (item->has_paren && glob_matches_demangled(item->glob, names_with_args(names))))
		return true;
	if (may_be_short(item->glob, names) &&
	    (glob_matches(item->glob, names_shorter(names, false)) ||
	     (item->has_paren && glob_matches(item->glob, names_shorter(names, true)))))
		return true;
	return !item->has_list &&
	       (glob_matches(item->glob, names_bare(names, false)) ||
		(item->has_paren && glob_matches(item->glob, names_bare(names, true))));
}

/* A name of a PLT, with its suffix in the glob: the glob without it must match the name without. */
static bool matches_plt_name(const struct ip_selection_item *item, struct names *names)
{
	const size_t n = ip_plt_name_length(item->glob);
	struct ip_selection_item own = *item;
	bool matched;

	if (!item->glob[n] || !names->linker[ip_plt_name_length(names->linker)])
		return false;
	own.glob = strndup(item->glob, n);
	matched = own.glob && matches_name(&own, names);
	free(own.glob);
	return matched;
}

static bool matches_function(const struct ip_selection_item *item, struct names *names)
{
	return !strcmp(item->glob, "*") || glob_matches(item->glob, names->linker) ||
	       matches_name(item, names) || matches_plt_name(item, names);
}

static bool matches_path(const char *glob, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return glob_matches(glob, path) || (slash && glob_matches(glob, slash + 1));
}

bool ip_selection_match(const struct ip_selection *selection, const char *linker_name,
			const char *file, const char *module)
{
	struct names names = {.linker = linker_name};
	bool selected, taken_away = false;

	if (!selection)
		return true;
	selected = !selection->npositive;
	for (size_t i = 0; i < selection->nitems; i++) {
		struct ip_selection_item *item = &selection->items[i];
		bool matched = false;

		/* one match is enough; what is taken away once is not selected again */
		if (item->used && (item->negative ? taken_away : selected || taken_away))
			continue;
		switch (item->kind) {
		case IP_SELECT_FUNCTION:
			matched = matches_function(item, &names);
			if (!matched && !item->used && file && ip_selection_is_source(item->glob))
				ip_selection_note_path(item, file);
			break;
		case IP_SELECT_FILE:
			matched = matches_path(item->glob, file);
			if (!matched && !item->used && file)
				ip_selection_note_path(item, file);
			break;
		case IP_SELECT_LIB:
			matched = matches_path(item->glob, module);
			if (!matched && !item->used && module)
				ip_selection_note_path(item, module);
			break;
		}
		item->used |= matched;
		if (matched && item->negative)
			taken_away = true;
		else if (matched)
			selected = true;
	}
	free(names.base);
	free(names.plain);
	free(names.with_args);
	free(names.shorter);
	free(names.shorter_args);
	free(names.bare);
	free(names.bare_args);
	return selected && !taken_away;
}

void ip_selection_modules_unknown(struct ip_selection *selection)
{
	for (size_t i = 0; selection && i < selection->nitems; i++)
		selection->items[i].used |= selection->items[i].kind == IP_SELECT_LIB;
}

char *ip_selection_unused(const struct ip_selection *selection)
{
	static const char *const prefixes[] = {
		[IP_SELECT_FUNCTION] = "", [IP_SELECT_FILE] = "file:", [IP_SELECT_LIB] = "lib:"};
	size_t size;
	char *text = NULL;
	FILE *out = NULL;

	for (size_t i = 0; selection && i < selection->nitems; i++) {
		const struct ip_selection_item *item = &selection->items[i];

		if (item->used || (item->negative && item->from_name))
			continue;
		if (!out)
			out = open_memstream(&text, &size);
		if (!out)
			return NULL;
		fprintf(out, "%s%s%s%s", ftell(out) ? ", " : "", item->negative ? "!" : "",
			prefixes[item->kind], item->glob);
	}
	if (out && fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

bool ip_selection_only_takes_away(const struct ip_selection *selection)
{
	return selection && selection->nitems && !selection->npositive;
}

char *ip_selection_text(const struct ip_selection *selection)
{
	static const char *const prefixes[] = {
		[IP_SELECT_FUNCTION] = "", [IP_SELECT_FILE] = "file:", [IP_SELECT_LIB] = "lib:"};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (size_t i = 0; out && selection && i < selection->nitems; i++) {
		const struct ip_selection_item *item = &selection->items[i];

		fprintf(out, "%s%s%s%s", i ? "," : "", item->negative ? "!" : "",
			prefixes[item->kind], item->glob);
	}
	if (!out || fclose(out) != 0) {
		free(text);
		ip_error("out of memory");
		return NULL;
	}
	return text;
}

static bool is_plain(char c)
{
	return (unsigned char)c >= 0x80 || isalnum((unsigned char)c) || c == '_' || c == '.' ||
	       c == '$';
}

char *ip_selection_quote(const char *name, size_t length)
{
	char *text = malloc(2 * length + 1), *out = text;

	if (!text) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < length; i++) {
		if (!is_plain(name[i]))
			*out++ = '\\';
		*out++ = name[i];
	}
	*out = '\0';
	return text;
}

bool ip_selection_is_all(const struct ip_selection *selection)
{
	bool all;

	if (!selection)
		return true;
	all = !selection->npositive;
	for (size_t i = 0; i < selection->nitems; i++) {
		const struct ip_selection_item *item = &selection->items[i];

		if (item->negative)
			return false;
		if (item->kind == IP_SELECT_FUNCTION && !strcmp(item->glob, "*"))
			all = true;
	}
	return all;
}

void ip_selection_destroy(struct ip_selection *selection)
{
	if (!selection)
		return;
	for (size_t i = 0; i < selection->nitems; i++) {
		free(selection->items[i].glob);
		ip_selection_near_clear(&selection->items[i].paths);
	}
	free(selection->items);
	free(selection);
}
