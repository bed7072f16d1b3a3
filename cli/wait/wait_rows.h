/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function waited for, as it is shown: one row for each object, by its name. Of several
 * processes each has a lock of that name, at an address of its own: they are one row.
 */
#ifndef IP_CLI_WAIT_ROWS_H
#define IP_CLI_WAIT_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/wait_culprits.h"
#include "analysis/wait/wait_profile.h"
#include "cli/wait/wait_load.h"

struct cli_wait_row {
	enum ip_wait_kind kind;
	char *name;
	uint64_t ticks, count;
	uint64_t idle, idle_count;  /* of these, what is told apart as idle */
	struct ip_wait_culprit *by; /* who ended these waits, who ended most first */
	size_t nby;
};

/* Makes at most `most` rows of n waits, which are sorted: the longest first. Returns 0, or -1 with
 * an error; the caller clears them in any case. */
int cli_wait_rows_make(const struct cli_wait_trace *t, const struct ip_wait_profile *profile,
		       const struct ip_wait_culprits *culprits, const struct ip_wait_sum *waits,
		       size_t n, size_t most, struct cli_wait_row **ret, size_t *ret_n);
void cli_wait_rows_clear(struct cli_wait_row *rows, size_t n);

#endif
