/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ColdPatch must know of a machine's code. One table per architecture; the
 * code stands in arch/NAME/.
 */
#ifndef COLD_ARCH_H
#define COLD_ARCH_H

#include "coldpatch/hooks.h"
#include "coldpatch/sites.h"

struct cold_arch {
	uint32_t machine;

	/* Kinds of dynamic relocation: a slot that will hold a symbol's address; one that will hold base +
	 * addend. */
	bool (*reloc_is_slot)(uint32_t type);
	bool (*reloc_is_relative)(uint32_t type);

	/* A linker's stub at p (address; size bytes left): returns its length up to the end of the jump, 0
	 * where there is none, and the slot that it jumps through. */
	size_t (*stub)(const uint8_t *p, size_t size, uint64_t address, uint64_t *ret_slot);

	/* Finds all sites. -1 with an error where a reference to a hook cannot be turned into a NOP. */
	int (*sweep)(struct cold_module *module, const struct cold_hooks *hooks, struct cold_sites *sites);

	/* Checks the sites against relocations that the linker kept. -1 with an error where they do not
	 * agree. */
	int (*check_kept)(const struct cold_module *module, const struct cold_sites *sites);

	/* Follows the first argument to each site of the sites and fills in what it found. */
	int (*flow)(struct cold_module *module, const struct cold_hooks *hooks, struct cold_sites *sites);
};

extern const struct cold_arch cold_arch_x86_64;

/* NULL where we do not know the machine. */
const struct cold_arch *cold_arch_for_machine(uint32_t machine);

#endif
