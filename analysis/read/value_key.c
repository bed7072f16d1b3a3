/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, compares and prints keys of values.
 */
#include "analysis/read/value_key.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/print.h"

static uint64_t bits_of(double d)
{
	uint64_t word;

	memcpy(&word, &d, sizeof(word));
	return word;
}

static double double_of(uint64_t word)
{
	double d;

	memcpy(&d, &word, sizeof(d));
	return d;
}

static struct ip_value_key integer(int64_t n)
{
	return (struct ip_value_key){.kind = IP_KEY_INTEGER, .word = (uint64_t)n};
}

/* Returns the range of a number that is not 0. */
static struct ip_value_key range_of(int64_t n)
{
	uint64_t size = n < 0 ? -(uint64_t)n : (uint64_t)n;
	uint64_t low = 1ull << (63 - __builtin_clzll(size)), high = low + (low - 1);

	if (low == 1)
		return integer(n);
	/* -2^63 is the only number of its size */
	if (n < 0)
		return (struct ip_value_key){
			.kind = IP_KEY_RANGE, .word = low >> 63 ? low : -high, .high = -low};
	return (struct ip_value_key){.kind = IP_KEY_RANGE, .word = low, .high = high};
}

static struct ip_value_key real(double d, bool ranges)
{
	double low, high;
	int exponent;

	if (isnan(d))
		return (struct ip_value_key){.kind = IP_KEY_REAL, .word = bits_of((double)NAN)};
	if (d == 0)
		return (struct ip_value_key){.kind = IP_KEY_REAL, .word = bits_of(0.0)};
	if (!ranges || isinf(d))
		return (struct ip_value_key){.kind = IP_KEY_REAL, .word = bits_of(d)};
	frexp(d, &exponent);
	low = ldexp(d < 0 ? -1 : 1, exponent - 1);
	high = ldexp(d < 0 ? -1 : 1, exponent);
	return (struct ip_value_key){.kind = IP_KEY_REAL_RANGE,
				     .word = bits_of(d < 0 ? high : low),
				     .high = bits_of(d < 0 ? low : high)};
}

static struct ip_value_key key_of_string(const struct ip_value *v)
{
	uint64_t word = v->words[0];

	if (word & IP_STRING_NULL)
		return (struct ip_value_key){.kind = IP_KEY_NULL_STRING};
	if (word & IP_STRING_UNREADABLE)
		return (struct ip_value_key){.kind = IP_KEY_MISSING};
	return (struct ip_value_key){.kind = IP_KEY_STRING, .word = !!(word & IP_STRING_CUT)};
}

static struct ip_value_key key_of_enum(const struct ip_value *v)
{
	const char *name;

	return (struct ip_value_key){.kind = ip_value_enumerator(v->type, v->words[0], &name)
						     ? IP_KEY_ENUMERATOR
						     : IP_KEY_INTEGER,
				     .word = v->words[0]};
}

static struct ip_value_key make(const struct ip_value *v, bool ranges)
{
	uint64_t word;
	int64_t n;

	if (!v || v->missing || v->type->code == '-')
		return (struct ip_value_key){.kind = IP_KEY_MISSING};
	word = v->words[0];
	switch (v->type->code) {
	case 'i':
		n = ip_value_extend(word, v->type->size, true);
		return ranges && n ? range_of(n) : integer(n);
	case 'u':
		word = (uint64_t)ip_value_extend(word, v->type->size, false);
		if (word <= INT64_MAX)
			return ranges && word ? range_of((int64_t)word) : integer((int64_t)word);
		if (ranges)
			return (struct ip_value_key){.kind = IP_KEY_UNSIGNED_RANGE,
						     .word = 1ull << 63,
						     .high = UINT64_MAX};
		return (struct ip_value_key){.kind = IP_KEY_UNSIGNED, .word = word};
	case 'f':
	case 'x':
		return real(ip_value_floating(v), ranges);
	case 'c':
		return (struct ip_value_key){.kind = IP_KEY_CHARACTER,
					     .word = (uint64_t)(int64_t)(char)word};
	case 'b':
		return (struct ip_value_key){.kind = IP_KEY_BOOLEAN, .word = !!(word & 0xff)};
	case 'e':
		return key_of_enum(v);
	case 's':
		return key_of_string(v);
	default: /* a pointer, or a number that is shown as one */
		return (struct ip_value_key){
			.kind = IP_KEY_POINTER,
			.word = (uint64_t)ip_value_extend(word, v->type->size, false)};
	}
}

