/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the type of a variable to the member at an offset. Depth, sizes and counts are bounded:
 * debug information is input from outside.
 */
#include "analysis/wait/variable_member.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX  16
#define PEELED_MAX 32 /* typedefs and qualifiers, which may lead to themselves */

struct way {
	char *text;
	size_t size, n;
};

static void put(struct way *w, const char *before, const char *name, uint64_t number)
{
	int n = name ? snprintf(w->text + w->n, w->size - w->n, "%s%s", before, name)
		     : snprintf(w->text + w->n, w->size - w->n, "%s%" PRIu64 "]", before, number);

	w->n = n < 0 || (size_t)n >= w->size - w->n ? w->size - 1 : w->n + n;
}

/* The type of a DIE without typedefs and qualifiers. */
static bool type_of(Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute attribute;

	for (int i = 0; i < PEELED_MAX; i++, die = ret) {
		if (!dwarf_attr_integrate(die, DW_AT_type, &attribute) ||
		    !dwarf_formref_die(&attribute, ret))
			return false;
		switch (dwarf_tag(ret)) {
		case DW_TAG_typedef:
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_atomic_type:
			continue;
		default:
			return true;
		}
	}
	return false;
}

static bool member_at(struct way *w, Dwarf_Die *type, uint64_t offset, int depth);

static bool in_struct(struct way *w, Dwarf_Die *type, uint64_t offset, int depth)
{
	Dwarf_Die child, inner;

	if (dwarf_child(type, &child) != 0)
		return false;
	do {
		Dwarf_Attribute attribute;
		Dwarf_Word at, size;
		const char *name = dwarf_diename(&child);

		if ((dwarf_tag(&child) != DW_TAG_member &&
		     dwarf_tag(&child) != DW_TAG_inheritance) ||
		    !dwarf_attr(&child, DW_AT_data_member_location, &attribute) ||
		    dwarf_formudata(&attribute, &at) != 0 || !type_of(&child, &inner) ||
		    dwarf_aggregate_size(&inner, &size) != 0 || offset < at || offset - at >= size)
			continue;
		if (dwarf_tag(&child) == DW_TAG_member && name)
			put(w, ".", name, 0);
		return member_at(w, &inner, offset - at, depth + 1);
	} while (dwarf_siblingof(&child, &child) == 0);
	return false;
}

static bool in_array(struct way *w, Dwarf_Die *type, uint64_t offset, int depth)
{
	Dwarf_Die element;
	Dwarf_Word size;

	if (!type_of(type, &element) || dwarf_aggregate_size(&element, &size) != 0 || !size)
		return false;
	put(w, "[", NULL, offset / size);
	return member_at(w, &element, offset % size, depth + 1);
}

/* A lock is a structure or union of its own: the way ends at a type that the program did not
 * declare the members of by itself (pthread_mutex_t is a union). */
static bool member_at(struct way *w, Dwarf_Die *type, uint64_t offset, int depth)
{
	if (depth > DEPTH_MAX)
		return false;
	switch (dwarf_tag(type)) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
		return in_struct(w, type, offset, depth) || offset == 0;
	case DW_TAG_array_type:
		return in_array(w, type, offset, depth);
	case DW_TAG_union_type: /* which member it is is not told: the union as a whole */
		return true;
	default:
		return offset == 0;
	}
}

static bool is_at(Dwarf_Die *die, uint64_t address)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t n;

	return dwarf_attr_integrate(die, DW_AT_location, &attribute) &&
	       dwarf_getlocation(&attribute, &ops, &n) == 0 && n == 1 &&
	       ops[0].atom == DW_OP_addr && ops[0].number == address;
}

/* The variable of a compilation unit that is at the address. */
static bool find_variable(Dwarf_Die *unit, uint64_t address, Dwarf_Die *ret)
{
	if (dwarf_child(unit, ret) != 0)
		return false;
	do {
		if (dwarf_tag(ret) == DW_TAG_variable && is_at(ret, address))
			return true;
	} while (dwarf_siblingof(ret, ret) == 0);
	return false;
}

bool ip_variable_member(Dwarf *dwarf, uint64_t address, uint64_t offset, char *ret, size_t size)
{
	struct way w = {ret, size, 0};
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit, variable, type;
	bool found = false;

	*ret = '\0';
	while (dwarf && !found && dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0)
		found = find_variable(&unit, address, &variable);
	return found && type_of(&variable, &type) && member_at(&w, &type, offset, 0);
}
