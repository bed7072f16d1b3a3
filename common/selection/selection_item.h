/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a selection, for selection*.c only.
 */
#ifndef IP_SELECTION_ITEM_H
#define IP_SELECTION_ITEM_H

#include <stdbool.h>
#include <stddef.h>

enum ip_selection_kind {
	IP_SELECT_FUNCTION,
	IP_SELECT_FILE,
	IP_SELECT_LIB,
};

#define IP_SELECTION_NEAREST 3

/* Names that come near to what was wanted, the nearest first; owned. */
struct ip_selection_near {
	struct {
		unsigned distance;
		char *name;
	} best[IP_SELECTION_NEAREST];
};

struct ip_selection_item {
	enum ip_selection_kind kind;
	bool negative;
	bool has_paren; /* the glob contains arguments */
	bool has_list;	/* the glob contains a '<' or '>' of template arguments */
	bool used;	/* it has matched something */
	bool from_name; /* it is an item of a named selection */
	char *glob;
	/* files or modules near to the glob of an item that has matched nothing so far */
	struct ip_selection_near paths;
};

struct ip_selection {
	struct ip_selection_item *items;
	size_t nitems, npositive;
};

/* Takes note of a file or module that the item has been compared with and does not match. */
void ip_selection_note_path(struct ip_selection_item *item, const char *path);

/* Whether the glob of a function looks like the name of a source file. */
bool ip_selection_is_source(const char *glob);

void ip_selection_near_clear(struct ip_selection_near *near);

/* A copy (malloc'ed) of a demangled name without its "[abi:...]"; NULL if it has none. */
char *ip_without_abi_tags(const char *name);

#endif
