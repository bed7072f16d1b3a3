/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NOPs in the code that iprobe-cc did not make: patchable entries, XRay sleds. For
 * coldpatch/sites/arch.h.
 */
#ifndef COLD_X86_64_NOPS_H
#define COLD_X86_64_NOPS_H

#include "coldpatch/elf/module.h"
#include "coldpatch/sites/sites.h"

size_t cold_x86_64_nops(const uint8_t *p, size_t size, size_t want);
bool cold_x86_64_entered(const struct cold_module *module, uint64_t start, uint64_t end);
size_t cold_x86_64_endbr(const uint8_t *p, size_t size);
size_t cold_x86_64_call(const uint8_t *p, size_t size, uint64_t address, uint64_t *ret_target);
bool cold_x86_64_returns(const uint8_t *p, size_t size);
bool cold_x86_64_sled(const uint8_t *p, size_t size, bool exit, struct cold_site *ret);
void cold_x86_64_after(const struct cold_site *site, uint8_t *ret);
/* Writes size bytes of NOPs. */
void cold_x86_64_fill(uint8_t *p, size_t size);

#endif
