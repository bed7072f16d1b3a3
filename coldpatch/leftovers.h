/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a linker leaves in a module for -q (--emit-relocs) alone: relocation sections that are not loaded, symbols of sections and
 * of the compiler's own labels.
 */
#ifndef COLD_LEFTOVERS_H
#define COLD_LEFTOVERS_H

#include "coldpatch/tail.h"

/* Whether there are such sections. */
bool cold_leftovers_exist(const struct cold_module *module);

/* Takes them off. *ret_symbols is what the symbol table becomes (caller frees it after cold_tail_write()); NULL: stays as it is. */
int cold_leftovers_drop(const struct cold_module *module, struct cold_tail *tail, void **ret_symbols);

#endif
