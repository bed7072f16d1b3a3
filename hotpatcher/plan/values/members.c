/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds members of structures. The debug information is input from outside: nesting is bounded, and
 * each number is checked where it is read.
 */
#include "hotpatcher/plan/values/members.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/selection/selection.h"
#include "hotpatcher/plan/value_types.h"
#include "hotpatcher/plan/values/type_search.h"

#define DEPTH_MAX   16u
#define OFFSET_MAX  (1ull << 31)
#define NAMES_MAX   512u
#define NAMES_SHOWN 4u

bool ip_value_is_aggregate(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

/* Reads a constant attribute. Returns 1 and sets *ret; 0: there is no such attribute; -1: it is no
 * constant that could be right. */
static int constant(Dwarf_Die *die, unsigned name, uint64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Word word;

	if (!dwarf_attr(die, name, &attr))
		return 0;
	if (dwarf_formudata(&attr, &word) != 0 || word > OFFSET_MAX)
		return -1;
	*ret = word;
	return 1;
}

/* Where a member begins, in bytes; DWARF 2 and 3 say it as an expression. 0, or -1. */
static int location_of(Dwarf_Die *member, uint64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Op *expression;
	size_t length;

	*ret = 0;
	if (constant(member, DW_AT_data_member_location, ret) >= 0)
		return 0;
	if (!dwarf_attr(member, DW_AT_data_member_location, &attr) ||
	    dwarf_getlocation(&attr, &expression, &length) != 0 || length != 1 ||
	    expression[0].atom != DW_OP_plus_uconst || expression[0].number > OFFSET_MAX)
		return -1;
	*ret = expression[0].number;
	return 0;
}

/* Sets the place of a member that has DW_AT_bit_size. Before DWARF 5, DW_AT_bit_offset counts from
 * the highest bit of the unit that holds the field. */
static int bit_field(Dwarf_Die *member, uint64_t bits, struct ip_value_member *ret)
{
	uint64_t first, size, from_top, at;
	Dwarf_Word unit;

	if (!bits || bits > 64 || location_of(member, &at) < 0)
		return -1;
	if (constant(member, DW_AT_data_bit_offset, &first) == 1) {
		first += at * 8;
	} else if (constant(member, DW_AT_bit_offset, &from_top) == 1) {
		if (constant(member, DW_AT_byte_size, &size) != 1) {
			if (dwarf_aggregate_size(&ret->type, &unit) != 0)
				return -1;
			size = unit;
		}
		if (size > 16 || from_top + bits > size * 8)
			return -1;
		first = at * 8 + size * 8 - from_top - bits;
	} else {
		first = at * 8;
	}
	ret->offset = first / 8;
	ret->first_bit = first % 8;
	ret->bits = bits;
	return ret->first_bit + bits <= 64 ? 0 : -1;
}

static bool is_static(Dwarf_Die *die)
{
	return dwarf_hasattr(die, DW_AT_external) || dwarf_hasattr(die, DW_AT_declaration);
}

int ip_value_member_describe(Dwarf_Die *member, struct ip_value_member *ret)
{
	struct ip_value_type type;
	uint64_t bits = 0;
	int is_bits = constant(member, DW_AT_bit_size, &bits);

	*ret = (struct ip_value_member){0};
	if (is_static(member) || ip_value_type_of(member, &type) <= 0 || is_bits < 0)
		return -1;
	ret->type = type.die;
	return is_bits ? bit_field(member, bits, ret) : location_of(member, &ret->offset);
}

static int find(Dwarf_Die *type, const char *name, unsigned depth, struct ip_value_member *ret);

/* Looks into an anonymous member, or into a base class. */
static int find_inside(Dwarf_Die *die, const char *name, unsigned depth,
		       struct ip_value_member *ret)
{
	struct ip_value_member outer;
	int found;

	if (ip_value_member_describe(die, &outer) < 0) {
		struct ip_value_type type;

		/* a virtual base: whether it has the member can be told, but not where */
		if (ip_value_type_of(die, &type) <= 0 || ip_value_type_complete(&type.die) < 0)
			return 0;
		return find(&type.die, name, depth + 1, ret) ? -1 : 0;
	}
	if (!ip_value_is_aggregate(&outer.type) || ip_value_type_complete(&outer.type) < 0)
		return 0;
	found = find(&outer.type, name, depth + 1, ret);
	if (found > 0)
		ret->offset += outer.offset;
	return found;
}

static int find(Dwarf_Die *type, const char *name, unsigned depth, struct ip_value_member *ret)
{
	Dwarf_Die die;
	int found = 0;

	if (depth > DEPTH_MAX || dwarf_child(type, &die) != 0)
		return 0;
	/* its own members hide those of base classes */
	do {
		const char *own = dwarf_diename(&die);

		if (dwarf_tag(&die) == DW_TAG_member && own && !strcmp(own, name) &&
		    !is_static(&die))
			return ip_value_member_describe(&die, ret) < 0 ? -1 : 1;
	} while (dwarf_siblingof(&die, &die) == 0);
	if (dwarf_child(type, &die) != 0)
		return 0;
	do {
		int tag = dwarf_tag(&die);

		if ((tag == DW_TAG_member && !dwarf_diename(&die) && !is_static(&die)) ||
		    tag == DW_TAG_inheritance)
			found = find_inside(&die, name, depth, ret);
	} while (!found && dwarf_siblingof(&die, &die) == 0);
	return found;
}

int ip_value_member_find(Dwarf_Die *type, const char *name, struct ip_value_member *ret)
{
	return find(type, name, 0, ret);
}

/* Collects names of members, those of anonymous members and base classes, too. */
static void collect(Dwarf_Die *type, unsigned depth, const char **names, size_t max, size_t *n)
{
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(type, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);
		const char *name = dwarf_diename(&die);
		struct ip_value_type inner;

		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || *n == max)
			continue;
		if (tag == DW_TAG_member && name) {
			if (!is_static(&die))
				names[(*n)++] = name;
		} else if (ip_value_type_of(&die, &inner) > 0 &&
			   ip_value_is_aggregate(&inner.die) &&
			   ip_value_type_complete(&inner.die) == 0) {
			collect(&inner.die, depth + 1, names, max, n);
		}
	} while (dwarf_siblingof(&die, &die) == 0);
}

