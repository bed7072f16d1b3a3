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

struct ip_selection_item {
	enum ip_selection_kind kind;
	bool negative;
	bool has_paren; /* the glob contains arguments */
	bool has_list;	/* the glob contains a '<' or '>' of template arguments */
	bool used;	/* it has matched something */
	bool from_name; /* it is an item of a named selection */
	char *glob;
};

struct ip_selection {
	struct ip_selection_item *items;
	size_t nitems, npositive;
};

/* A copy (malloc'ed) of a demangled name without its "[abi:...]"; NULL if it has none. */
char *ip_without_abi_tags(const char *name);

#endif
