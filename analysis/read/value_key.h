/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a value is for those who compare values: calls of one key are one group. Keys are made of
 * whatever was recorded, so each bit pattern has one: a NaN is equal to any other NaN, and -0 to 0.
 *
 * With ranges numbers are put together by powers of two: 0; 1; 2..3; 4..7 and so on, negative ones
 * likewise; of floating values 0.5..1, 1..2, where the upper bound belongs to the next range. What
 * is no number (a string, an enumerator, a truth value, a pointer, an infinity) stays as it is.
 */
#ifndef IP_READ_VALUE_KEY_H
#define IP_READ_VALUE_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/read/values.h"

/* In the order in which keys are sorted. */
enum ip_value_key_kind {
	IP_KEY_INTEGER,	       /* word: int64_t */
	IP_KEY_UNSIGNED,       /* word: above INT64_MAX */
	IP_KEY_REAL,	       /* word: bits of a double */
	IP_KEY_RANGE,	       /* word: low bound, an int64_t; high: the last number of the range */
	IP_KEY_UNSIGNED_RANGE, /* the same above INT64_MAX, of uint64_t */
	IP_KEY_REAL_RANGE,     /* word, high: bits of doubles */
	IP_KEY_CHARACTER,
	IP_KEY_BOOLEAN,
	IP_KEY_ENUMERATOR,
	IP_KEY_POINTER,
	IP_KEY_NULL_STRING,
	IP_KEY_STRING,	/* word: whether the string was cut */
	IP_KEY_MISSING, /* the call has no such value, or it could not be read */
	IP_KEY_OTHERS,	/* values beyond a limit, put together */
};

struct ip_value_key {
	enum ip_value_key_kind kind;
	uint64_t word, high;
	/* Of a range any of its values. Not valid in MISSING and OTHERS. It points into what the
	 * key was made of, or into a copy (ip_value_key_copy()). */
	struct ip_value value;
};

/* Makes the key of a value; value NULL: it is missing. */
struct ip_value_key ip_value_key_make(const struct ip_value *value, bool ranges);

/* Copies the words that the key points to. The caller frees *ret_words after the key. Returns 0, or
 * -1 with an error where memory ran out. */
int ip_value_key_copy(struct ip_value_key *key, uint64_t **ret_words);

uint64_t ip_value_key_hash(const struct ip_value_key *key);
bool ip_value_key_equals(const struct ip_value_key *a, const struct ip_value_key *b);

/* Returns how a key is sorted before (< 0) or behind (> 0) another: numbers by size, then strings
 * by bytes, then calls without a value. */
int ip_value_key_compare(const struct ip_value_key *a, const struct ip_value_key *b);

/* Returns whether the key is a number that can be compared with others: no text, no range, no NaN.
 * Characters, truth values, enumerators and pointers are numbers, too. */
bool ip_value_key_number(const struct ip_value_key *key, long double *ret);

/* Returns whether the key is a number or a range of numbers, with its bounds. */
bool ip_value_key_bounds(const struct ip_value_key *key, double *ret_from, double *ret_to);

/* Prints the key for people: 42, "GET", 4096..8191, (none), (others). */
void ip_value_key_print(FILE *out, const struct ip_value_key *key);
/* Returns the same as a text. The caller frees it. Returns NULL with an error where memory ran out.
 */
char *ip_value_key_shown(const struct ip_value_key *key);
/* The same without quotes and with bytes as they are, as programs read it: GET. "" where there is
 * no value. The caller frees it. Returns NULL with an error where memory ran out. */
char *ip_value_key_text(const struct ip_value_key *key);
/* Writes it as a member: a number, a string (a range: "4096..8191"), true, false; null where there
 * is no value. */
void ip_value_key_json(struct ip_json *json, const char *name, const struct ip_value_key *key);
/* Returns what the member is: "value", "cut" (the beginning of a string), "range", "null" (a null
 * pointer in the place of a string), "missing", "others". */
const char *ip_value_key_is(const struct ip_value_key *key);

#endif
