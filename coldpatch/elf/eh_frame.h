/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind tables. They say which stretches of code are functions, and where an exception that leaves
 * a call lands. ColdPatch needs them to follow values into landing pads, where g++ puts exit hooks,
 * and to find the functions of a module without symbols.
 */
#ifndef COLD_EH_FRAME_H
#define COLD_EH_FRAME_H

#include <stddef.h>
#include <stdint.h>

struct cold_module;

struct cold_unwind {
	uint64_t start, end;
	uint64_t lsda; /* address of the language-specific data; 0: none */
};

/* Reads the entries of .eh_frame that cover code (malloc'ed, the caller frees them). An entry that
 * is not understood is left out; a broken one ends the reading. The tables only make names better,
 * and nothing relies on them. Returns 0, or -1: out of memory. */
int cold_eh_frame_read(const struct cold_module *module, struct cold_unwind **ret, size_t *ret_n);

/* One row of a call-site table: an exception from a call whose instruction starts in [start, end)
 * lands at pad. */
struct cold_landing {
	uint64_t start, end, pad;
};

/* Reads the call-site table at lsda. function is the address where its function starts. The rows
 * are malloc'ed, the caller frees them. Returns 1: read; 0: not understood; -1: out of memory. */
int cold_landings_read(const struct cold_module *module, uint64_t lsda, uint64_t function,
		       struct cold_landing **ret, size_t *ret_n);

#endif
