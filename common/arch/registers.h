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

/* Finds the register of that name (without the '%'): its number in the machine's own numbering, and
 * the number of its low bytes that the name means. Returns false if there is none. The program
 * counter does not count as a register here. */
bool ip_register_by_name(const char *name, size_t length, unsigned *ret_number, unsigned *ret_size);

/* Name of the low size bytes of a register; NULL if there is no such name. */
const char *ip_register_name(unsigned number, unsigned size);

/* Whether the name is that of the program counter. Addresses of symbols are given relative to
 * it. */
bool ip_register_is_pc(const char *name, size_t length);

#endif
