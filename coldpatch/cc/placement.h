/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placements: what has to be asked of a compiler so that it leaves sites in one way or another.
 */
#ifndef COLD_PLACEMENT_H
#define COLD_PLACEMENT_H

#include "coldpatch/cc/command_line.h"
#include "common/probe_list.h"

#include <stddef.h>

#define ENV_SIBLING_CALLS    "IPROBE_SIBLING_CALLS"
#define PLACEMENT_MOST_FLAGS 16

struct placement_flags {
	/* in front of the user's arguments, so that those have the last word; never freed */
	char *flags[PLACEMENT_MOST_FLAGS];
	size_t n;
	/* to be included behind the user's own -include, where a precompiled one must come first;
	 * NULL: none */
	const char *header;
};

/* What IPROBE_PLACEMENT asks for, or the compiler's default, and what this command line leaves of
 * it. 0, or -1 with an error. */
int placement_choose(const struct command_line *line, bool clang, enum ip_placement *ret);

/* What IPROBE_SIBLING_CALLS asks for: whether functions may end by jumping to another one, as the
 * compiler sees fit. 0, or -1 with an error. */
int placement_sibling_calls(bool *ret);

/* What a command line that compiles, assembles or links gets. real: the compiler's words. 0, or -1
 * with an error. */
int placement_flags(enum ip_placement placement, const struct command_line *line, char *const *real,
		    bool clang, bool sibling_calls, struct placement_flags *ret);

#endif
