/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What debug information says about functions and lines, by libdw. All answers
 * may be "unknown"; a module without debug information gives no other.
 */
#ifndef COLD_DEBUG_H
#define COLD_DEBUG_H

#include "coldpatch/elf/module.h"

struct cold_debug;

struct cold_debug_function {
	uint64_t address; /* 0: has no code of its own */
	const char *name; /* linker name */
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
};

/* *ret is NULL where the module has no debug information. 0, or -1: out of memory. */
int cold_debug_open(const struct cold_module *module, struct cold_debug **ret);
void cold_debug_close(struct cold_debug *debug);

/* debug may be NULL in all of these. Strings live as long as debug. */
const struct cold_debug_function *cold_debug_by_address(const struct cold_debug *debug,
							uint64_t address);
const struct cold_debug_function *cold_debug_by_name(const struct cold_debug *debug,
						     const char *name);

/* Linker name of the innermost function, inlined or not, whose code holds address; NULL. The
 * hooks do not count: placement inline has them inlined as well. */
const char *cold_debug_scope(struct cold_debug *debug, uint64_t address, bool *ret_inlined);

/* The line table's row for address: 1 and its file and line; 0 where there is none. */
int cold_debug_line(struct cold_debug *debug, uint64_t address, const char **ret_file,
		    uint32_t *ret_line);

/* Whether all debug information is what iprobe-cc had made for names alone: each unit by -g1 and
 * nothing of the user's. */
bool cold_debug_is_ours(const struct cold_module *module);

#endif
