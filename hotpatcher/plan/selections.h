/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selections of a session, in the order of the requests: the one that the session began with,
 * and each one that added or took away functions since. The last selection that decides about a
 * function counts.
 *
 * A later selection that consists of ! items only takes away the functions that they name. Any
 * other one adds the functions that it matches. The first selection is like any single one: if it
 * consists of ! items only, it starts from all functions.
 */
#ifndef IP_SELECTIONS_H
#define IP_SELECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/selection/selection.h"

struct ip_module;
struct ip_payload_rules;

/* What a chooser, which looks at the session while it runs, decides about a selected function. */
enum ip_verdict {
	IP_VERDICT_TAKEN,   /* as selected */
	IP_VERDICT_RESTS,   /* it keeps its number, and has no live probes for now */
	IP_VERDICT_COUNTED, /* its calls are only counted; no call of another function is followed
			       into it */
	IP_VERDICT_LEFT_OUT,
};

struct ip_chooser {
	void *data;
	enum ip_verdict (*judge)(const void *data, const struct ip_module *module,
				 uint32_t function);
	uint8_t duty;	 /* of functions that are taken; IP_DUTY_LOG: as selected */
	bool calls_only; /* no points */
	bool exclusive;	 /* what is measured ends at a jump */
};

struct ip_selections {
	struct ip_selections_item {
		struct ip_selection *selection;
		char *text; /* its text, to recognise it when it comes again */
		bool takes_away;
	} * items;
	size_t n;
	/* duties of the functions' probes; NULL: all are logged. Borrowed */
	const struct ip_payload_rules *rules;
	const struct ip_chooser *chooser; /* NULL: none. Borrowed */
	bool plt; /* functions of modules' PLTs can be selected (hotpatcher/process/plt.h) */
};

/* Parses text (NULL: all functions) and adds it as the last selection. It replaces an earlier one
 * with the same text. Returns -1 with an error: nothing has changed. */
int ip_selections_add(struct ip_selections *selections, const char *text);

/* Makes *ret a copy of selections with text added. selections stays as it is. The caller clears
 * *ret. */
int ip_selections_with(const struct ip_selections *selections, const char *text,
		       struct ip_selections *ret);

/* Returns the selection that was added last. There must be one. */
const struct ip_selections_item *ip_selections_last(const struct ip_selections *selections);

/* Matches like ip_selection_match(). */
bool ip_selections_match(const struct ip_selections *selections, const char *linker_name,
			 const char *file, const char *module);

void ip_selections_clear(struct ip_selections *selections);

#endif
