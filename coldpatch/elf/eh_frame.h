/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind tables: which stretches of code are functions, and where an exception
 * that leaves a call lands. Needed to follow values into landing pads, where g++
 * puts exit hooks, and to know functions in a module without symbols.
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

/* The entries of .eh_frame that cover code (malloc'ed, caller frees). What is not understood
 * ends the reading and is left out: the tables make names better, nothing relies on them. -1:
 * out of memory. */
int cold_eh_frame_read(const struct cold_module *module, struct cold_unwind **ret, size_t *ret_n);

/* One row: an exception out of a call whose instruction starts in [start, end) lands at pad. */
struct cold_landing {
	uint64_t start, end, pad;
};

/* Reads the call-site table at lsda of the function that starts at function (malloc'ed, caller
 * frees). 1: read; 0: not understood; -1: out of memory. */
int cold_landings_read(const struct cold_module *module, uint64_t lsda, uint64_t function,
		       struct cold_landing **ret, size_t *ret_n);

#endif
