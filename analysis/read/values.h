/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that came with an event, as people and programs read them. Signatures and values are
 * input from outside: what does not fit together is left out.
 */
#ifndef IP_READ_VALUES_H
#define IP_READ_VALUES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/json.h"
#include "common/values.h"

struct ip_value_type {
	char code;	   /* of common/values.h: i u c b e p f x s - */
	uint8_t size;	   /* of i u e f, in bytes */
	const char *name;  /* NULL: none */
	char *enumerators; /* "NAME=VALUE,NAME=VALUE"; NULL: none */
};

struct ip_signature {
	struct ip_value_type values[IP_VALUES_MAX];
	unsigned n;
};

/* Parses text, which is cut in place and kept by reference. 0; -1 where it is no signature, without
 * an error. */
int ip_signature_parse(char *text, struct ip_signature *ret);

/* Prints the values of a payload (ip_event_payload()): `fd=3, path="/index.html"`. */
void ip_values_print(FILE *out, const struct ip_signature *signature, const uint64_t *payload);

/* The same as members of an open object, one a value; those without a name are arg1, arg2 by
 * their place. Numbers are numbers, pointers strings "0x...", floating values that JSON has no
 * number for the strings "inf", "-inf" and "nan"; a string that is a null pointer, and what
 * could not be had, is null; one that could not be read {"unreadable":"0x..."}. */
void ip_values_json(struct ip_json *json, const struct ip_signature *signature,
		    const uint64_t *payload);

/* The first value alone, under key. */
void ip_value_json(struct ip_json *json, const char *key, const struct ip_signature *signature,
		   const uint64_t *payload);

/* Whether a string of it was cut at the limit. */
bool ip_values_cut(const struct ip_signature *signature, const uint64_t *payload);

#endif
