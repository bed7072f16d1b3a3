/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of iprobe wait.
 */
#ifndef IP_CLI_WAIT_REPORT_H
#define IP_CLI_WAIT_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/filter_options.h"

#define CLI_WAIT_VALUES 8u

enum cli_wait_by {
	CLI_WAIT_BY_FUNCTION,
	CLI_WAIT_BY_CLIENT,
	CLI_WAIT_BY_CONNECTION,
	CLI_WAIT_BY_VALUE
};

struct cli_wait_options {
	struct cli_filter filter;
	size_t objects; /* for each function, at most */
	size_t slowest; /* calls, with --of */
	bool json;
	bool of;	    /* the calls of functions, not the functions */
	bool tree;	    /* call paths */
	bool locks;	    /* locks, not functions */
	double min_percent; /* of what all of a tree waited */
	bool idle;	    /* idle waits are waits as others are */
	enum cli_wait_by by;
	/* by value: any of these is an id; from what; what ends work. NULL: from all; nothing */
	const char *values[CLI_WAIT_VALUES];
	size_t nvalues;
	const char *ids, *ends;
};

/* Prints what the functions of a trace waited for. Returns 0, or -1 with an error. */
int cli_wait_report(const char *dir, const struct cli_wait_options *o);

#endif
