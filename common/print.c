// SPDX-License-Identifier: Apache-2.0
/*
 * Printing for people. See print.h.
 *
 * The format is split into conversions. A conversion of a number is passed to fprintf() alone, with
 * its own specification. The text of a string conversion is cleaned first.
 */
#include "common/print.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/utf8.h"

#define ESCAPE_MAX 9 /* \u{10FFFF} does not occur; the longest is "\u{2069}" and a zero */

/* Writes the escape for the character at text, of n bytes (0: it is no character). "" if the
 * character may be printed as it is. Bytes that are no UTF-8 are escaped one by one. */
static size_t escape_of(const char *text, size_t n, char ret[ESCAPE_MAX])
{
	unsigned char c = *text;

	if (n == 0 || c < 0x20 || c == 0x7f)
		return snprintf(ret, ESCAPE_MAX, "\\x%02x", c);
	if (n > 1 && ip_utf8_steers(text))
		return snprintf(ret, ESCAPE_MAX, "\\u{%04x}", (unsigned)ip_utf8_code(text));
	return 0;
}

/* Number of bytes at text that may be printed as they are. keep: control characters that may be
 * printed too. */
static size_t harmless(const char *text, const char *keep)
{
	char escape[ESCAPE_MAX];
	size_t done = 0;

	while (text[done]) {
		unsigned char c = text[done];
		size_t n;

		if ((c >= 0x20 && c < 0x7f) || strchr(keep, c)) {
			done++;
			continue;
		}
		n = ip_utf8_length(text + done);
		if (escape_of(text + done, n, escape))
			break;
		done += n;
	}
	return done;
}

static void print_text(FILE *out, const char *text, const char *keep)
{
	while (*text) {
		size_t n = harmless(text, keep);
		char escape[ESCAPE_MAX];

		fwrite(text, 1, n, out);
		text += n;
		if (!*text)
			return;
		n = ip_utf8_length(text);
		fwrite(escape, 1, escape_of(text, n, escape), out);
		text += n ? n : 1;
	}
}

void ip_print_lines(FILE *out, const char *text)
{
	print_text(out, text, "\n\t");
}

size_t ip_escape(char *out, size_t size, const char *text)
{
	size_t used = 0;

	while (*text) {
		size_t n = harmless(text, "");
		const char *from = text;
		char escape[ESCAPE_MAX];

		text += n;
		if (!n) {
			n = ip_utf8_length(text);
			text += n ? n : 1;
			n = escape_of(from, n, escape);
			from = escape;
		}
		if (used < size)
			memcpy(out + used, from, used + n < size ? n : size - used);
		used += n;
	}
	if (size)
		out[used < size ? used : size - 1] = '\0';
	return used;
}

void ip_clean(char *text)
{
	char escape[ESCAPE_MAX];

	for (size_t n; *text; text += n) {
		n = ip_utf8_length(text);
		if (escape_of(text, n, escape))
			memset(text, '?', n ? n : 1);
		n = n ? n : 1;
	}
}

/* A conversion, such as "%-*.3lu". */
struct conversion {
	char spec[32];
	size_t length; /* bytes of the format that it takes */
	bool stars[2]; /* width, precision: given by an argument */
	bool has_precision;
	int precision;
	unsigned longs; /* l: 1, ll: 2, z, j, t: 3 */
	char kind;
};

static size_t digits_or_star(const char *p, bool *ret_star)
{
	*ret_star = *p == '*';
	return *ret_star ? 1 : strspn(p, "0123456789");
}

/* The formats are constants of this program: an unknown conversion would be a mistake in it. */
static void read_conversion(const char *p, struct conversion *ret)
{
	const char *start = p++;

	*ret = (struct conversion){.precision = -1};
	p += strspn(p, "-+ #0'");
	p += digits_or_star(p, &ret->stars[0]);
	if (*p == '.') {
		ret->has_precision = true;
		ret->precision = atoi(++p);
		p += digits_or_star(p, &ret->stars[1]);
	}
	for (; *p && strchr("hlzjt", *p); p++)
		ret->longs += *p == 'l' ? 1 : *p == 'h' ? 0 : 3;
	ret->kind = *p;
	ret->length = p + 1 - start;
	if (!*p || ret->length >= sizeof(ret->spec))
		abort();
	memcpy(ret->spec, start, ret->length);
}

/* Prints text with its width. The specification has no precision, since that has been applied
 * already. */
static void print_string(FILE *out, const struct conversion *c, int width, int precision,
			 const char *text)
{
	const char *safe = text ? text : "(null)";
	size_t n = precision >= 0 ? strnlen(safe, precision) : strlen(safe);
	char small[512], *cut = n < sizeof(small) ? small : malloc(n + 1);
	size_t length;

	if (!cut)
		return;
	memcpy(cut, safe, n);
	cut[n] = '\0';
	length = ip_escape(NULL, 0, cut);
	if (width >= 0 && !strchr(c->spec, '-'))
		for (size_t i = length; i < (size_t)width; i++)
			putc(' ', out);
	print_text(out, cut, "");
	if (width < 0 || strchr(c->spec, '-'))
		for (size_t i = length; i < (width < 0 ? -(size_t)width : (size_t)width); i++)
			putc(' ', out);
	if (cut != small)
		free(cut);
}

#define PRINT(value)                                                                               \
	(c->stars[0] && c->stars[1] ? fprintf(out, c->spec, width, precision, value)               \
	 : c->stars[0]		    ? fprintf(out, c->spec, width, value)                          \
	 : c->stars[1]		    ? fprintf(out, c->spec, precision, value)                      \
				    : fprintf(out, c->spec, value))

#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static int width_in(const struct conversion *c)
{
	return atoi(c->spec + 1 + strspn(c->spec + 1, "-+ #0'"));
}

static void print_one(FILE *out, const struct conversion *c, va_list *args)
{
	int width = c->stars[0] ? va_arg(*args, int) : width_in(c);
	int precision = c->stars[1] ? va_arg(*args, int) : c->precision;

	switch (c->kind) {
	case 's':
		print_string(out, c, width, precision, va_arg(*args, const char *));
		break;
	case 'c': {
		const char text[2] = {(char)va_arg(*args, int)};

		print_string(out, c, width, -1, text);
		break;
	}
	case 'd':
	case 'i':
	case 'u':
	case 'x':
	case 'X':
	case 'o':
		if (c->longs)
			/* long is as wide as long long, size_t, intmax_t */
			PRINT(va_arg(*args, long));
		else
			PRINT(va_arg(*args, int));
		break;
	case 'f':
	case 'e':
	case 'g':
		PRINT(va_arg(*args, double));
		break;
	case 'p':
		PRINT(va_arg(*args, void *));
		break;
	default:
		abort();
	}
}

void ip_vprint(FILE *out, const char *format, va_list args)
{
	va_list rest;

	va_copy(rest, args);
	flockfile(out); /* the lines of several threads must not be mixed */
	while (*format) {
		size_t n = strcspn(format, "%");
		struct conversion c;

		fwrite(format, 1, n, out);
		format += n;
		if (!*format)
			break;
		if (format[1] == '%') {
			putc('%', out);
			format += 2;
			continue;
		}
		read_conversion(format, &c);
		print_one(out, &c, &rest);
		format += c.length;
	}
	funlockfile(out);
	va_end(rest);
}

void ip_print(FILE *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ip_vprint(out, format, args);
	va_end(args);
}

char *ip_print_end_text(FILE *out, char **text)
{
	if (out && fclose(out) == 0)
		return *text;
	free(*text);
	*text = NULL;
	ip_error("out of memory");
	return NULL;
}
