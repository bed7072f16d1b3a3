/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the symbol tables of an ELF file that nobody trusts: a piece at a time, so that a table
 * takes no memory however large the file says it is (a hole of a terabyte costs its owner nothing),
 * and so that the user can end it.
 */
#ifndef IP_ELF_SYMBOLS_H
#define IP_ELF_SYMBOLS_H

#include "common/elf/elf_file.h"

/* Calls visit for each symbol of the file's tables: of the first one of each type (SHT_SYMTAB,
 * SHT_DYNSYM), which are all that a file may have, in the order of the file. Returns 0; -1 with an
 * error: a table cannot be read, or the user wants the end (common/interrupted.h). */
int ip_elf_each_symbol(const struct ip_elf_file *file,
		       void (*visit)(void *context, const GElf_Sym *symbol), void *context);

#endif
