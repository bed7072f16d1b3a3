/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placements: the flags that make a compiler leave sites in one way or another.
 */
#ifndef COLD_PLACEMENT_H
#define COLD_PLACEMENT_H

#include "coldpatch/cc/command_line.h"
#include "common/elf/probe_list.h"

#include <stddef.h>

#define ENV_SIBLING_CALLS    "IPROBE_SIBLING_CALLS"
#define PLACEMENT_MOST_FLAGS 16

struct placement_flags {
	/* they stand in front of the user's arguments, so the user's win; never freed */
	char *flags[PLACEMENT_MOST_FLAGS];
	size_t n;
	/* a header to include behind the user's own -include: a precompiled header of the user's
	 * must come first; NULL: none */
	const char *header;
};

/* Chooses the placement: the one in IPROBE_PLACEMENT, or the compiler's default, unless this
 * command line rules it out. Returns 0, or -1 with an error. */
int placement_choose(const struct command_line *line, bool clang, enum ip_placement *ret);

/* Reads IPROBE_SIBLING_CALLS: whether the compiler may let a function end with a jump to another
 * one. Returns 0, or -1 with an error. */
int placement_sibling_calls(bool *ret);

/* Gives the flags for a command line that compiles, assembles or links. real: the words of the
 * compiler's command. Returns 0, or -1 with an error. */
int placement_flags(enum ip_placement placement, const struct command_line *line, char *const *real,
		    bool clang, bool sibling_calls, struct placement_flags *ret);

#endif
