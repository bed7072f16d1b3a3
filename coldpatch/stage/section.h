/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of code in gcc's assembler text. Each gets a label at its start, put behind the
 * directive that first named it, from which sites are counted.
 */
#ifndef COLD_STAGE_SECTION_H
#define COLD_STAGE_SECTION_H

#include "coldpatch/stage/line.h"

#define NO_SECTION 0u

struct section; /* what gcc calls one, and the number of its label */

struct sections {
	struct section *all; /* hash table */
	size_t n, room;
};

/* Whether a directive, in the user's asm too, leads to another section. */
bool section_changes(struct line l);

/* The number of the label of the section that a directive leads to: *ret, NO_SECTION where it is
 * none of code. 1: it is named for the first time; 0; -1: out of memory. */
int section_enter(struct sections *sections, struct line l, unsigned *ret);

void sections_release(struct sections *sections);

#endif
