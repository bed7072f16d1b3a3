/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naked functions in gcc's assembler text: the user's asm makes them up, down to their return, and
 * gcc adds nothing but an ud2 behind it.
 */
#ifndef COLD_STAGE_NAKED_ATTR_H
#define COLD_STAGE_NAKED_ATTR_H

#include <stdbool.h>
#include <stddef.h>

/* Whether what follows p, to the end of the function that it is in, is nothing but asm that
 * leaves it and the ud2; -1: the text ends before that can be told. app: p is inside of #APP. */
int stage_is_naked(const char *p, const char *end, bool app);

/*
 * gcc 12 puts calls of the hooks of -finstrument-functions into naked functions, where there is
 * neither a frame nor a saved register: such a function no longer works. Calls found for each that
 * there is, with its name.
 */
void stage_find_broken(const char *text, size_t size,
		       void (*found)(void *context, const char *name, size_t length),
		       void *context);

#endif
