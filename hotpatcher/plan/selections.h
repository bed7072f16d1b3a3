/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selections of a session, in the order in which people asked for them: the one that it began
 * with, and what was added and taken away since. The last one that speaks of a function decides.
 *
 * A change that consists of nothing but ! items takes away what these match; any other adds what it
 * matches. The first selection is as everywhere: nothing but ! items start from everything.
 */
#ifndef IP_SELECTIONS_H
#define IP_SELECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/selection/selection.h"

struct ip_module;
struct ip_payload_rules;

/* What somebody who looks at the session while it lasts makes of a selected function. */
enum ip_verdict {
	IP_VERDICT_TAKEN,   /* as selected */
	IP_VERDICT_RESTS,   /* it has its place, and no probes for now */
	IP_VERDICT_COUNTED, /* its calls are counted only, and others are not followed into it */
	IP_VERDICT_LEFT_OUT,
};

struct ip_chooser {
	void *data;
	enum ip_verdict (*judge)(const void *data, const struct ip_module *module,
				 uint32_t function);
	uint8_t duty;	 /* of those that are taken; IP_DUTY_LOG: as selected */
	bool calls_only; /* no points */
	bool exclusive;	 /* what is measured ends at a jump */
};

struct ip_selections {
	struct ip_selections_item {
		struct ip_selection *selection;
		char *text; /* of it, to know it again */
		bool takes_away;
	} * items;
	size_t n;
	/* what the probes of the functions do; NULL: log. Borrowed */
	const struct ip_payload_rules *rules;
	const struct ip_chooser *chooser; /* NULL: there is none. Borrowed */
};

/* Parses text (NULL: everything) as the next one, which makes an earlier one of the same text
 * void. -1 with an error: nothing changed. */
int ip_selections_add(struct ip_selections *selections, const char *text);

/* The same for a whole set: *ret is selections with text added, of its own. selections stays as it
 * is. */
int ip_selections_with(const struct ip_selections *selections, const char *text,
		       struct ip_selections *ret);

/* The one that was added last. There is one. */
const struct ip_selections_item *ip_selections_last(const struct ip_selections *selections);

/* As ip_selection_match(). */
bool ip_selections_match(const struct ip_selections *selections, const char *linker_name,
			 const char *file, const char *module);

void ip_selections_clear(struct ip_selections *selections);

#endif
