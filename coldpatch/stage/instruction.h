/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells what the instructions around a site do, as far as gcc's assembler text shows it.
 */
#ifndef COLD_STAGE_INSTRUCTION_H
#define COLD_STAGE_INSTRUCTION_H

#include "coldpatch/stage/line.h"

/* Stands at each site of placement inline (include/iprobe_inline.h). The kind of the site, one
 * digit, follows it. */
#define STAGE_INLINE_MARK "\t.byte 0x0f,0x1f,0x44,0,0 #iprobe:"

/* Tells what an exit NOP in front of the line stands for: enum ip_probe_kind; 0 if the line does
 * not leave the function. */
unsigned stage_exit_kind(struct line l, const char *end);

/* Whether a line, which leaves the function, is a return of one byte: without operands, and without
 * a prefix that means something. */
bool stage_is_plain_return(struct line l);

/* Whether a line, which leaves the function, is a jump to a symbol, of no special kind. *ret: the
 * symbol, without @PLT, as a part of the line. */
bool stage_is_plain_jump(struct line l, struct line *ret);

/* Whether a line is part of the longest form of a call of __fentry__, behind its "1:". */
bool stage_is_call_part(struct line l);

/* Whether the code from p on, without any jump, sets the flags before it reads them. False if
 * this is not certain; -1 if the text ends before it is known. ColdPatch proves it again
 * (cold_x86_64_flags_dead), so this function must know no instruction that ColdPatch does not
 * know. */
int stage_flags_dead(const char *p, const char *end);

#endif
