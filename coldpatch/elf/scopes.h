/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells which function, inlined or not, the code at an address belongs to. The table holds all
 * ranges of functions in the debug information, which is read once.
 */
#ifndef COLD_SCOPES_H
#define COLD_SCOPES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cold_scope {
	uint64_t start, end;
	Dwarf_Die die;
	uint32_t depth;	 /* depth of nesting */
	uint32_t parent; /* the innermost scope around it; COLD_SCOPE_NONE */
	bool inlined;
};

#define COLD_SCOPE_NONE UINT32_MAX

struct cold_scopes {
	struct cold_scope *scopes; /* ascending by start, outer ones first */
	size_t n;
};

/* Adds the functions of a unit. Returns 0, or -1: out of memory. */
int cold_scopes_add(struct cold_scopes *scopes, Dwarf_Die *unit);
/* Sorts the table. Call it once, after the last unit. */
void cold_scopes_sort(struct cold_scopes *scopes);
/* Returns the innermost scope that holds address; NULL if there is none. */
struct cold_scope *cold_scopes_at(const struct cold_scopes *scopes, uint64_t address);
void cold_scopes_destroy(struct cold_scopes *scopes);

#endif
