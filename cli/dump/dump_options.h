/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of iprobe dump.
 */
#ifndef IP_CLI_DUMP_OPTIONS_H
#define IP_CLI_DUMP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/filter_options.h"

struct cli_dump_options {
	struct cli_filter filter;
	const char *around; /* NULL: not given */
	uint64_t min_duration_ns, slower_than_ns, margin_ns;
	bool slower_than, json;
	bool pretty; /* with guides, calls without others in one line: on a terminal */
	bool dim;    /* the guides are dim */
};

/* Parses the options. Returns -1: go on; else the exit code. */
int cli_dump_parse(int argc, char **argv, struct cli_dump_options *ret);

#endif
