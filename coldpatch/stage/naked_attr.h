/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naked functions in gcc's assembler text. The user's asm is the whole function, its return
 * included. gcc adds only a ud2 behind it.
 */
#ifndef COLD_STAGE_NAKED_ATTR_H
#define COLD_STAGE_NAKED_ATTR_H

#include <stdbool.h>
#include <stddef.h>

/* Whether everything from p to the end of the function is asm that leaves the function, and the
 * ud2. -1 if the text ends before this is known. app: p is inside of #APP. */
int stage_is_naked(const char *p, const char *end, bool app);

/*
 * gcc 12 puts calls of the hooks of -finstrument-functions into naked functions, which have neither
 * a frame nor a saved register: such a function no longer works. This calls found for each such
 * function, with its name.
 */
void stage_find_broken(const char *text, size_t size,
		       void (*found)(void *context, const char *name, size_t length),
		       void *context);

#endif
