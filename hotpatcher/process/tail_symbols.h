/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions across modules: tells what the dynamic linker will write into a table entry
 * that is not bound yet.
 *
 * A name counts only if exactly one module of the process defines it, by one address, and it is no
 * indirect function. Which of several definitions the linker takes depends on the order of loading,
 * on scopes and versions.
 */
#ifndef IP_TAIL_SYMBOLS_H
#define IP_TAIL_SYMBOLS_H

#include "hotpatcher/process/modules.h"

struct ip_tail_symbols;

/* modules is borrowed. The caller destroys the result. NULL with an error if memory ran out. */
struct ip_tail_symbols *ip_tail_symbols_create(const struct ip_modules *modules);
void ip_tail_symbols_destroy(struct ip_tail_symbols *symbols);

/* Whether the dynamic linker binds the pointer at the address slot by name. Any other pointer is
 * the program's, which may change it. */
bool ip_tail_symbols_is_slot(const struct ip_tail_symbols *symbols, uint64_t slot);

/* Where the pointer at the address slot of the process will lead; 0: that is not certain. */
uint64_t ip_tail_symbols_find(const struct ip_tail_symbols *symbols, uint64_t slot);

#endif
