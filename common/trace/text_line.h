/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing lines of which a trace has one for each function. A program has up to millions of
 * functions; fprintf() takes ten times as long, and a call of stdio for each part of a line still
 * twice as long. The stream belongs to one thread.
 */
#ifndef IP_TEXT_LINE_H
#define IP_TEXT_LINE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Parts that are not in the stream yet. What is written to the stream by other means comes after
 * ip_text_flush(), which also ends the use. */
struct ip_text_line {
	FILE *out;
	size_t n;
	char bytes[1000];
};

static inline void ip_text_begin(struct ip_text_line *line, FILE *out)
{
	line->out = out;
	line->n = 0;
}

static inline void ip_text_flush(struct ip_text_line *line)
{
	fwrite_unlocked(line->bytes, 1, line->n, line->out);
	line->n = 0;
}

static inline void ip_text_put_bytes(struct ip_text_line *line, const char *bytes, size_t size)
{
	if (size > sizeof(line->bytes) - line->n) {
		ip_text_flush(line);
		if (size > sizeof(line->bytes)) {
			fwrite_unlocked(bytes, 1, size, line->out);
			return;
		}
	}
	memcpy(line->bytes + line->n, bytes, size);
	line->n += size;
}

static inline void ip_text_put(struct ip_text_line *line, const char *text)
{
	ip_text_put_bytes(line, text, strlen(text));
}

/* Decimal. */
static inline void ip_text_put_number(struct ip_text_line *line, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = '0' + number % 10;
	while (number /= 10);
	ip_text_put_bytes(line, digits + at, sizeof(digits) - at);
}

#endif
