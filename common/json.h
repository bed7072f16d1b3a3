/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON: a small streaming emitter. It keeps track of commas and nesting. Strings are
 * escaped, and bytes that are no UTF-8 become U+FFFD, so the result always parses. A value at the
 * top is followed by a newline: one document a line.
 */
#ifndef IP_JSON_H
#define IP_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct ip_json {
	FILE *out;
	unsigned depth;
	bool first[32];
};

void ip_json_init(struct ip_json *j, FILE *out);
/* Begins inside of an object that the caller has begun itself, with a member in it already. */
void ip_json_init_inside(struct ip_json *j, FILE *out);
/* key must be NULL inside arrays and at the top. */
void ip_json_object(struct ip_json *j, const char *key);
void ip_json_end_object(struct ip_json *j);
void ip_json_array(struct ip_json *j, const char *key);
void ip_json_end_array(struct ip_json *j);
void ip_json_string(struct ip_json *j, const char *key, const char *value); /* NULL -> null */
void ip_json_uint(struct ip_json *j, const char *key, uint64_t value);
void ip_json_int(struct ip_json *j, const char *key, int64_t value);
void ip_json_double(struct ip_json *j, const char *key, double value); /* not finite -> null */
/* text: a whole JSON value */
void ip_json_raw(struct ip_json *j, const char *key, const char *text);
void ip_json_bool(struct ip_json *j, const char *key, bool value);

#endif
