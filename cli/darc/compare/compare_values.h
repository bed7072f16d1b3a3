/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that differ between two calls of one call path: what they were given, what they
 * returned, and what points in them had.
 */
#ifndef IP_CLI_COMPARE_VALUES_H
#define IP_CLI_COMPARE_VALUES_H

#include "analysis/darc/values/node_values.h"
#include "analysis/read/names.h"
#include "analysis/read/session.h"
#include "common/json.h"

/* Those that both calls have, and that differ. NULL: there is no such call, or nothing was recorded
 * with it. */
struct cli_compare_values {
	const struct ip_recording *session;
	struct ip_names *names;
	const struct ip_node_value *slow, *usual;
};

/* Returns them as people read them, the usual one first: `len 16 -> 65536, returned 0 -> -1`; "":
 * there are none. The caller frees the text. NULL with an error. */
char *cli_compare_values_text(const struct cli_compare_values *values);

/* Writes them as a member "values", where there are some: a list of objects with the name of a
 * value (null: what was returned, where that has no name), "of" (args, retval, point), for a point
 * its name ("point"), "slow" and "usual".
 * Returns 0, or -1 with an error. */
int cli_compare_values_json(struct ip_json *j, const struct cli_compare_values *values);

#endif
