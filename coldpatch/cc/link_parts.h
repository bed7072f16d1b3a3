/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of ours that go into what is linked: room for stubs into every module, the runtime
 * into static programs, and for clang what it misses of libstdc++.
 */
#ifndef COLD_LINK_PARTS_H
#define COLD_LINK_PARTS_H

#include "coldpatch/cc/command_line.h"

#include <stdbool.h>
#include <stddef.h>

#define LINK_PARTS_MAX 4

/* What is to stand at the end of the compiler's command line; the number of arguments, at most
 * LINK_PARTS_MAX. They live as long as the process. A part that is not installed is left out:
 * everything works without, if less well. */
size_t link_parts(const struct command_line *line, bool clang, const char *ret[LINK_PARTS_MAX]);

#endif
