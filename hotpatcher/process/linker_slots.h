/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointers of a module that the dynamic linker binds by name: through them code calls functions
 * of other modules.
 */
#ifndef IP_LINKER_SLOTS_H
#define IP_LINKER_SLOTS_H

#include <stdint.h>

#include "common/elf/elf_file.h"

/* Calls visit for each of them: the link-time address of the pointer, and the name that it is bound
 * by, which belongs to the file. Ends if visit returns -1. The file is input from outside: libelf
 * checks offsets and sizes, and a name that lies outside of its table does not count. Returns 0, or
 * -1: what visit returned. */
int ip_linker_slots_each(const struct ip_elf_file *elf,
			 int (*visit)(void *context, uint64_t slot, const char *name),
			 void *context);

/* Bytes of tables that libelf reads into memory, at most: a process may have files with holes that
 * say they are tables. */
#define IP_LINKER_TABLES_MOST (512ull << 20)

/* How many bytes it would read of a module: its dynamic symbols and their names, relocations. Above
 * the limit it is any number above it. */
uint64_t ip_linker_tables_size(const struct ip_elf_file *elf);

#endif
