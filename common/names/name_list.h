/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first few names of a list that may be long, for a message: "parse, lex, ...".
 */
#ifndef IP_NAME_LIST_H
#define IP_NAME_LIST_H

#include <stddef.h>
#include <stdint.h>

#define IP_NAMES_TOLD	  3u
#define IP_NAME_LIST_TEXT 256u

struct ip_name_list {
	size_t n; /* of all functions */
	uint32_t shown;
	/* demangled, short; where a name is longer, it ends in "..." */
	char names[IP_NAMES_TOLD][64];
};

/* Counts a function, by its linker name. The first ones are shown. */
void ip_name_list_add(struct ip_name_list *list, const char *linker_name);
/* Takes one away that was counted before. */
void ip_name_list_remove(struct ip_name_list *list, const char *linker_name);
/* Returns the name as messages have it, without parameters and in its short form (short_name.h);
 * malloc'ed, NULL where memory ran out. */
char *ip_name_for_people(const char *linker_name);
/* Adds those of another list. */
void ip_name_list_join(struct ip_name_list *to, const struct ip_name_list *from);
/* Writes "parse, lex, ...": what is not shown is dots. "" if there is none. Returns text. */
const char *ip_name_list_text(const struct ip_name_list *list, char text[IP_NAME_LIST_TEXT]);

#endif
