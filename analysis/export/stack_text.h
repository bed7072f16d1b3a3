/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names as formats of lines have them: folded stacks, and the callgrind format.
 */
#ifndef IP_STACK_TEXT_H
#define IP_STACK_TEXT_H

#include <stdio.h>

/* Writes a name, with ':' in place of each separator: the newline after a name on a line of its
 * own, or the ';' between names. What is no text of UTF-8 becomes '?'. */
void ip_stack_text_name(FILE *out, const char *name, char separator);

#endif