size_t ip_value_member_list(Dwarf_Die *type, const char **names, size_t max)
{
	size_t n = 0;

	collect(type, 0, names, max, &n);
	return n;
}

char *ip_value_member_names(Dwarf_Die *type, const char *name)
{
	const char **names = calloc(NAMES_MAX, sizeof(*names));
	struct ip_selection *selection = NULL;
	char *text = NULL;
	size_t n = 0, size;
	FILE *out;

	if (!names)
		return NULL;
	collect(type, 0, names, NAMES_MAX, &n);
	if (name && ip_selection_parse_names(name, &selection) == 0)
		text = ip_selection_nearest(selection, names, n);
	ip_selection_destroy(selection);
	if (!text || !*text) { /* none is near: the first ones */
		free(text);
		text = NULL;
		out = open_memstream(&text, &size);
		for (size_t i = 0; out && i < n && i < NAMES_SHOWN; i++)
			fprintf(out, "%s%s", i ? ", " : "", names[i]);
		if (out && n > NAMES_SHOWN)
			fprintf(out, ", ...");
		if (out)
			fclose(out);
	}
	free(names);
	return text;
}

char *ip_value_type_name(Dwarf_Die *type)
{
	const char *name = dwarf_diename(type), *kind;
	char *text;

	switch (dwarf_tag(type)) {
	case DW_TAG_structure_type:
		kind = "struct ";
		break;
	case DW_TAG_union_type:
		kind = "union ";
		break;
	case DW_TAG_class_type:
		kind = "class ";
		break;
	case DW_TAG_enumeration_type:
		kind = "enum ";
		break;
	case DW_TAG_pointer_type:
		return strdup("a pointer");
	case DW_TAG_array_type:
		return strdup("an array");
	default:
		kind = "";
	}
	return asprintf(&text, "%s%s", kind, name ? name : "(anonymous)") < 0 ? NULL : text;
}
