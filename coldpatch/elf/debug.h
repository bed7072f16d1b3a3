/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What debug information says about functions and lines. It is read with libdw. Every answer may be
 * "unknown"; for a module without debug information every answer is.
 */
#ifndef COLD_DEBUG_H
#define COLD_DEBUG_H

#include "coldpatch/elf/module.h"

struct cold_debug;

struct cold_debug_function {
	uint64_t address; /* 0: the function has no code of its own */
	const char *name; /* linker name */
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
};

/* *ret is NULL if the module has no debug information. Returns 0, or -1: out of memory. */
int cold_debug_open(const struct cold_module *module, struct cold_debug **ret);
void cold_debug_close(struct cold_debug *debug);

/* debug may be NULL in all of these functions. Strings live as long as debug. */
const struct cold_debug_function *cold_debug_by_address(const struct cold_debug *debug,
							uint64_t address);
const struct cold_debug_function *cold_debug_by_name(const struct cold_debug *debug,
						     const char *name);

/* Returns the linker name of the innermost function, inlined or not, whose code holds address; NULL
 * if there is none. The hooks do not count: in placement inline they are inlined functions
 * themselves. */
const char *cold_debug_scope(struct cold_debug *debug, uint64_t address, bool *ret_inlined);

/* Looks address up in the line table. Returns 1 with the file and line of its row; 0 if it has no
 * row. */
int cold_debug_line(struct cold_debug *debug, uint64_t address, const char **ret_file,
		    uint32_t *ret_line);

/* Whether iprobe-cc asked for all debug information, only to get names: each unit was compiled with
 * -g1 and no debug option of the user's. */
bool cold_debug_is_ours(const struct cold_module *module);

#endif
