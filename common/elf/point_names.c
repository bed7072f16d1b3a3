/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes names of the text of a point's arguments. See point_names.h.
 *
 * The text is divided as the preprocessor has divided it: at commas outside of parentheses and
 * quotes.
 */
#include "common/elf/point_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 1024u /* ColdPatch writes no more */
#define DOTS	 "..."

struct part {
	const char *begin, *end;
	bool cut; /* it goes on in the source */
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Returns the end of a number, of which 1'000 and 1e-5 are whole. */
static const char *skip_number(const char *p, const char *end)
{
	for (; p < end; p++) {
		if (is_word(*p) || *p == '.')
			continue;
		if (*p == '\'' && p + 1 < end && is_word(p[1]))
			continue;
		if ((*p == '+' || *p == '-') && strchr("eEpP", p[-1]))
			continue;
		break;
	}
	return p;
}

/* Returns the end of what stands in quotes at p; end where they do not end. */
static const char *skip_quoted(const char *p, const char *end)
{
	const char quote = *p++;

	for (; p < end && *p != quote; p++)
		p += *p == '\\' && p + 1 < end;
	return p < end ? p + 1 : end;
}

/* Returns the end of the word, number, text in quotes or single character at p. */
static const char *skip(const char *p, const char *end)
{
	if (isdigit((unsigned char)*p))
		return skip_number(p + 1, end);
	if (*p == '"' || *p == '\'')
		return skip_quoted(p, end);
	if (!is_word(*p))
		return p + 1;
	while (p < end && is_word(*p))
		p++;
	return p;
}

/* Returns the parenthesis that closes the one at p; NULL: none does. */
static const char *closing(const char *p, const char *end)
{
	unsigned depth = 0;

	for (; p < end; p = skip(p, end)) {
		depth += *p == '(';
		if (*p == ')' && !--depth)
			return p;
	}
	return NULL;
}

/* Divides the text. Returns the number of arguments, which may be more than fit into ret. */
static unsigned divide(const char *p, const char *end, bool cut, struct part ret[IP_POINT_ARGS_MAX])
{
	const char *begin = p;
	unsigned n = 0, depth = 0;

	for (; n < IP_POINT_ARGS_MAX; p = skip(p, end)) {
		if (p == end || (*p == ',' && !depth)) {
			ret[n++] = (struct part){begin, p, cut && p == end};
			if (p == end)
				return n;
			begin = p + 1;
		}
		depth += *p == '(';
		depth -= *p == ')' && depth;
	}
	return n + 1;
}

/* Copies a part without spaces, but for one between two words. */
static void copy_unspaced(const struct part *part, char *buffer, struct part *ret)
{
	char *out = buffer;
	bool space = false;

	for (const char *p = part->begin, *next; p < part->end; p = next) {
		if (isspace((unsigned char)*p)) {
			space = true;
			next = p + 1;
			continue;
		}
		if (space && out > buffer && is_word(out[-1]) && is_word(*p))
			*out++ = ' ';
		space = false;
		next = skip(p, part->end);
		memcpy(out, p, (size_t)(next - p));
		out += next - p;
	}
	*ret = (struct part){buffer, out, part->cut};
}

/* Takes the x out of IPROBE_STRING(x) and IPROBE_HEX(x), also where another macro around the point
 * has made the compiler replace them. */
static void unwrap(struct part *part)
{
	static const struct {
		const char *text;
		size_t behind; /* characters behind x; 0: as many as there are */
	} wrappers[] = {
		{"IPROBE_STRING(", 1},
		{"IPROBE_HEX(", 1},
		{"((const char*)(const void*)(", 2},
		{"((const struct iprobe_hex_*)((long unsigned int)(", 0}, /* of gcc */
		{"((const struct iprobe_hex_*)((unsigned long)(", 0},	  /* of clang */
		/* of headers of before the type */
		{"((const void*)((long unsigned int)(", 0},
		{"((const void*)((unsigned long)(", 0},
	};

	for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers); i++) {
		const size_t length = strlen(wrappers[i].text), behind = wrappers[i].behind;
		const char *x = part->begin + length, *last;

		if ((size_t)(part->end - part->begin) <= length ||
		    memcmp(part->begin, wrappers[i].text, length) != 0)
			continue;
		last = closing(x - 1, part->end);
		if (last && behind && part->end - last != (ptrdiff_t)behind)
			continue;
		*part = (struct part){x, last ? last : part->end, !last && part->cut};
		return;
	}
}

