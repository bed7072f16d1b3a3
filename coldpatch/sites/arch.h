/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ColdPatch must know of a machine's code. One table per architecture; the
 * code stands in arch/NAME/.
 */
#ifndef COLD_ARCH_H
#define COLD_ARCH_H

#include "coldpatch/sites/hooks.h"
#include "coldpatch/sites/relocs.h"
#include "coldpatch/sites/sites.h"

struct cold_arch {
	uint32_t machine;

	/* What reading a module asks of the machine. */
	struct cold_module_code module;

	/* A dynamic relocation of a slot that will hold a symbol's address. */
	bool (*reloc_is_slot)(uint32_t type);
	/* One whose addend is the address of a function to be run while the module is relocated. */
	bool (*reloc_is_resolved)(uint32_t type);

	/* A linker's stub of the module at p (address; size bytes left): returns its length up
	 * to the end of the jump, 0 where there is none, and the slot that it jumps through. */
	size_t (*stub)(const struct cold_module *module, const uint8_t *p, size_t size,
		       uint64_t address, uint64_t *ret_slot);

	/* Decodes all code: what jumps where, which functions return. Finds all sites besides,
	 * with -1 and an error where a reference to a hook cannot be turned into a NOP; or,
	 * where exact says that the sites are known already, looks at nothing else about them
	 * than where their instructions begin. */
	int (*sweep)(struct cold_module *module, const struct cold_hooks *hooks, bool exact,
		     struct cold_sites *sites);

	/* The call or jump that a relocation against a hook belongs to. -1 with an error where
	 * there is none, or none that can be turned into a NOP. */
	int (*kept_site)(const struct cold_module *module, const struct cold_hooks *hooks,
			 const struct cold_kept_reloc *reloc, struct cold_site *ret);

	/* Whether the function at p (size bytes left) does nothing but return. */
	bool (*is_empty_function)(const uint8_t *p, size_t size);

	/* Other people's NOPs; all of them NULL where a machine has none that we know.
	 * How many bytes of whole NOP instructions from p on are the first that reach want; 0:
	 * something else comes before. */
	size_t (*nops)(const uint8_t *p, size_t size, size_t want);
	/* Whether a direct jump of the function there leads behind start and in front of end. */
	bool (*entered)(const struct cold_module *module, uint64_t start, uint64_t end);
	/* Length of the landing mark of indirect calls at p; 0: none. */
	size_t (*endbr)(const uint8_t *p, size_t size);
	/* Whether the code at address looks at none of the flags before it sets them or leaves the
	 * function. */
	bool (*flags_dead)(const struct cold_module *module, uint64_t address);
	/* Whether a call stands at p, which is at address: its length, and where it goes; 0:
	 * none. */
	size_t (*call)(const uint8_t *p, size_t size, uint64_t address, uint64_t *ret_target);
	/* Whether a return stands at p. */
	bool (*returns)(const uint8_t *p, size_t size);
	/* Whether p is a sled of XRay as the compiler made it; fills in kind, length, regs and what
	 * is to follow. */
	bool (*sled)(const uint8_t *p, size_t size, bool exit, struct cold_site *ret);
	/* The after_length bytes behind a site. */
	void (*after)(const struct cold_site *site, uint8_t *ret);

	/* Follows the first argument to each site of the sites and fills in what it found; of
	 * sites that are NOPs already, how they nest and where the stack pointer stands. */
	int (*flow)(struct cold_module *module, const struct cold_hooks *hooks,
		    struct cold_sites *sites);
};

extern const struct cold_arch cold_arch_x86_64;
extern const struct cold_arch cold_arch_i386;

/* NULL where we do not know the machine. */
const struct cold_arch *cold_arch_for_machine(uint32_t machine);
/* What cold_module_open() asks of it; NULL where we do not know the machine. */
const struct cold_module_code *cold_arch_module_code(uint32_t machine);

#endif
