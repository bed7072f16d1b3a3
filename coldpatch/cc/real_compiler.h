/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which compiler stands behind iprobe-cc and iprobe-c++.
 */
#ifndef COLD_REAL_COMPILER_H
#define COLD_REAL_COMPILER_H

#include <stdbool.h>

/* Set for everything that we start: who finds it has been started by us, and must not start us
 * again. */
#define ENV_ACTIVE "IPROBE_WRAPPER_ACTIVE"

/* The command and its fixed arguments (freeargv() it), its first word a path. From IPROBE_CC or
 * IPROBE_CXX, else what the system calls cc or c++; never ourselves. NULL with an error where
 * there is none. */
char **real_compiler_find(bool cxx);

/* Whether that command is clang, by name or behind a link; else it takes gcc's options. */
bool real_compiler_is_clang(char *const *words);

/* Whether its name says that it makes code for another machine ("aarch64-linux-gnu-gcc"). */
bool real_compiler_is_cross(char *const *words);

/* The first line that a compiler prints for argv (argv[0] a path), as of -print-prog-name;
 * malloc'ed. NULL: none. */
char *real_compiler_ask(char *const *argv);

#endif