static bool is_continued(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* How many of n bytes are left where the last character, of UTF-8, is cut off in its midst. */
static size_t whole(const char *text, size_t n)
{
	size_t begin = n, length;

	while (begin && is_continued(text[begin - 1]))
		begin--;
	if (!begin)
		return n; /* it is no UTF-8 */
	switch ((unsigned char)text[begin - 1] >> 4) {
	case 0xc:
	case 0xd:
		length = 2;
		break;
	case 0xe:
		length = 3;
		break;
	case 0xf:
		length = 4;
		break;
	default:
		length = 1;
	}
	return n - (begin - 1) < length ? begin - 1 : n;
}

/* Copies the part, shortened, with characters that a signature can hold (common/trace/values.h). */
static void put_name(const struct part *part, char ret[IP_POINT_NAME_MAX + 1])
{
	const size_t dots = strlen(DOTS), length = (size_t)(part->end - part->begin);
	size_t head = length, tail = 0;

	if (!length) {
		*ret = '\0';
		return;
	}
	if (part->cut) {
		head = length < IP_POINT_NAME_MAX - dots ? length : IP_POINT_NAME_MAX - dots;
	} else if (length > IP_POINT_NAME_MAX) {
		head = (IP_POINT_NAME_MAX - dots) / 2;
		tail = IP_POINT_NAME_MAX - dots - head;
		while (tail && is_continued(part->end[-(ptrdiff_t)tail]))
			tail--;
	}
	if (part->cut || head < length)
		head = whole(part->begin, head);
	snprintf(ret, IP_POINT_NAME_MAX + 1, "%.*s%s%.*s", (int)head, part->begin,
		 part->cut || tail ? DOTS : "", (int)tail, part->end - tail);
	for (char *p = ret; *p; p++) {
		if (*p == '"')
			*p = '\'';
		else if (!is_word(*p) && !strchr(".->[]()*&:+<!~|^%/?'#", *p))
			*p = '_';
	}
}

/* Makes the name of argument i differ from those before it. */
static void tell_apart(struct ip_point_names *all, unsigned i)
{
	char *name = all->names[i], base[IP_POINT_NAME_MAX + 1];

	memcpy(base, name, sizeof(base));
	/* A name is shortened only where it must be: of bytes that are no UTF-8 none might be left.
	 */
	if (strlen(base) > IP_POINT_NAME_MAX - 2)
		base[whole(base, IP_POINT_NAME_MAX - 2)] = '\0';
	for (unsigned k = 2, j = 0; *base && j < i; j++) {
		if (strcmp(all->names[j], name) != 0)
			continue;
		snprintf(name, IP_POINT_NAME_MAX + 1, "%s#%u", base, k++);
		j = UINT32_MAX; /* against all of them once more */
	}
}

void ip_point_names_make(const char *text, unsigned n, struct ip_point_names *ret)
{
	const size_t length = strnlen(text, TEXT_MAX);
	const bool marked = length && text[length - 1] == IP_POINT_TEXT_CUT,
		   cut = marked || length == TEXT_MAX;
	struct part parts[IP_POINT_ARGS_MAX], part;
	const unsigned found = divide(text, text + length - marked, cut, parts);
	char buffer[TEXT_MAX];

	*ret = (struct ip_point_names){0};
	if (!length || found > n || (found < n && !cut))
		return;
	for (unsigned i = 0; i < found; i++) {
		copy_unspaced(&parts[i], buffer, &part);
		unwrap(&part);
		put_name(&part, ret->names[i]);
		tell_apart(ret, i);
	}
}
