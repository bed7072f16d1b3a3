/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortens names.
 */
#include "cli/elide.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analysis/read/names.h"
#include "common/print.h"
#include "common/utf8.h"

size_t cli_width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text += ip_utf8_length(text) ? ip_utf8_length(text) : 1)
		width++;
	return width;
}

/* Returns the length of an operator: "<", "<<=", "->" ... after "operator" are no brackets. */
static size_t operator_length(const char *name, const char *p)
{
	size_t n;

	if (p - name < 8 || strncmp(p - 8, "operator", 8))
		return 0;
	n = strspn(p, "<>=-");
	return n < 3 ? n : 3;
}

/* Returns whether p is the arrow that report puts between a function and its caller. */
static bool is_arrow(const char *p)
{
	return !strncmp(p, " <- ", 4);
}

/* Elides the text in template brackets, in place, as short names do: a<b<c>>::d -> a<...>::d. */
static void fold_templates(char *name)
{
	char *out = name, *inner = name;
	size_t depth = 0;

	for (const char *p = name; *p; p++) {
		size_t op = operator_length(name, p);

		if (is_arrow(p)) {
			depth = 0; /* another name begins */
			memmove(out, p, 4);
			out += 4;
			p += 3;
			continue;
		}
		if (op) {
			memmove(out, p, op);
			out += op;
			p += op - 1;
			continue;
		}
		if (*p == '>' && depth && !--depth && out - inner > 3) {
			memcpy(inner, "...", 3);
			out = inner + 3;
		}
		*out++ = *p;
		if (*p == '<' && !depth++)
			inner = out;
	}
	*out = '\0';
}

/* Returns the bytes of the first n characters of a text that has so many. */
static size_t bytes_of(const char *text, size_t n)
{
	const char *p = text;

	for (; n && *p; n--)
		p += ip_utf8_length(p) ? ip_utf8_length(p) : 1;
	return p - text;
}

/* Takes out the end of the parameters of a name that is longer than width columns, in place:
 * f(int, char) [libf.so] -> f(in...) [libf.so]. The function tells more than they do. */
static void cut_parameters(char *name, size_t width)
{
	const size_t over = cli_width_of(name) - width;
	char *close = strrchr(name, ')'), *open = close;
	size_t depth = 0, inner, kept;

	/* "(anonymous namespace)::f", "f(int)::{lambda()#1}": these are no parameters of it */
	if (!close || (close[1] && close[1] != ' '))
		return;
	for (; open > name; open--) {
		depth += *open == ')';
		if (*open == '(' && !--depth)
			break;
	}
	/* a note in brackets stands apart */
	if (open == name || open[-1] == ' ' ||
	    (open - name >= 8 && !strncmp(open - 8, "operator", 8)))
		return;
	*close = '\0';
	inner = cli_width_of(open + 1);
	*close = ')';
	if (inner <= 3)
		return;
	kept = bytes_of(open + 1, inner > over + 3 ? inner - over - 3 : 0);
	memcpy(open + 1 + kept, "...", 3);
	memmove(open + 1 + kept + 3, close, strlen(close) + 1);
}

void cli_fit_name(char *name, size_t width)
{
	size_t n;

	ip_clean(name);
	if (cli_width_of(name) > width)
		fold_templates(name);
	if (cli_width_of(name) > width)
		cut_parameters(name, width);
	n = cli_width_of(name);
	if (n > width) {
		char *p = name;

		for (size_t skip = n - width + 3; skip; skip--)
			p += ip_utf8_length(p);
		memmove(name + 3, p, strlen(p) + 1);
		memcpy(name, "...", 3);
	}
}

/* Returns what stands behind the first "::" that is in no brackets and not behind "operator", or
 * NULL. */
static const char *behind_qualifier(const char *name)
{
	size_t depth = 0;

	for (const char *p = name; *p; p++) {
		if (!strncmp(p, "operator", 8) && (p == name || p[-1] == ':'))
			return NULL;
		if (strchr("<([{", *p))
			depth++;
		else if (strchr(">)]}", *p) && depth && p[-1] != '-')
			depth--;
		else if (!depth && !strncmp(p, "::", 2))
			return p[2] ? p + 2 : NULL;
	}
	return NULL;
}

const char *cli_inner_name(const char *name, size_t width)
{
	for (const char *inner = name; inner; inner = behind_qualifier(inner)) {
		name = inner;
		if (cli_width_of(name) <= width)
			break;
	}
	return name;
}

void cli_cut_text(char *text, size_t width)
{
	size_t n;

	ip_clean(text);
	n = cli_width_of(text);
	if (n <= width)
		return;
	for (size_t kept = width - 3; kept; kept--)
		text += ip_utf8_length(text);
	strcpy(text, "...");
}

size_t cli_name_width(size_t others, size_t least)
{
	struct winsize size = {0};

	if (!isatty(STDOUT_FILENO))
		return SIZE_MAX;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < least + others)
		return least;
	return size.ws_col - others;
}

void cli_json_short(struct ip_json *j, const char *function, const char *form)
{
	if (function && form && strcmp(function, form))
		ip_json_string(j, "short", form);
}
