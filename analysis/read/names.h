/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a recording's functions as people read them. A name is demangled once, when a caller
 * first gets it.
 */
#ifndef IP_NAMES_H
#define IP_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/read/session.h"

struct ip_names;

/* session is borrowed. Returns NULL with an error where memory ran out. */
struct ip_names *ip_names_create(const struct ip_recording *session);
void ip_names_destroy(struct ip_names *names);

/* Returns the demangled name without its arguments (the linker name where memory ran out). It is
 * owned by names and may hold any byte. */
const char *ip_names_get(struct ip_names *names, uint32_t function);

/* Returns the name for people: the short form (common/names/short_name.h), or the whole name after
 * ip_names_use_full(). Functions of different names have different short forms: where template
 * arguments that were elided would tell two functions of the recording apart, neither of them has
 * them elided. Owned by names, may hold any byte. */
const char *ip_names_text(struct ip_names *names, uint32_t function);
/* The same, but short even after ip_names_use_full(). */
const char *ip_names_short(struct ip_names *names, uint32_t function);
/* Makes ip_names_text() and ip_names_shown() return whole names from now on, for --full-names. Must
 * be called before the first call of ip_names_shown(). */
void ip_names_use_full(struct ip_names *names);

/* Returns the name of ip_names_text(). Where the function's figures are not about the whole
 * recording, or not about whole calls, a note follows: "f [until dropped at 310 ms]", "f [until
 * its tail call]". It is for views for people, and for formats that have no other place for the
 * note. */
const char *ip_names_shown(struct ip_names *names, uint32_t function);

/* Tells of which functions (by index; borrowed) the time of some calls ends at a tail call.
 * ip_names_shown() adds its note from then on. Must be called before the first call of
 * ip_names_shown(). */
void ip_names_mark_tails(struct ip_names *names, const bool *until_tail);

/* Returns the first time that --drop-hot took the probes of the function away, or NULL. */
const struct ip_recording_drop *ip_names_drop(const struct ip_recording *session,
					      uint32_t function);

/* Gives the number behind the last one a name; the first of them is the one behind the recording's
 * functions. It is for what stands beside functions in a view, such as threads. Its name is the
 * same in each form. text is owned by names from then on, also where this fails. Returns 0, or -1
 * with an error. */
int ip_names_append(struct ip_names *names, char *text);

#endif
