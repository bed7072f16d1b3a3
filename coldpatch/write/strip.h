/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strips a module. It removes symbols, debug information, and what the linker left for other tools.
 * It keeps the loaded bytes, the build-id, and every other section.
 */
#ifndef COLD_STRIP_H
#define COLD_STRIP_H

#include "coldpatch/write/elf_end.h"

/* list: remove the module's own probe list, too. */
void cold_strip(struct cold_elf_end *tail, bool list);

#endif
