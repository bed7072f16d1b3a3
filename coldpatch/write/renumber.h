/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections and symbols are called by number: in section headers, symbol tables, relocations and
 * groups. When some have gone, and others have been put between, everything that names one is
 * written anew, as objcopy does it.
 */
#ifndef COLD_RENUMBER_H
#define COLD_RENUMBER_H

#include "coldpatch/write/elf_tail.h"

/*
 * order: the n sections that the file will have, by their numbers in tail, in the order of their
 * new ones; 0 first. Headers stand in that order afterwards, and where contents change tail has the
 * new ones; those of tables that are loaded are to be written to where they are
 * (cold_elf_tail.contents of a section with SHF_ALLOC). 0, or -1 with an error.
 */
int cold_renumber(struct cold_elf_tail *tail, const uint32_t *order, size_t n);

#endif
