/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Just enough UTF-8 to tell text from noise: names come from files that we do not trust.
 */
#ifndef IP_UTF8_H
#define IP_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed character at s (1..4; NUL-terminated string, not at its end); 0 where there is
 * none: a stray or missing continuation byte, an overlong form, a surrogate, beyond U+10FFFF. */
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

#endif
