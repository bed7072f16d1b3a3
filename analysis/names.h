/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a recording's functions as people read them; demangled when asked for, once.
 */
#ifndef IP_NAMES_H
#define IP_NAMES_H

#include <stdint.h>
#include <stdio.h>

#include "analysis/session.h"

struct ip_names;

/* session is borrowed. NULL with an error where memory ran out. */
struct ip_names *ip_names_create(const struct ip_recording *session);
void ip_names_destroy(struct ip_names *names);

/* The demangled name without its arguments (the linker name where memory ran out). Owned by names. It may
 * hold any byte. */
const char *ip_names_get(struct ip_names *names, uint32_t function);

/* Writes text to a terminal: control characters of a trace from elsewhere become '?'. */
void ip_print_clean(FILE *out, const char *text);

/* The same in place. */
void ip_clean(char *text);

#endif
