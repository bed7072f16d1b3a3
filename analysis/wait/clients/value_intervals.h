/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For which request threads worked, and when, where the program says it: by the id of the request,
 * as a value that was recorded with a point or with the entry of a function.
 *
 * Rules, of each thread:
 *
 *   - From a point that has the value on, the thread works for what has that id: until the next
 *     point that has one, a point that ends work, an idle wait (idle_waits.h), or its end. Where
 *     points or functions were named that end work, an idle wait does not.
 *   - Within a call that has the value as an argument the thread works for what has that id, until
 *     the call ends; then for what it worked for before, whatever points there were within the
 *     call.
 *   - The end of a call of a function that ends work does that.
 *   - Values that are equal are one id, in whatever thread and process.
 */
#ifndef IP_VALUE_INTERVALS_H
#define IP_VALUE_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/read/value_key.h"
#include "analysis/read/value_name.h"
#include "analysis/wait/clients/client_intervals.h"
#include "analysis/wait/idle/idle_waits.h"

#define IP_REQUEST_IDS_MOST 50000u /* those that come later are one, without a value */

struct ip_value_intervals {
	struct ip_client_intervals intervals; /* client: index into keys */
	struct ip_value_key *keys;	      /* of kind IP_KEY_OTHERS: all later ones */
	char **texts;			      /* of the keys, for people */
	size_t n;
	/* Private. */
	uint64_t **words; /* that keys point to */
	uint64_t *hashes;
	uint32_t *index; /* open addressing, index + 1 */
	size_t size;
	uint32_t others; /* index + 1 */
};

struct ip_value_intervals_options {
	const struct ip_value_name *names; /* any of these values is an id */
	size_t nnames;
	const bool *gives; /* by function: its values count; NULL: those of all */
	const bool *ends;  /* by function: it ends work; NULL: idle waits do */
	const struct ip_idle_waits *idle;
};

/* Reads the trace, whose threads have the machine's ids. *ret: the caller clears it in any case.
 * Returns 0, or -1 with an error. */
int ip_value_intervals_read(struct ip_trace_reader *trace,
			    const struct ip_value_intervals_options *options,
			    struct ip_value_intervals *ret);
void ip_value_intervals_clear(struct ip_value_intervals *intervals);

#endif
