/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses requests for values. See value_request.h.
 */
#include "common/values/value_request.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

const char *ip_value_request_option(enum ip_value_request_kind kind)
{
	return kind == IP_REQUEST_ARGS	   ? "--args"
	       : kind == IP_REQUEST_RETVAL ? "--retval"
					   : "--when";
}

bool ip_value_request_is(const char *text)
{
	size_t n = strlen(text);

	return n > 2 && text[0] != '-' && text[0] != '(' && text[n - 1] == ')' && strchr(text, '(');
}

/* Where a part of text ends: at the next `end` outside of brackets and quotes, or at length. */
static size_t end_of(const char *text, size_t at, size_t length, char end)
{
	unsigned depth = 0;

	for (; at < length; at++) {
		char c = text[at];

		if (c == end && !depth)
			break;
		if (c == '(' || c == '[')
			depth++;
		else if ((c == ')' || c == ']') && depth)
			depth--;
		else if (c == '"' || c == '\'')
			while (++at < length && text[at] != c)
				at += text[at] == '\\';
	}
	return at < length ? at : length;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Number of bytes at the end of the text that are a word which says only what kind of type
 * follows. */
static size_t kind_word(const char *text, size_t length)
{
	static const char *const words[] = {"struct", "union", "class",
					    "enum",   "const", "volatile"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t n = strlen(words[i]);

		if (length >= n && !memcmp(text + length - n, words[i], n) &&
		    (length == n || !is_word(text[length - n - 1])))
			return n;
	}
	return 0;
}

/* A copy of the text without spaces, but for one between two words of a type: "(unsigned char*)p".
 * "struct" and the like are left out with the space behind them. */
static char *without_spaces(const char *text, size_t length)
{
	char *copy = malloc(length + 1);
	size_t n = 0, word;

	for (size_t i = 0; copy && i < length; i++) {
		if (isspace((unsigned char)text[i]))
			continue;
		if (n && isspace((unsigned char)text[i - 1]) && is_word(text[i]) &&
		    is_word(copy[n - 1])) {
			word = kind_word(copy, n);
			n -= word;
			if (!word)
				copy[n++] = ' ';
		}
		copy[n++] = text[i];
	}
	if (copy)
		copy[n] = '\0';
	return copy;
}

/* Length of the label "name=" at the beginning; 0: there is none. */
static size_t label_of(const char *text, size_t length)
{
	size_t n = 0;

	while (n < length && (isalnum((unsigned char)text[n]) || text[n] == '_'))
		n++;
	if (!n || isdigit((unsigned char)text[0]) || n + 1 >= length || text[n] != '=' ||
	    text[n + 1] == '=' || text[n + 1] == '^')
		return 0;
	return n;
}

static int parse_item(const char *text, size_t length, struct ip_value_item *ret)
{
	const struct ip_expression *shown;
	size_t label;

	for (; length && isspace((unsigned char)*text); text++)
		length--;
	label = label_of(text, length);
	if (label) {
		ret->name = strndup(text, label);
		text += label + 1;
		length -= label + 1;
	}
	ret->text = strndup(text, length);
	if (!ret->text || (label && !ret->name))
		return ip_error("out of memory");
	if (ip_expression_parse(text, length, &ret->expression) < 0)
		return -1;
	shown = ret->expression;
	while (shown->kind == IP_EXPRESSION_FORMAT)
		shown = shown->left;
	if (!label)
		ret->name = without_spaces(text + shown->begin, shown->end - shown->begin);
	return ret->name ? 0 : ip_error("out of memory");
}

static int set_function(struct ip_value_request *r, const char *text, size_t length)
{
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	r->function = strndup(text, length);
	if (!r->function)
		return ip_error("out of memory");
	if (!length || ip_selection_parse_names(r->function, &r->selection) < 0)
		return length ? -1 : ip_error("the name of a function is missing");
	r->exact = !strpbrk(r->function, "*?[!,@") && !strstr(r->function, "file:") &&
		   !strstr(r->function, "lib:");
	return 0;
}

/* FUNC(ITEM, ITEM...) */
static int parse_values(const char *text, struct ip_value_request *r)
{
	size_t length = strlen(text), at = strcspn(text, "(");

	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	if (!length || text[length - 1] != ')' || at + 1 >= length)
		return ip_error("it is FUNC(EXPRESSION, ...)");
	if (set_function(r, text, at) < 0)
		return -1;
	for (length--, at++; at <= length;) {
		size_t end = end_of(text, at, length, ',');

		if (r->n == IP_VALUES_MAX)
			return ip_error("at most %u values", IP_VALUES_MAX);
		if (parse_item(text + at, end - at, &r->items[r->n++]) < 0)
			return -1;
		at = end + 1;
	}
	return 0;
}

/* [FUNC ": "] expression */
static int parse_condition(const char *text, struct ip_value_request *r)
{
	size_t at = strcspn(text, ":\"'");

	while (text[at] == ':' && text[at + 1] == ':')
		at += 2 + strcspn(text + at + 2, ":\"'");
	if (text[at] == ':' && isspace((unsigned char)text[at + 1])) {
		if (set_function(r, text, at) < 0)
			return -1;
		text += at + 1;
	}
	r->n = 1;
	while (isspace((unsigned char)*text))
		text++;
	r->items[0].text = strdup(text);
	if (!r->items[0].text)
		return ip_error("out of memory");
	return ip_expression_parse(text, strlen(text), &r->items[0].expression);
}

static void clear(struct ip_value_request *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->items[i].name);
		free(r->items[i].text);
		ip_expression_destroy(r->items[i].expression);
	}
	free(r->text);
	free(r->function);
	ip_selection_destroy(r->selection);
}

int ip_value_requests_add(struct ip_value_requests *requests, enum ip_value_request_kind kind,
			  const char *text)
{
	struct ip_value_request r = {.kind = kind, .text = strdup(text)};

	if (!r.text || ip_array_grow(&requests->items, requests->n, sizeof(*requests->items)) < 0) {
		clear(&r);
		return ip_error("out of memory");
	}
	if ((kind == IP_REQUEST_WHEN ? parse_condition(text, &r) : parse_values(text, &r)) < 0) {
		clear(&r);
		return ip_error_prefix("%s %s", ip_value_request_option(kind), text);
	}
	requests->items[requests->n++] = r;
	return 0;
}

void ip_value_requests_clear(struct ip_value_requests *requests)
{
	for (size_t i = 0; i < requests->n; i++)
		clear(&requests->items[i]);
	free(requests->items);
	*requests = (struct ip_value_requests){0};
}

bool ip_value_requests_any(const struct ip_value_requests *requests,
			   enum ip_value_request_kind kind)
{
	for (size_t i = 0; i < requests->n; i++)
		if (requests->items[i].kind == kind)
			return true;
	return false;
}
