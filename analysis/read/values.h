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

/* One value of a payload, with its words. It points into the signature and the payload. */
struct ip_value {
	const struct ip_value_type *type;
	unsigned place; /* index in the signature */
	bool missing;	/* it could not be recorded */
	const uint64_t *words;
	uint32_t length; /* length in bytes of a string that is there */
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

/* Writes what a function has returned, under key: the value; or an object, if the values have
 * names. */
void ip_value_json(struct ip_json *json, const char *key, const struct ip_signature *signature,
		   const uint64_t *payload);

/* Takes the value at place out of a payload. Returns false where the payload has no such value. */
bool ip_value_at(const struct ip_signature *signature, const uint64_t *payload, unsigned place,
		 struct ip_value *ret);

/* Print or write one value, as ip_values_print() and ip_values_json() do. */
void ip_value_print(FILE *out, const struct ip_value *value);
void ip_value_write(struct ip_json *json, const char *key, const struct ip_value *value);

/* Returns the number of an integer of size bytes, whose upper bytes mean nothing. */
int64_t ip_value_extend(uint64_t word, unsigned size, bool is_signed);
/* Returns the number of a floating value. */
double ip_value_floating(const struct ip_value *value);
/* Finds the enumerator whose number is word. Returns the length of its name, and the name in
 * *ret; 0: there is none. */
size_t ip_value_enumerator(const struct ip_value_type *type, uint64_t word, const char **ret);

/* Returns whether a string among the values was cut at the limit. */
bool ip_values_cut(const struct ip_signature *signature, const uint64_t *payload);

#endif
