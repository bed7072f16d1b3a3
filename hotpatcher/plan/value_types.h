/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of values in debug information, and how a signature names them (common/values.h).
 */
#ifndef IP_VALUE_TYPES_H
#define IP_VALUE_TYPES_H

#include <elfutils/libdw.h>
#include <stdint.h>
#include <stdio.h>

struct ip_value_type {
	char item[4];  /* as in a signature: "i4", "s"; "-": not recorded */
	uint8_t size;  /* number of its bytes that count, 1..8; 16: x87 */
	uint8_t flags; /* IP_VALUE_SIGNED, IP_VALUE_STRING */
	Dwarf_Die die; /* without typedefs and qualifiers */
};

/* Reads the type in the attribute DW_AT_type of die, or of its declaration. Returns 1; 0: it has
 * none (void); -1: it cannot be read. */
int ip_value_type_of(Dwarf_Die *die, struct ip_value_type *ret);

/* Describes a type, which is without typedefs and qualifiers. */
void ip_value_type_from(Dwarf_Die *type, struct ip_value_type *ret);

/* Removes typedefs and qualifiers. Returns 0, or -1. */
int ip_value_type_peel(Dwarf_Die *die, Dwarf_Die *ret);

/* Writes one item of a signature: type, name (NULL: none), enumerators. */
void ip_value_type_write(FILE *out, const struct ip_value_type *type, const char *name);

#endif
