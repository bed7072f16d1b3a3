/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two instrumentation functions of -finstrument-functions as a module sees
 * them: the slots of its global offset table that hold their addresses and the
 * stubs that jump through those slots.
 */
#ifndef COLD_HOOKS_H
#define COLD_HOOKS_H

#include "coldpatch/elf/hook_name.h"
#include "coldpatch/elf/module.h"

#define COLD_HOOKS_MAX 32

struct cold_hook_place {
	uint64_t address;
	enum cold_hook hook;
	bool slot; /* holds the address; else it is code: a stub, or the function itself */
};

/* A stub of the linker, whatever it leads to. */
struct cold_stub {
	uint64_t address; /* where calls arrive */
	uint64_t slot;
};

struct cold_hooks {
	struct cold_hook_place places[COLD_HOOKS_MAX];
	size_t n;
	uint64_t lowest, highest; /* of the places, for a quick no */
	const char *defined;	  /* the hook that the module defines itself; NULL: none */
	uint64_t defined_address;
	bool empty;		 /* all that the module defines do nothing */
	bool shared_address;	 /* both hooks are one function: a static link with libc */
	struct cold_stub *stubs; /* all, ascending by address */
	size_t nstubs;
};

/* 0, or -1 with an error: the module refers to a hook in a way that a NOP cannot replace. */
int cold_hooks_find(const struct cold_module *module, struct cold_hooks *ret);
void cold_hooks_destroy(struct cold_hooks *hooks);

/* Which hook the code or the slot at address is. */
enum cold_hook cold_hook_at(const struct cold_hooks *hooks, uint64_t address, bool slot);

/* Name of the function that the stub at address leads to; NULL where there is none. */
const char *cold_stub_name(const struct cold_module *module, const struct cold_hooks *hooks,
			   uint64_t address);

#endif
