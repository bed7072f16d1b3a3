/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting the assembler text that gcc made: what marks a site becomes the site's NOP, and a
 * record of it in the table (coldpatch/sites/site_table.h). Everything else is copied as it is, and
 * no line moves to another number, so that the assembler's messages fit the text that gcc wrote.
 */
#ifndef COLD_STAGE_REWRITE_H
#define COLD_STAGE_REWRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "coldpatch/stage/output.h"
#include "common/selection.h"

struct stage_rewriter;

/* exclude: functions and files whose sites are left away; borrowed, NULL: none. red_zone: data
 * may lie below the stack pointer across the sites of placement inline. NULL: out of memory. */
struct stage_rewriter *stage_rewriter_create(const struct ip_selection *exclude, stage_sink *sink,
					     void *context, bool red_zone);
void stage_rewriter_destroy(struct stage_rewriter *rewriter);

/* Rewrites what is complete of text and returns how many bytes that is; the rest is to come
 * again, with more behind it. last: there is no more, all is rewritten. -1: out of memory, or
 * the sink gave up. */
ptrdiff_t stage_rewrite(struct stage_rewriter *rewriter, const char *text, size_t size, bool last);

/* Whether there may be something to rewrite. Never false where there is. */
bool stage_concerns(const char *text, size_t size);

#endif
