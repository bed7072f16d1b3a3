/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the pointer in a class that stands for one. The debug information is input from outside:
 * nesting is bounded, and so is the number of entries that a search looks at.
 */
#include "hotpatcher/plan/values/pointer_class.h"

#include <dwarf.h>
#include <string.h>

#include "hotpatcher/plan/value_types.h"
#include "hotpatcher/plan/values/type_search.h"

#define DEPTH_MAX   16u
#define ENTRIES_MAX 4096u
#define OFFSET_MAX  (1ull << 31)

struct search {
	Dwarf_Die pointee;
	unsigned entries; /* that were looked at */
	unsigned found;
	struct ip_value_member member; /* the first one */
};

static bool goes_on(struct search *s, unsigned depth)
{
	return depth <= DEPTH_MAX && s->entries++ < ENTRIES_MAX;
}

/* What a pointer or a reference refers to. */
static bool pointee_of(Dwarf_Die *type, Dwarf_Die *ret)
{
	struct ip_value_type inner;
	int tag = dwarf_tag(type);

	if ((tag != DW_TAG_pointer_type && tag != DW_TAG_reference_type) ||
	    ip_value_type_of(type, &inner) <= 0)
		return false;
	*ret = inner.die;
	return true;
}

/* Units have entries of their own for the same type. */
static bool is_same(Dwarf_Die *a, Dwarf_Die *b)
{
	const char *name = dwarf_diename(a), *other = dwarf_diename(b);

	return a->addr == b->addr ||
	       (dwarf_tag(a) == dwarf_tag(b) && name && other && !strcmp(name, other));
}

/* The class that a base is, or the type of a member. */
static bool inner_class(Dwarf_Die *die, struct ip_value_member *ret)
{
	return ip_value_member_describe(die, ret) == 0 && ip_value_is_aggregate(&ret->type) &&
	       ip_value_type_complete(&ret->type) == 0;
}

/* Finds the method, also in base classes, and what its result refers to. */
static bool find_operator(struct search *s, Dwarf_Die *type, const char *name, unsigned depth)
{
	struct ip_value_member base;
	struct ip_value_type result;
	Dwarf_Die die;

	if (dwarf_child(type, &die) != 0)
		return false;
	do {
		const char *own = dwarf_diename(&die);

		if (!goes_on(s, depth))
			return false;
		if (dwarf_tag(&die) == DW_TAG_subprogram && own && !strcmp(own, name))
			return ip_value_type_of(&die, &result) > 0 &&
			       pointee_of(&result.die, &s->pointee);
		if (dwarf_tag(&die) == DW_TAG_inheritance && inner_class(&die, &base) &&
		    find_operator(s, &base.type, name, depth + 1))
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

static void find_pointers(struct search *s, Dwarf_Die *type, uint64_t offset, unsigned depth)
{
	Dwarf_Die die, pointee;

	if (dwarf_child(type, &die) != 0)
		return;
	do {
		const int tag = dwarf_tag(&die);
		struct ip_value_member member;

		if (!goes_on(s, depth))
			return;
		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
		    ip_value_member_describe(&die, &member) < 0)
			continue;
		member.offset += offset;
		if (member.offset > OFFSET_MAX)
			continue;
		if (ip_value_is_aggregate(&member.type)) {
			if (ip_value_type_complete(&member.type) == 0)
				find_pointers(s, &member.type, member.offset, depth + 1);
		} else if (dwarf_tag(&member.type) == DW_TAG_pointer_type &&
			   pointee_of(&member.type, &pointee) && is_same(&pointee, &s->pointee)) {
			if (!s->found++)
				s->member = member;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
}

static bool is_template(Dwarf_Die *type, const char *name)
{
	const char *own = dwarf_diename(type);

	return own && !strncmp(own, name, strlen(name)) && own[strlen(name)] == '<';
}

bool ip_value_pointer_class_find(Dwarf_Die *type, bool indexed, struct ip_value_member *ret)
{
	struct search s = {0};
	bool vector = indexed && is_template(type, "vector");

	if (!find_operator(&s, type, "operator->", 0) &&
	    !(indexed &&
	      (vector || is_template(type, "unique_ptr") || is_template(type, "shared_ptr")) &&
	      find_operator(&s, type, "operator[]", 0)))
		return false;
	s.entries = 0;
	find_pointers(&s, type, 0, 0);
	/* begin, end, and the end of its memory */
	if (s.entries > ENTRIES_MAX || (s.found != 1 && !(vector && s.found == 3)))
		return false;
	*ret = s.member;
	return true;
}
