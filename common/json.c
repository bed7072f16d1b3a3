// SPDX-License-Identifier: Apache-2.0
/*
 * A streaming JSON writer. Write errors stay in the stream: the caller checks ferror() at the end.
 */
#include "common/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

static void write_text(FILE *out, const char *s)
{
	putc('"', out);
	while (*s) {
		unsigned char c = (unsigned char)*s;
		size_t n = ip_utf8_length(s);

		if (n == 0) {
			fputs("\xef\xbf\xbd", out); /* U+FFFD */
			n = 1;
		} else if (c == '"' || c == '\\') {
			putc('\\', out);
			putc(c, out);
		} else if (c == '\n') {
			fputs("\\n", out);
		} else if (c == '\t') {
			fputs("\\t", out);
		} else if (c == '\r') {
			fputs("\\r", out);
		} else if (ip_utf8_steers(s)) { /* people read it too */
			fprintf(out, "\\u%04x", (unsigned)ip_utf8_code(s));
		} else {
			fwrite(s, 1, n, out);
		}
		s += n;
	}
	putc('"', out);
}

/* Writes what precedes a value: the comma and the key. */
static void begin_value(struct ip_json *j, const char *key)
{
	if (j->depth && !j->first[j->depth])
		putc(',', j->out);
	j->first[j->depth] = false;
	if (key) {
		write_text(j->out, key);
		putc(':', j->out);
	}
}

/* A document ends with a newline. */
static void end_value(struct ip_json *j)
{
	if (j->depth == 0)
		putc('\n', j->out);
}

static void open_level(struct ip_json *j, const char *key, char bracket)
{
	begin_value(j, key);
	putc(bracket, j->out);
	assert(j->depth + 1 < sizeof(j->first) / sizeof(j->first[0]));
	j->first[++j->depth] = true;
}

static void close_level(struct ip_json *j, char bracket)
{
	assert(j->depth > 0);
	j->depth--;
	putc(bracket, j->out);
	end_value(j);
}

void ip_json_init(struct ip_json *j, FILE *out)
{
	memset(j, 0, sizeof(*j));
	j->out = out;
	j->first[0] = true;
}

void ip_json_init_inside(struct ip_json *j, FILE *out)
{
	ip_json_init(j, out);
	j->depth = 1;
}

void ip_json_object(struct ip_json *j, const char *key)
{
	open_level(j, key, '{');
}

void ip_json_end_object(struct ip_json *j)
{
	close_level(j, '}');
}

void ip_json_array(struct ip_json *j, const char *key)
{
	open_level(j, key, '[');
}

void ip_json_end_array(struct ip_json *j)
{
	close_level(j, ']');
}

void ip_json_string(struct ip_json *j, const char *key, const char *value)
{
	begin_value(j, key);
	if (value)
		write_text(j->out, value);
	else
		fputs("null", j->out);
	end_value(j);
}

void ip_json_uint(struct ip_json *j, const char *key, uint64_t value)
{
	begin_value(j, key);
	fprintf(j->out, "%" PRIu64, value);
	end_value(j);
}

void ip_json_int(struct ip_json *j, const char *key, int64_t value)
{
	begin_value(j, key);
	fprintf(j->out, "%" PRId64, value);
	end_value(j);
}

/* The locale may use another decimal point, even one of several bytes. */
static void write_number(FILE *out, const char *text)
{
	bool pointed = false;

	for (; *text; text++) {
		if (strchr("0123456789+-e", *text)) {
			putc(*text, out);
		} else if (!pointed) {
			putc('.', out);
			pointed = true;
		}
	}
}

void ip_json_double(struct ip_json *j, const char *key, double value)
{
	char text[40];

	begin_value(j, key);
	if (!isfinite(value)) {
		fputs("null", j->out);
	} else {
		/* The shortest form that reads back as the same number. */
		for (int digits = 15; digits <= 17; digits++) {
			snprintf(text, sizeof(text), "%.*g", digits, value);
			if (strtod(text, NULL) == value)
				break;
		}
		write_number(j->out, text);
	}
	end_value(j);
}

void ip_json_raw(struct ip_json *j, const char *key, const char *text)
{
	begin_value(j, key);
	fputs(text, j->out);
	end_value(j);
}

void ip_json_bool(struct ip_json *j, const char *key, bool value)
{
	begin_value(j, key);
	fputs(value ? "true" : "false", j->out);
	end_value(j);
}
