/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a linker leaves in a module for -q (--emit-relocs) alone: relocation sections that are not
 * loaded, symbols of sections and of the compiler's own labels.
 */
#ifndef COLD_EMIT_RELOCS_H
#define COLD_EMIT_RELOCS_H

#include "coldpatch/write/elf_tail.h"

/* Whether there are such sections. */
bool cold_emit_relocs_exist(const struct cold_module *module);

/* Takes them off, and with them the symbols that nothing else names. */
void cold_emit_relocs_drop(struct cold_elf_tail *tail);

#endif
