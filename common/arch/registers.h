/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of general registers, as assemblers print them.
 *
 * To add an architecture: common/arch/NAME/registers.c.
 */
#ifndef IP_REGISTERS_H
#define IP_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>

/* The register of that name (without the '%'): its number in the machine's own count, and how
 * many of its low bytes the name means. false: there is none. The program counter is none. */
bool ip_register_by_name(const char *name, size_t length, unsigned *ret_number, unsigned *ret_size);

/* Name of the low size bytes of a register; NULL where it has none. */
const char *ip_register_name(unsigned number, unsigned size);

/* Whether the name is the program counter's, which an address of a symbol is given relative to. */
bool ip_register_is_pc(const char *name, size_t length);

#endif
