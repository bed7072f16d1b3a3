/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What instructions around a site do, as far as gcc's assembler text tells.
 */
#ifndef COLD_STAGE_INSTRUCTION_H
#define COLD_STAGE_INSTRUCTION_H

#include "coldpatch/stage/line.h"

/* In front of each site of placement inline (include/iprobe_inline.h), with its kind, one digit,
 * behind it. */
#define STAGE_INLINE_MARK "\t.byte 0x0f,0x1f,0x44,0,0 #iprobe:"

/* What an exit NOP in front of the line stands for: enum ip_probe_kind; 0: nothing that leaves the
 * function. */
unsigned stage_exit_kind(struct line l, const char *end);

/* Whether a line is part of the longest calls of __fentry__, behind their "1:". */
bool stage_is_call_part(struct line l);

/* Whether the code from p on, on its straight way, sets the flags before it looks at them. False
 * where it is not known for certain; -1: the text ends before that can be told. ColdPatch proves
 * it again (cold_x86_64_flags_dead) and knows of no more instructions here than there. */
int stage_flags_dead(const char *p, const char *end);

#endif
