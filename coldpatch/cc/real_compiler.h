/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the real compiler behind iprobe-cc and iprobe-c++.
 */
#ifndef COLD_REAL_COMPILER_H
#define COLD_REAL_COMPILER_H

#include <stdbool.h>

/* Set in the environment of every program that we start. If iprobe-cc finds it set, iprobe-cc
 * itself has started that program, which must not instrument again. */
#define ENV_ACTIVE "IPROBE_WRAPPER_ACTIVE"

/* Returns the compiler's command and its fixed arguments; free it with freeargv(). The first word
 * is a path. The command comes from IPROBE_CC or IPROBE_CXX, else it is the system's cc or c++. It
 * is never iprobe-cc itself. NULL with an error if there is no compiler. */
char **real_compiler_find(bool cxx);

/* Whether the command is clang, by its name or by the name of the file that it links to. Any other
 * compiler is assumed to take gcc's options. */
bool real_compiler_is_clang(char *const *words);

/* Whether the compiler's name says that it makes code for another machine
 * ("aarch64-linux-gnu-gcc"). */
bool real_compiler_is_cross(char *const *words);

/* Returns the first line that a compiler prints for argv (argv[0] is a path), for example for
 * -print-prog-name. The line is malloc'ed. NULL: none. */
char *real_compiler_ask(char *const *argv);

#endif
