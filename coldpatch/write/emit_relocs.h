/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that a linker leaves in a module only because of -q (--emit-relocs): relocation
 * sections that are not loaded, symbols of sections, and symbols of the compiler's own labels.
 */
#ifndef COLD_EMIT_RELOCS_H
#define COLD_EMIT_RELOCS_H

#include "coldpatch/write/elf_end.h"

/* Whether the module has such sections. */
bool cold_emit_relocs_exist(const struct cold_module *module);

/* Drops them, and the symbols that nothing else names. */
void cold_emit_relocs_drop(struct cold_elf_end *tail);

#endif
