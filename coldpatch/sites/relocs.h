/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocations that the linker kept in a linked module (-q, --emit-relocs). The relocations against
 * the hooks name every call exactly. So no code has to be decoded, and two hooks that share one
 * address can be told apart.
 */
#ifndef COLD_RELOCS_H
#define COLD_RELOCS_H

#include "coldpatch/sites/hooks.h"
#include "coldpatch/sites/sites.h"

struct cold_kept_reloc {
	uint64_t address; /* of the operand */
	uint32_t type;
	enum cold_hook hook;
};

/* Finds the sites that kept relocations name, ascending. Returns 1: there are such relocations; 0:
 * there are none, and there may still be calls; -1 with an error if one of them is at no call. */
int cold_relocs_find(const struct cold_module *module, const struct cold_hooks *hooks,
		     struct cold_sites *ret);

#endif