struct ip_value_key ip_value_key_make(const struct ip_value *value, bool ranges)
{
	struct ip_value_key key = make(value, ranges);

	if (key.kind != IP_KEY_MISSING)
		key.value = *value;
	return key;
}

static size_t words_of(const struct ip_value *v)
{
	if (v->type->code == 's')
		return 1 + ((size_t)v->length + 7) / 8;
	return v->type->code == 'x' ? 2 : 1;
}

static bool has_value(const struct ip_value_key *key)
{
	return key->kind != IP_KEY_MISSING && key->kind != IP_KEY_OTHERS;
}

int ip_value_key_copy(struct ip_value_key *key, uint64_t **ret_words)
{
	size_t n = has_value(key) ? words_of(&key->value) : 0;

	*ret_words = NULL;
	if (!n)
		return 0;
	*ret_words = malloc(n * sizeof(**ret_words));
	if (!*ret_words)
		return ip_error("out of memory");
	memcpy(*ret_words, key->value.words, n * sizeof(**ret_words));
	key->value.words = *ret_words;
	return 0;
}

static const char *bytes_of(const struct ip_value_key *key)
{
	return (const char *)(key->value.words + 1);
}

uint64_t ip_value_key_hash(const struct ip_value_key *key)
{
	uint64_t h = (key->word ^ (uint64_t)key->kind << 56) * 0x9e3779b97f4a7c15ull;

	if (key->kind == IP_KEY_STRING) {
		const char *p = bytes_of(key);
		uint64_t word;
		size_t left = key->value.length;

		h ^= left;
		for (; left; left -= left < 8 ? left : 8, p += 8) {
			word = 0;
			memcpy(&word, p, left < 8 ? left : 8);
			h = (h ^ h >> 29 ^ word) * 0xc2b2ae3d27d4eb4full;
		}
	}
	return h ^ h >> 32;
}

bool ip_value_key_equals(const struct ip_value_key *a, const struct ip_value_key *b)
{
	if (a->kind != b->kind || a->word != b->word || a->high != b->high)
		return false;
	return a->kind != IP_KEY_STRING || (a->value.length == b->value.length &&
					    !memcmp(bytes_of(a), bytes_of(b), a->value.length));
}

/* Returns a number by which keys that are numbers are sorted. */
static long double number_of(const struct ip_value_key *key)
{
	switch (key->kind) {
	case IP_KEY_REAL:
	case IP_KEY_REAL_RANGE:
		return double_of(key->word);
	case IP_KEY_UNSIGNED:
	case IP_KEY_UNSIGNED_RANGE:
	case IP_KEY_POINTER:
		return key->word;
	default:
		return (int64_t)key->word;
	}
}

static int compare_strings(const struct ip_value_key *a, const struct ip_value_key *b)
{
	uint32_t least = a->value.length < b->value.length ? a->value.length : b->value.length;
	int order = memcmp(bytes_of(a), bytes_of(b), least);

	if (!order)
		order = (a->value.length > b->value.length) - (a->value.length < b->value.length);
	return order ? order : (a->word > b->word) - (a->word < b->word);
}

int ip_value_key_compare(const struct ip_value_key *a, const struct ip_value_key *b)
{
	bool numbers = a->kind <= IP_KEY_REAL_RANGE && b->kind <= IP_KEY_REAL_RANGE;
	long double x, y;

	if (a->kind != b->kind && !numbers)
		return a->kind < b->kind ? -1 : 1;
	if (a->kind == IP_KEY_STRING)
		return compare_strings(a, b);
	x = number_of(a);
	y = number_of(b);
	if (isnan(x) || isnan(y)) /* behind all numbers */
		return !!isnan(x) - !!isnan(y);
	if (x != y)
		return x < y ? -1 : 1;
	return (a->kind > b->kind) - (a->kind < b->kind);
}

bool ip_value_key_number(const struct ip_value_key *key, long double *ret)
{
	switch (key->kind) {
	case IP_KEY_INTEGER:
	case IP_KEY_UNSIGNED:
	case IP_KEY_REAL:
	case IP_KEY_CHARACTER:
	case IP_KEY_BOOLEAN:
	case IP_KEY_ENUMERATOR:
	case IP_KEY_POINTER:
		*ret = number_of(key);
		return !isnan(*ret);
	default:
		return false;
	}
}

