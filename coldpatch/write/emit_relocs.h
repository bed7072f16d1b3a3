/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a linker leaves in a module for -q (--emit-relocs) alone: relocation sections that are not loaded, symbols of sections and
 * of the compiler's own labels.
 */
#ifndef COLD_LEFTOVERS_H
#define COLD_LEFTOVERS_H

#include "coldpatch/write/elf_tail.h"

/* Whether there are such sections. */
bool cold_leftovers_exist(const struct cold_module *module);

/* Takes them off, and with them the symbols that nothing else names. */
void cold_leftovers_drop(struct cold_tail *tail);

#endif
