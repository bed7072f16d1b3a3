/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that came with an event, as people and programs read them. Signatures and values
 * are input from outside: values that do not fit their signature are left out.
 */
#ifndef IP_READ_VALUES_H
#define IP_READ_VALUES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/json.h"
#include "common/trace/values.h"

struct ip_value_type {
	char code;	   /* of common/trace/values.h: i u c b e p f x s - */
	uint8_t size;	   /* of i u e f, in bytes */
	const char *name;  /* NULL: none */
	char *enumerators; /* "NAME=VALUE,NAME=VALUE"; NULL: none */
};

struct ip_signature {
	struct ip_value_type values[IP_VALUES_MAX];
	unsigned n;
};

/* Parses text. It cuts text in place and keeps pointers into it. Returns 0, or -1 without an
 * error where text is no signature. */
int ip_signature_parse(char *text, struct ip_signature *ret);

/* Prints the values of a payload (ip_event_payload()): `fd=3, path="/index.html"`. */
void ip_values_print(FILE *out, const struct ip_signature *signature, const uint64_t *payload);

/* Writes the values of a payload as members of an open object, one member a value. A value
 * without a name is arg1, arg2 ... by its place. Numbers are JSON numbers, pointers are strings
 * "0x...". Floating values that JSON has no number for are the strings "inf", "-inf" and "nan".
 * A string whose pointer is null, and a value that could not be recorded, is null. A string that
 * could not be read is {"unreadable":"0x..."}. */
void ip_values_json(struct ip_json *json, const struct ip_signature *signature,
		    const uint64_t *payload);

/* Writes the first value only, under key. */
void ip_value_json(struct ip_json *json, const char *key, const struct ip_signature *signature,
		   const uint64_t *payload);

/* Returns whether a string among the values was cut at the limit. */
bool ip_values_cut(const struct ip_signature *signature, const uint64_t *payload);

#endif
