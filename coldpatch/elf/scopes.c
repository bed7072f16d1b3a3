/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the table of the functions' ranges. See scopes.h.
 */
#include "coldpatch/elf/scopes.h"

#include "common/array.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 512 /* of DIEs: no compiler inlines so deep, but a hostile file may */

static int add_ranges(struct cold_scopes *s, Dwarf_Die *die, uint32_t depth, bool inlined)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0) {
		if (start >= end)
			continue;
		if (ip_array_grow(&s->scopes, s->n, sizeof(*s->scopes)))
			return -1;
		s->scopes[s->n++] = (struct cold_scope){.start = start,
							.end = end,
							.die = *die,
							.depth = depth,
							.inlined = inlined};
	}
	return 0;
}

static int walk(struct cold_scopes *s, Dwarf_Die *parent, uint32_t depth)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || dwarf_child(parent, &die))
		return 0;
	do {
		int tag = dwarf_tag(&die);

		switch (tag) {
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
			if (add_ranges(s, &die, depth, tag == DW_TAG_inlined_subroutine))
				return -1;
			/* fall through */
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
			if (walk(s, &die, depth + 1))
				return -1;
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return 0;
}

int cold_scopes_add(struct cold_scopes *s, Dwarf_Die *unit)
{
	return walk(s, unit, 0);
}

static int compare(const void *pa, const void *pb)
{
	const struct cold_scope *a = pa, *b = pb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->end != b->end)
		return a->end > b->end ? -1 : 1;
	return a->depth < b->depth ? -1 : a->depth > b->depth;
}

void cold_scopes_sort(struct cold_scopes *s)
{
	uint32_t around = COLD_SCOPE_NONE;

	if (s->n)
		qsort(s->scopes, s->n, sizeof(*s->scopes), compare);
	for (size_t i = 0; i < s->n; i++) {
		while (around != COLD_SCOPE_NONE && s->scopes[around].end <= s->scopes[i].start)
			around = s->scopes[around].parent;
		s->scopes[i].parent = around;
		around = i;
	}
}

struct cold_scope *cold_scopes_at(const struct cold_scopes *s, uint64_t address)
{
	size_t lo = 0, hi = s->n;
	uint32_t at;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->scopes[mid].start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	at = lo ? lo - 1 : COLD_SCOPE_NONE;
	while (at != COLD_SCOPE_NONE && s->scopes[at].end <= address)
		at = s->scopes[at].parent;
	return at == COLD_SCOPE_NONE ? NULL : &s->scopes[at];
}

void cold_scopes_destroy(struct cold_scopes *s)
{
	free(s->scopes);
	memset(s, 0, sizeof(*s));
}
