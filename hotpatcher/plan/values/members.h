/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures, unions and classes in debug information: where their members are.
 */
#ifndef IP_VALUES_MEMBERS_H
#define IP_VALUES_MEMBERS_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct ip_value_member {
	Dwarf_Die type;	 /* without typedefs and qualifiers */
	uint64_t offset; /* bytes from the begin of the structure */
	/* of a bit field: number of its bits, and its first one in the byte at offset; 0: it is
	 * none */
	unsigned bits, first_bit;
};

/* Whether the type is a structure, a union or a class. */
bool ip_value_is_aggregate(Dwarf_Die *type);

/* Describes a member, or a base class, of which it is an entry. Returns 0; -1: it is no part of
 * each object (a static member), its place is not constant, or it cannot be read. */
int ip_value_member_describe(Dwarf_Die *member, struct ip_value_member *ret);

/* Finds a member, also in anonymous members and in base classes. type is complete. Returns 1; 0:
 * there is none; -1: its place is not constant (a virtual base). */
int ip_value_member_find(Dwarf_Die *type, const char *name, struct ip_value_member *ret);

/* Lists up to max names of members, also of anonymous members and of base classes. type is
 * complete. Returns their number. */
size_t ip_value_member_list(Dwarf_Die *type, const char **names, size_t max);

/* Names of the members that are nearest to name, or of the first ones if name is NULL (malloc'ed
 * text; NULL: out of memory). */
char *ip_value_member_names(Dwarf_Die *type, const char *name);

/* The type as a user writes it: "struct request" (malloc'ed; NULL: out of memory). */
char *ip_value_type_name(Dwarf_Die *type);

#endif
