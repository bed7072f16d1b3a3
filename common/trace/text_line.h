/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the parts of lines of which a trace has one for each function. A program has up to
 * millions of functions, and fprintf() takes ten times as long. The stream belongs to one thread.
 */
#ifndef IP_TEXT_LINE_H
#define IP_TEXT_LINE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline void ip_text_put(FILE *out, const char *text)
{
	fwrite_unlocked(text, 1, strlen(text), out);
}

/* Decimal. */
static inline void ip_text_put_number(FILE *out, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = '0' + number % 10;
	while (number /= 10);
	fwrite_unlocked(digits + at, 1, sizeof(digits) - at, out);
}

#endif
