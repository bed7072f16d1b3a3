/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types by name: in the unit of a function, and in the others of its module.
 */
#ifndef IP_VALUES_TYPE_SEARCH_H
#define IP_VALUES_TYPE_SEARCH_H

#include <elfutils/libdw.h>

/* Finds the complete type if *type is only declared: in another unit, by its name and the
 * namespaces around it. Returns 0; -1: there is none, or there are several that differ. */
int ip_value_type_complete(Dwarf_Die *type);

/* Finds a type by the name that a user writes: "request", "struct request", "ns::list<int>",
 * "unsigned int". First in the unit of die, then in all units of the module. The result is without
 * typedefs and qualifiers. Returns 1; 0: there is none; -1: there are several that differ, in other
 * units. */
int ip_value_type_search(Dwarf_Die *die, const char *name, Dwarf_Die *ret);

#endif
