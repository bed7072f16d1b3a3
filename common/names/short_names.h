/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short forms (short_name.h) of a list of names, such that names stay apart: names that would have
 * one form have less elided, then nothing, and where that does not help, the whole name is shown.
 * What several names lie in, as the methods of a class, has one form in all of them.
 */
#ifndef IP_SHORT_NAMES_H
#define IP_SHORT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct ip_short_names {
	const char *name; /* demangled; borrowed */
	bool mangled;	  /* a demangler has made the name: others have no shorter form */
	/* malloc'ed, of the caller; NULL: the name itself. ip_short_names_make() sets it */
	char *form;
};

/* Makes the forms of n names, whose forms are NULL. Where memory runs out, names are whole. The
 * same name may be there more than once; it has one form then. */
void ip_short_names_make(struct ip_short_names *names, size_t n);

/* Returns the form, or the name where that is its form. */
const char *ip_short_names_form(const struct ip_short_names *name);

#endif
