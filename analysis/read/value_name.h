/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a value by its name: where it stands in each signature of a recording.
 *
 * A value has the name that its signature tells. The N-th value of an entry or of a point is argN,
 * too. The result is "retval", which never means a value of an entry.
 */
#ifndef IP_READ_VALUE_NAME_H
#define IP_READ_VALUE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/read/session.h"

struct ip_value_name {
	const struct ip_recording *session;
	char *text;
	/* By number of the signature - 1: the place of the value; -1: the signature has none. */
	int8_t *at_entry, *at_exit;
};

/* Finds the name in a recording. dir is for messages. Returns 0, or -1 with an error that names
 * the nearest names where no signature has it. *ret is to be cleared in any case. */
int ip_value_name_find(const struct ip_recording *session, const char *dir, const char *text,
		       struct ip_value_name *ret);
void ip_value_name_clear(struct ip_value_name *name);

/* Returns the names of all values that the recording may have, with commas between them. The
 * caller frees the text. Returns NULL with an error where memory ran out. */
char *ip_value_names(const struct ip_recording *session);

/* Returns whether the value is a text wherever the recording has it. */
bool ip_value_name_is_text(const struct ip_value_name *name);

/* Takes the value out of what came with an entry or a point, or with an exit; payload may be NULL.
 * Returns false where the value is not among it, or could not be read. */
bool ip_value_name_get(const struct ip_value_name *name, const uint64_t *payload, bool at_exit,
		       struct ip_value *ret);

#endif
