/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites the assembler text that gcc made. Each mark of a site becomes the site's NOP and a
 * record of it in the table (coldpatch/sites/site_table.h). All other text is copied unchanged. No
 * line gets another number, so the assembler's messages fit the text that gcc wrote.
 */
#ifndef COLD_STAGE_REWRITE_H
#define COLD_STAGE_REWRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "coldpatch/stage/output.h"
#include "common/selection/selection.h"

struct stage_rewriter;

/* exclude: functions and files whose sites are omitted; borrowed, NULL: none. red_zone: data may
 * lie below the stack pointer across the sites of placement inline. Returns NULL: out of memory. */
struct stage_rewriter *stage_rewriter_create(const struct ip_selection *exclude, stage_sink *sink,
					     void *context, bool red_zone);
void stage_rewriter_destroy(struct stage_rewriter *rewriter);

/* Rewrites the complete part of text and returns its number of bytes. The caller must pass the rest
 * again, with more text behind it. last: no more text follows, so all is rewritten. Returns -1 if
 * out of memory, or if the sink failed. */
ptrdiff_t stage_rewrite(struct stage_rewriter *rewriter, const char *text, size_t size, bool last);

/* Whether the text may hold something to rewrite. Never false if it does. */
bool stage_concerns(const char *text, size_t size);

#endif
