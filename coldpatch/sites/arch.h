/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ColdPatch must know about a machine's code. There is one table for each architecture; its
 * code is in arch/NAME/.
 */
#ifndef COLD_ARCH_H
#define COLD_ARCH_H

#include "coldpatch/sites/hooks.h"
#include "coldpatch/sites/relocs.h"
#include "coldpatch/sites/sites.h"

struct cold_arch {
	uint32_t machine;

	/* The functions that reading a module needs. */
	struct cold_module_code module;

	/* Whether a dynamic relocation fills a slot with the address of a symbol. */
	bool (*reloc_is_slot)(uint32_t type);
	/* Whether the addend of a relocation is the address of a function that runs while the
	 * module is relocated. */
	bool (*reloc_is_resolved)(uint32_t type);

	/* Recognises a stub of the module's linker at p. p lies at address and has size bytes left.
	 * Returns the stub's length up to the end of its jump, and the slot that it jumps through;
	 * 0 if there is no stub. */
	size_t (*stub)(const struct cold_module *module, const uint8_t *p, size_t size,
		       uint64_t address, uint64_t *ret_slot);

	/* Decodes all code to learn what jumps where, and which functions return. It also finds
	 * all sites. It returns -1 with an error if a reference to a hook cannot be turned into
	 * a NOP. exact: the sites are known already; then it looks only at where their
	 * instructions begin. */
	int (*sweep)(struct cold_module *module, const struct cold_hooks *hooks, bool exact,
		     struct cold_sites *sites);

	/* Gives the call or jump that a relocation against a hook belongs to. Returns -1 with an
	 * error if there is none, or if it cannot be turned into a NOP. */
	int (*kept_site)(const struct cold_module *module, const struct cold_hooks *hooks,
			 const struct cold_kept_reloc *reloc, struct cold_site *ret);

	/* Whether the function at p (size bytes left) does nothing but return. */
	bool (*is_empty_function)(const uint8_t *p, size_t size);

	/* The functions from here to after() serve NOPs that iprobe-cc did not make. All of them
	 * are NULL if no such NOPs are known for a machine. nops() adds up the NOP instructions
	 * from p on until they have want bytes or more. It returns that number of bytes; 0 if
	 * another instruction comes before. */
	size_t (*nops)(const uint8_t *p, size_t size, size_t want);
	/* Whether a direct jump in the function at start leads to an address between start and
	 * end. */
	bool (*entered)(const struct cold_module *module, uint64_t start, uint64_t end);
	/* Length of the landing mark for indirect calls at p; 0: none. */
	size_t (*endbr)(const uint8_t *p, size_t size);
	/* Whether the code at address sets all arithmetic flags, or leaves the function, before it
	 * reads any. */
	bool (*flags_dead)(const struct cold_module *module, uint64_t address);
	/* Whether a call stands at p, which lies at address. Returns its length and its target; 0
	 * if there is none. */
	size_t (*call)(const uint8_t *p, size_t size, uint64_t address, uint64_t *ret_target);
	/* Whether a return stands at p. */
	bool (*returns)(const uint8_t *p, size_t size);
	/* Whether p is an XRay sled as the compiler made it. Fills in kind, length, regs and
	 * after. */
	bool (*sled)(const uint8_t *p, size_t size, bool exit, struct cold_site *ret);
	/* Gives the after_length bytes that stand behind a site. */
	void (*after)(const struct cold_site *site, uint8_t *ret);

	/* Follows the first argument to each site and fills in the result. For sites that are NOPs
	 * already it fills in their nesting and the position of the stack pointer. */
	int (*flow)(struct cold_module *module, const struct cold_hooks *hooks,
		    struct cold_sites *sites);
};

extern const struct cold_arch cold_arch_x86_64;
extern const struct cold_arch cold_arch_i386;

/* Returns NULL for an unknown machine. */
const struct cold_arch *cold_arch_for_machine(uint32_t machine);
/* Returns the functions that cold_module_open() needs; NULL for an unknown machine. */
const struct cold_module_code *cold_arch_module_code(uint32_t machine);

#endif
