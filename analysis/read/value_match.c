/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and tests conditions on values.
 */
#include "analysis/read/value_match.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/value_key.h"
#include "common/cleanup.h"
#include "common/error.h"

/* Finds the operator. Returns its first character; NULL: there is none. */
static const char *find_op(const char *text, enum ip_value_match_op *ret_op, size_t *ret_length)
{
	static const struct {
		const char *text;
		enum ip_value_match_op op;
	} ops[] = {{"!=", IP_MATCH_DIFFERENT}, {"<=", IP_MATCH_AT_MOST}, {">=", IP_MATCH_AT_LEAST},
		   {"==", IP_MATCH_EQUAL},     {"=", IP_MATCH_EQUAL},	 {"<", IP_MATCH_LESS},
		   {">", IP_MATCH_MORE}};

	for (const char *p = text; *p; p++) {
		if (p[0] == '-' && p[1] == '>') {
			p++;
			continue;
		}
		for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
			if (!strncmp(p, ops[i].text, strlen(ops[i].text))) {
				*ret_op = ops[i].op;
				*ret_length = strlen(ops[i].text);
				return p;
			}
	}
	return NULL;
}

/* Parses a number that is all of the text. */
static bool parse_number(const char *text, long double *ret)
{
	char *end;

	if (!isdigit((unsigned char)text[strspn(text, "+-.")]))
		return false;
	*ret = strtold(text, &end);
	return end != text && !*end;
}

int ip_value_matches_add(struct ip_value_matches *matches, const char *text)
{
	struct ip_value_match *m = &matches->items[matches->n];
	enum ip_value_match_op op = IP_MATCH_EQUAL;
	size_t length = 0, name;
	const char *at = find_op(text, &op, &length), *begin = text, *value;

	if (matches->n == IP_VALUE_MATCHES_MAX)
		return ip_error("more than %u conditions on values", IP_VALUE_MATCHES_MAX);
	while (*begin == ' ')
		begin++;
	for (name = at && at > begin ? at - begin : 0; name && begin[name - 1] == ' ';)
		name--;
	if (!name)
		return ip_error("'%s' is no condition on a value: NAME, one of = != < <= > >=, a "
				"number or a glob",
				text);
	value = at + length;
	while (*value == ' ')
		value++;
	*m = (struct ip_value_match){.op = op};
	m->whole = strdup(begin);
	m->name = strndup(begin, name);
	m->text = strdup(value);
	if (!m->whole || !m->name || !m->text) {
		free(m->whole);
		free(m->name);
		free(m->text);
		return ip_error("out of memory");
	}
	matches->n++;
	m->is_number = parse_number(value, &m->number);
	if (!m->is_number && op != IP_MATCH_EQUAL && op != IP_MATCH_DIFFERENT)
		return ip_error("'%s': what comes after < <= > >= is a number, not '%s'", text,
				value);
	return 0;
}

void ip_value_matches_clear(struct ip_value_matches *matches)
{
	for (unsigned i = 0; i < matches->n; i++) {
		free(matches->items[i].whole);
		free(matches->items[i].name);
		free(matches->items[i].text);
		ip_value_name_clear(&matches->items[i].where);
	}
	matches->n = 0;
}

int ip_value_matches_find(struct ip_value_matches *matches, const struct ip_recording *session,
			  const char *dir)
{
	ip_value_matches_forget(matches);
	for (unsigned i = 0; i < matches->n; i++)
		if (ip_value_name_find(session, dir, matches->items[i].name,
				       &matches->items[i].where) < 0)
			return -1;
	return 0;
}

void ip_value_matches_forget(struct ip_value_matches *matches)
{
	for (unsigned i = 0; i < matches->n; i++)
		ip_value_name_clear(&matches->items[i].where);
}

static bool compare(enum ip_value_match_op op, long double value, long double with)
{
	switch (op) {
	case IP_MATCH_EQUAL:
		return value == with;
	case IP_MATCH_DIFFERENT:
		return value != with;
	case IP_MATCH_LESS:
		return value < with;
	case IP_MATCH_AT_MOST:
		return value <= with;
	case IP_MATCH_MORE:
		return value > with;
	default:
		return value >= with;
	}
}

/* A character is compared as itself: 'x', too. */
static bool matches_text(const struct ip_value_match *m, const struct ip_value_key *key)
{
	_cleanup_free_ char *text = ip_value_key_text(key);
	char character[2] = {(char)key->word};

	if (key->kind == IP_KEY_NULL_STRING)
		return !strcmp(m->text, "NULL");
	if (key->kind == IP_KEY_CHARACTER)
		return !fnmatch(m->text, character, 0);
	if (key->kind == IP_KEY_POINTER && !key->word && key->value.type->code == 'p' &&
	    !strcmp(m->text, "NULL")) /* as it is shown */
		return true;
	return text && !fnmatch(m->text, text, 0);
}

static bool holds(const struct ip_value_match *m, const struct ip_value *value)
{
	struct ip_value_key key = ip_value_key_make(value, false);
	long double number;

	if (key.kind == IP_KEY_MISSING)
		return false;
	if (m->is_number && ip_value_key_number(&key, &number))
		return compare(m->op, number, m->number);
	if (m->op == IP_MATCH_EQUAL)
		return matches_text(m, &key);
	return m->op == IP_MATCH_DIFFERENT && !matches_text(m, &key);
}

uint32_t ip_value_matches_test(const struct ip_value_matches *matches, const uint64_t *payload,
			       bool at_exit)
{
	uint32_t ret = 0;

	for (unsigned i = 0; payload && i < matches->n; i++) {
		struct ip_value value;

		if (ip_value_name_get(&matches->items[i].where, payload, at_exit, &value) &&
		    holds(&matches->items[i], &value))
			ret |= 1u << i;
	}
	return ret;
}
