/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds types by name. The debug information is input from outside: nesting is bounded.
 */
#include "hotpatcher/plan/values/type_search.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hotpatcher/plan/value_types.h"

#define DEPTH_MAX      16u
#define PATH_MAX_BYTES 1024u

/* The search for a complete type. */
struct search {
	int tag; /* 0: any type that has a name */
	const char *name;
	char path[PATH_MAX_BYTES]; /* the scopes around it: "a::b::" */
	bool found, several;
	Dwarf_Word size;
	Dwarf_Die die;
};

/* structure and class mean the same */
static int kind_of(int tag)
{
	return tag == DW_TAG_class_type ? DW_TAG_structure_type : tag;
}

static bool is_scope(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

/* The size of a type. A typedef may stand for a type that is only declared: its size is 0 then. */
static bool size_of(Dwarf_Die *die, Dwarf_Word *ret)
{
	*ret = 0;
	return dwarf_aggregate_size(die, ret) == 0 || dwarf_tag(die) == DW_TAG_typedef;
}

static bool is_wanted(const struct search *s, Dwarf_Die *die)
{
	const int tag = kind_of(dwarf_tag(die));

	return (s->tag ? tag == s->tag
		       : tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
				 tag == DW_TAG_enumeration_type || tag == DW_TAG_base_type ||
				 tag == DW_TAG_typedef) &&
	       !dwarf_hasattr(die, DW_AT_declaration);
}

/* Compares what is around a type with the path that is wanted. */
static void search_in(struct search *s, Dwarf_Die *scope, const char *path, unsigned depth)
{
	size_t length = strlen(path);
	Dwarf_Die die;

	if (depth > DEPTH_MAX || strncmp(path, s->path, length) || dwarf_child(scope, &die) != 0)
		return;
	do {
		const bool here = !s->path[length] && is_wanted(s, &die),
			   around = s->path[length] && is_scope(dwarf_tag(&die));
		const char *name = here || around ? dwarf_diename(&die) : NULL;
		char inner[PATH_MAX_BYTES];
		Dwarf_Word size;

		if (here && name && !strcmp(name, s->name) && size_of(&die, &size)) {
			s->several |= s->found && size != s->size;
			if (!s->found)
				s->die = die;
			s->size = size;
			s->found = true;
		}
		if (around && snprintf(inner, sizeof(inner), "%s%s::", path, name ? name : "") <
				      (int)sizeof(inner))
			search_in(s, &die, inner, depth + 1);
	} while (dwarf_siblingof(&die, &die) == 0);
}

/* Searches all units, and those of the file that several modules share: dwz moves types there. That
 * file has been found, or debug information is not used (debug_info.c). */
static void search_units(struct search *s, Dwarf *dwarf)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t type = 0;

	for (; dwarf; dwarf = dwarf_getalt(dwarf), unit = NULL)
		while (dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, NULL) == 0)
			search_in(s, &die, "", 0);
}

/* Writes the names of the scopes around a type. Returns 0, or -1. */
static int path_of(Dwarf_Die *type, char path[PATH_MAX_BYTES])
{
	Dwarf_Die *scopes;
	int n = dwarf_getscopes_die(type, &scopes), ret = 0;
	size_t at = 0;

	path[0] = '\0';
	/* the first is the type itself, the last is the unit */
	for (int i = n - 2; i > 0 && ret == 0; i--) {
		const char *name = dwarf_diename(&scopes[i]);
		int length =
			is_scope(dwarf_tag(&scopes[i]))
				? snprintf(path + at, PATH_MAX_BYTES - at, "%s::", name ? name : "")
				: -1;

		if (length < 0 || at + (size_t)length >= PATH_MAX_BYTES)
			ret = -1; /* it is local to a function */
		else
			at += length;
	}
	if (n > 0)
		free(scopes);
	return n > 0 ? ret : -1;
}

int ip_value_type_complete(Dwarf_Die *type)
{
	struct search s = {.tag = kind_of(dwarf_tag(type)), .name = dwarf_diename(type)};
	Dwarf *dwarf = dwarf_cu_getdwarf(type->cu);

	if (!dwarf_hasattr(type, DW_AT_declaration))
		return 0;
	if (!s.name || path_of(type, s.path) < 0)
		return -1;
	/* a unit that was split has its types in a file of its own: libdw opens it where the
	 * functions of that unit are looked for (debug_info.c) */
	search_units(&s, dwarf);
	if (!s.found || s.several)
		return -1;
	*type = s.die;
	return 0;
}

/* Splits "struct ns::name" into the parts of a search. Returns 0, or -1. */
static int split(const char *text, struct search *s)
{
	static const struct {
		const char *word;
		int tag;
	} words[] = {{"struct ", DW_TAG_structure_type},
		     {"class ", DW_TAG_structure_type},
		     {"union ", DW_TAG_union_type},
		     {"enum ", DW_TAG_enumeration_type}};
	size_t length, nested = 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words) && !s->tag; i++)
		if (!strncmp(text, words[i].word, strlen(words[i].word))) {
			text += strlen(words[i].word);
			s->tag = words[i].tag;
		}
	if (!strncmp(text, "::", 2))
		text += 2;
	s->name = text;
	for (const char *c = text; *c; c++) {
		nested += *c == '<';
		nested -= *c == '>' && nested;
		if (!nested && !strncmp(c, "::", 2))
			s->name = c + 2;
	}
	length = s->name - text;
	if (length >= sizeof(s->path) || !*s->name)
		return -1;
	memcpy(s->path, text, length);
	s->path[length] = '\0';
	return 0;
}

/* As ip_value_type_search(), for a name as the debug information has it. */
static int search(Dwarf_Die *die, const char *name, Dwarf_Die *ret)
{
	struct search s = {0};
	Dwarf *dwarf = dwarf_cu_getdwarf(die->cu);
	Dwarf_Die unit_die;

	if (split(name, &s) < 0)
		return 0;
	if (dwarf_diecu(die, &unit_die, NULL, NULL))
		search_in(&s, &unit_die, "", 0);
	if (s.found) /* the function's own unit decides */
		return ip_value_type_peel(&s.die, ret) < 0 ? -1 : 1;
	search_units(&s, dwarf);
	if (!s.found)
		return 0;
	return s.several || ip_value_type_peel(&s.die, ret) < 0 ? -1 : 1;
}

int ip_value_type_search(Dwarf_Die *die, const char *name, Dwarf_Die *ret)
{
	/* what gcc calls the types that C and clang call otherwise */
	static const char *const others[][2] = {
		{"unsigned", "unsigned int"},
		{"short", "short int"},
		{"unsigned short", "short unsigned int"},
		{"long", "long int"},
		{"unsigned long", "long unsigned int"},
		{"long long", "long long int"},
		{"unsigned long long", "long long unsigned int"},
	};
	int found;

	while (!strncmp(name, "const ", 6) || !strncmp(name, "volatile ", 9))
		name = strchr(name, ' ') + 1;
	found = search(die, name, ret);
	for (size_t i = 0; !found && i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(name, others[i][0]))
			found = search(die, others[i][1], ret);
	return found;
}
