/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions of two recordings are the same: those whose linker name and module's file name
 * are. Where several have these, path, build-id and source file must be the same too, or else their
 * order in the source counts. Where the module is another one in each recording, the name alone
 * counts.
 */
#ifndef IP_CLI_FUNCTION_PAIRS_H
#define IP_CLI_FUNCTION_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/read/session.h"

#define CLI_NO_PAIR SIZE_MAX

/* One side of the comparison: items, each of a function. */
struct cli_pair_side {
	const struct ip_recording *session;
	const struct ip_recording_function **functions; /* by item */
	const char **values; /* items of one function differ by these; NULL: one item each */
	size_t n;
};

/* Indexes of items; CLI_NO_PAIR: there is none in that recording. */
struct cli_item_pair {
	size_t before, after;
};

/* Makes a pair of each item. The caller frees *ret. Returns 0, or -1 with an error where memory ran
 * out. */
int cli_pairs_find(const struct cli_pair_side *before, const struct cli_pair_side *after,
		   struct cli_item_pair **ret, size_t *ret_n);

#endif
