/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of UTF-8 that is needed to tell text from other bytes: names come from files that are
 * not trusted.
 */
#ifndef IP_UTF8_H
#define IP_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character at s (1..4; s is a NUL-terminated string, not at its end). 0
 * if there is none: a stray or missing continuation byte, an overlong form, a surrogate, or beyond
 * U+10FFFF. */
static inline size_t ip_utf8_length(const char *s)
{
	const unsigned char *u = (const unsigned char *)s;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (u[0] < 0x80)
		return 1;
	if (u[0] >= 0xc2 && u[0] <= 0xdf)
		n = 2;
	else if (u[0] >= 0xe0 && u[0] <= 0xef)
		n = 3;
	else if (u[0] >= 0xf0 && u[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (u[0] == 0xe0)
		low = 0xa0;
	else if (u[0] == 0xed)
		high = 0x9f;
	else if (u[0] == 0xf0)
		low = 0x90;
	else if (u[0] == 0xf4)
		high = 0x8f;
	/* A terminating NUL is no continuation byte, so this cannot run past the end. */
	if (u[1] < low || u[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (u[i] < 0x80 || u[i] > 0xbf)
			return 0;
	return n;
}

/* Whether the well-formed character at s is a control character (C0, DEL, C1). */
static inline bool ip_utf8_is_control(const char *s)
{
	const unsigned char *u = (const unsigned char *)s;

	return u[0] < 0x20 || u[0] == 0x7f || (u[0] == 0xc2 && u[1] < 0xa0);
}

/* The code point of the well-formed character at s. */
static inline uint32_t ip_utf8_code(const char *s)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t n = ip_utf8_length(s);
	uint32_t code = n == 1 ? u[0] : u[0] & (0x7f >> n);

	for (size_t i = 1; i < n; i++)
		code = code << 6 | (u[i] & 0x3f);
	return code;
}

/* Whether the well-formed character at s could change how the text around it is shown. Such
 * characters are: control characters; separators of lines or paragraphs; marks of direction, which
 * make text read as something else (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069);
 * and the byte order mark, which is invisible. */
static inline bool ip_utf8_steers(const char *s)
{
	uint32_t code;

	if (ip_utf8_is_control(s))
		return true;
	if ((unsigned char)s[0] < 0xd8)
		return false;
	code = ip_utf8_code(s);
	return code == 0x61c || code == 0x200e || code == 0x200f ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
	       code == 0xfeff;
}

#endif
