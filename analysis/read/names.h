/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a recording's functions as people read them; demangled when asked for, once.
 */
#ifndef IP_NAMES_H
#define IP_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/read/session.h"

struct ip_names;

/* session is borrowed. NULL with an error where memory ran out. */
struct ip_names *ip_names_create(const struct ip_recording *session);
void ip_names_destroy(struct ip_names *names);

/* The demangled name without its arguments (the linker name where memory ran out). Owned by
 * names. It may hold any byte. */
const char *ip_names_get(struct ip_names *names, uint32_t function);

/* The same with what its figures are about, where that is not the whole recording, or not whole
 * calls: "f [until dropped at 310 ms]", "f [until its tail call]". For views for people, and
 * formats that have no other place for it. */
const char *ip_names_shown(struct ip_names *names, uint32_t function);

/* Of which functions (by index, borrowed) the time of some calls ends at a tail call:
 * ip_names_shown() says so from now on. Before the first call of it. */
void ip_names_mark_tails(struct ip_names *names, const bool *until_tail);

/* The first time that the probes of a function were taken away (--drop-hot), or NULL. */
const struct ip_recording_drop *ip_names_drop(const struct ip_recording *session,
					      uint32_t function);

#endif
