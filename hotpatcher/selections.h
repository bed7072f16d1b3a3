/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selections of a session, in the order in which people asked for them: the one that it began with, and what was added and
 * taken away since. The last one that speaks of a function decides.
 *
 * A change that consists of nothing but ! items takes away what these match; any other adds what it matches. The first selection is
 * as everywhere: nothing but ! items start from everything.
 */
#ifndef IP_SELECTIONS_H
#define IP_SELECTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/selection.h"

struct ip_drops;
struct ip_fperf;
struct ip_payload_rules;

struct ip_selections {
	struct ip_selections_item {
		struct ip_selection *selection;
		char *text; /* of it, to know it again */
		bool takes_away;
	} * items;
	size_t n;
	const struct ip_payload_rules *rules; /* what the probes of the functions do; NULL: log. Borrowed */
	const struct ip_drops *drops; /* what --drop-hot has taken away; NULL: nothing. Borrowed */
	const struct ip_fperf *fperf; /* reads counters in all functions, and has taken some out; NULL: nothing. Borrowed */
};

/* Parses text (NULL: everything) as the next one, which makes an earlier one of the same text void. -1 with an error: nothing
 * changed. */
int ip_selections_add(struct ip_selections *selections, const char *text);

/* The same for a whole set: *ret is selections with text added, of its own. selections stays as it is. */
int ip_selections_with(const struct ip_selections *selections, const char *text, struct ip_selections *ret);

/* The one that was added last. There is one. */
const struct ip_selections_item *ip_selections_last(const struct ip_selections *selections);

/* As ip_selection_match(). */
bool ip_selections_match(const struct ip_selections *selections, const char *linker_name, const char *file,
			 const char *module);

void ip_selections_clear(struct ip_selections *selections);

#endif
