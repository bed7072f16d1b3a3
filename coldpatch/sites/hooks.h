/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two instrumentation functions of -finstrument-functions as a module sees them: the slots of
 * its global offset table that hold their addresses, and the stubs that jump through those slots.
 */
#ifndef COLD_HOOKS_H
#define COLD_HOOKS_H

#include "coldpatch/elf/hook_name.h"
#include "coldpatch/elf/module.h"

#define COLD_HOOKS_MAX 32

struct cold_hook_place {
	uint64_t address;
	enum cold_hook hook;
	bool slot; /* it holds the address; else it is code: a stub, or the function itself */
};

/* A stub of the linker, for any function. */
struct cold_stub {
	uint64_t address; /* the address that calls go to */
	uint64_t slot;
};

struct cold_hooks {
	struct cold_hook_place places[COLD_HOOKS_MAX];
	size_t n;
	uint64_t lowest, highest; /* range of the places' addresses, for a quick negative answer */
	const char *defined;	  /* the hook that the module defines itself; NULL: none */
	uint64_t defined_address;
	bool empty;		 /* all hooks that the module defines do nothing */
	bool shared_address;	 /* both hooks are the same function: a static link with libc */
	struct cold_stub *stubs; /* all stubs, ascending by address */
	size_t nstubs;
};

/* Finds the hooks. Returns 0, or -1 with an error: the module refers to a hook in a way that a NOP
 * cannot replace. */
int cold_hooks_find(const struct cold_module *module, struct cold_hooks *ret);
void cold_hooks_destroy(struct cold_hooks *hooks);

/* Tells which hook the code or the slot at address is. */
enum cold_hook cold_hook_at(const struct cold_hooks *hooks, uint64_t address, bool slot);

/* Returns the name of the function that the stub at address leads to; NULL if there is no stub. */
const char *cold_stub_name(const struct cold_module *module, const struct cold_hooks *hooks,
			   uint64_t address);

#endif
