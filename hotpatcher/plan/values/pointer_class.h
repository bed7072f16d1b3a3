/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of C++ that stand for a pointer: std::unique_ptr, std::shared_ptr, iterators, and what
 * else has an operator-> and one member that it can return.
 */
#ifndef IP_VALUES_POINTER_CLASS_H
#define IP_VALUES_POINTER_CLASS_H

#include <stdbool.h>

#include "hotpatcher/plan/values/members.h"

/* Finds the pointer that operator-> of the class returns: its only member, also in members and base
 * classes, that points to the same type. indexed: also the first element of a std::vector, or of
 * the array of a std::unique_ptr or std::shared_ptr. type is complete. Returns whether there is
 * one. */
bool ip_value_pointer_class_find(Dwarf_Die *type, bool indexed, struct ip_value_member *ret);

#endif