bool ip_value_key_bounds(const struct ip_value_key *key, double *ret_from, double *ret_to)
{
	if (key->kind > IP_KEY_REAL_RANGE)
		return false;
	*ret_from = *ret_to = (double)number_of(key);
	if (key->kind == IP_KEY_RANGE)
		*ret_to = (double)(int64_t)key->high;
	if (key->kind == IP_KEY_UNSIGNED_RANGE)
		*ret_to = (double)key->high;
	if (key->kind == IP_KEY_REAL_RANGE)
		*ret_to = double_of(key->high);
	return true;
}

#define RANGE_TEXT 72

static char *range_text(const struct ip_value_key *key, char text[RANGE_TEXT])
{
	if (key->kind == IP_KEY_RANGE)
		snprintf(text, RANGE_TEXT, "%" PRId64 "..%" PRId64, (int64_t)key->word,
			 (int64_t)key->high);
	else if (key->kind == IP_KEY_UNSIGNED_RANGE)
		snprintf(text, RANGE_TEXT, "%" PRIu64 "..%" PRIu64, key->word, key->high);
	else
		snprintf(text, RANGE_TEXT, "%.17g..%.17g", double_of(key->word),
			 double_of(key->high));
	for (char *p = text; *p; p++)
		if (*p == ',') /* another locale's decimal point */
			*p = '.';
	return text;
}

static bool is_range(const struct ip_value_key *key)
{
	return key->kind == IP_KEY_RANGE || key->kind == IP_KEY_UNSIGNED_RANGE ||
	       key->kind == IP_KEY_REAL_RANGE;
}

void ip_value_key_print(FILE *out, const struct ip_value_key *key)
{
	char text[RANGE_TEXT];

	if (key->kind == IP_KEY_MISSING)
		ip_print(out, "(none)");
	else if (key->kind == IP_KEY_OTHERS)
		ip_print(out, "(others)");
	else if (is_range(key))
		ip_print(out, "%s", range_text(key, text));
	else if (key->kind == IP_KEY_REAL && double_of(key->word) == 0)
		ip_print(out, "0"); /* the sign of a zero does not count */
	else
		ip_value_print(out, &key->value);
}

char *ip_value_key_shown(const struct ip_value_key *key)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (out)
		ip_value_key_print(out, key);
	return ip_print_end_text(out, &text);
}

char *ip_value_key_text(const struct ip_value_key *key)
{
	char *text = NULL;

	if (key->kind == IP_KEY_STRING) {
		text = strndup(bytes_of(key), key->value.length);
	} else if (!has_value(key) || key->kind == IP_KEY_NULL_STRING) {
		text = strdup("");
	} else if (key->kind == IP_KEY_CHARACTER) {
		if (asprintf(&text, "%" PRId64, (int64_t)key->word) < 0)
			text = NULL;
	} else if (key->kind == IP_KEY_POINTER) {
		if (asprintf(&text, "0x%" PRIx64, key->word) < 0)
			text = NULL;
	} else {
		return ip_value_key_shown(key);
	}
	if (!text)
		ip_error("out of memory");
	return text;
}

void ip_value_key_json(struct ip_json *json, const char *name, const struct ip_value_key *key)
{
	char text[RANGE_TEXT];

	if (!has_value(key))
		ip_json_string(json, name, NULL);
	else if (is_range(key))
		ip_json_string(json, name, range_text(key, text));
	else if (key->kind == IP_KEY_REAL && double_of(key->word) == 0)
		ip_json_int(json, name, 0);
	else
		ip_value_write(json, name, &key->value);
}

const char *ip_value_key_is(const struct ip_value_key *key)
{
	switch (key->kind) {
	case IP_KEY_RANGE:
	case IP_KEY_UNSIGNED_RANGE:
	case IP_KEY_REAL_RANGE:
		return "range";
	case IP_KEY_NULL_STRING:
		return "null";
	case IP_KEY_STRING:
		return key->word ? "cut" : "value";
	case IP_KEY_MISSING:
		return "missing";
	case IP_KEY_OTHERS:
		return "others";
	default:
		return "value";
	}
}
