/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code sections in gcc's assembler text. Each gets a label at its start, behind the directive
 * that first named it. The offsets of sites count from this label.
 */
#ifndef COLD_STAGE_SECTION_H
#define COLD_STAGE_SECTION_H

#include "coldpatch/stage/line.h"

#define NO_SECTION 0u

struct section; /* the text by which gcc names a section, and the number of its label */

struct sections {
	struct section *all; /* hash table */
	size_t n, room;
};

/* Whether a directive, also one in the user's asm, leads to another section. */
bool section_changes(struct line l);

/* Gives the label number of the section that a directive leads to; NO_SECTION if it is not a
 * section of code. Returns 1 if the section is named for the first time, else 0; -1: out of
 * memory. */
int section_enter(struct sections *sections, struct line l, unsigned *ret);

void sections_release(struct sections *sections);

#endif
