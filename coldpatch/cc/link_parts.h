/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object files of iprobe that are linked into a program: room for stubs into every module, the
 * runtime into static programs, and for clang the functions that it misses in libstdc++.
 */
#ifndef COLD_LINK_PARTS_H
#define COLD_LINK_PARTS_H

#include "coldpatch/cc/command_line.h"

#include <stdbool.h>
#include <stddef.h>

#define LINK_PARTS_MAX 4

/* Gives the arguments that must stand at the end of the compiler's command line. Returns their
 * number, at most LINK_PARTS_MAX. The texts live as long as the process. A part that is not
 * installed is left out: the link works without it, but iprobe has less to work with. */
size_t link_parts(const struct command_line *line, bool clang, const char *ret[LINK_PARTS_MAX]);

#endif
