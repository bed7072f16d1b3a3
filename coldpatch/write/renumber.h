/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section headers, symbol tables, relocations and groups name sections and symbols by number. When
 * sections were dropped or added, this rewrites everything that names one, as objcopy does.
 */
#ifndef COLD_RENUMBER_H
#define COLD_RENUMBER_H

#include "coldpatch/write/elf_end.h"

/*
 * order: the n sections that the file will have, by their numbers in tail, in the order of their
 * new numbers; 0 is first. Afterwards the headers stand in that order. Where contents change, tail
 * holds the new contents. Those of tables that are loaded must be written to the place where the
 * tables are (cold_elf_end.contents of a section with SHF_ALLOC). Returns 0, or -1 with an error.
 */
int cold_renumber(struct cold_elf_end *tail, const uint32_t *order, size_t n);

#endif
