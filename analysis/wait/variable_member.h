/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which member of a variable an address is in, by the debug information: "db.lock", "locks[3]".
 */
#ifndef IP_VARIABLE_MEMBER_H
#define IP_VARIABLE_MEMBER_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* dwarf: of the module; NULL: it has none. address: of the variable, as linked. offset: from there.
 * Writes the way from the variable to the member, ".lock", "[3].lock", shortened to size. Returns
 * false: the file has no debug information of it, or the way is not clear (a union). */
bool ip_variable_member(Dwarf *dwarf, uint64_t address, uint64_t offset, char *ret, size_t size);

#endif
