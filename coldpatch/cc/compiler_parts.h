/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What belongs to the gcc that a command names: the programs that it runs, and whether they take
 * plugins.
 */
#ifndef COLD_COMPILER_PARTS_H
#define COLD_COMPILER_PARTS_H

#include "coldpatch/cc/command_line.h"

#include <stdbool.h>

/* Asks gcc a question (-print-prog-name=NAME) beside the -B options of the command line. real: the
 * words of the compiler's command. Returns the answer, malloc'ed; NULL if the command is not gcc
 * itself, perhaps behind a cache: a script may do anything when it is run with a question. */
char *compiler_part(const struct command_line *line, char *const *real, const char *question);

/* Whether iprobe's own plugin (stage/gcc_plugin) can be loaded into gcc's compilers proper: cc1
 * exports what it needs. False where the command line names plugins itself: gcc has one folder for
 * all that are named without a path. */
bool compiler_takes_plugins(const struct command_line *line, char *const *real);

#endif
