/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stripping a module: symbols, debug information and what the linker left for tools go. The loaded
 * bytes, the build-id and every section that is none of these stay.
 */
#ifndef COLD_STRIP_H
#define COLD_STRIP_H

#include "coldpatch/write/elf_tail.h"

/* list: the module's own probe list goes too. */
void cold_strip(struct cold_elf_tail *tail, bool list);

#endif
