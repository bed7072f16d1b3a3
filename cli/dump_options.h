/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of iprobe dump.
 */
#ifndef IP_CLI_DUMP_OPTIONS_H
#define IP_CLI_DUMP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_dump_options {
	const char *functions, *around; /* NULL: not given */
	uint64_t from_ns, to_ns, min_duration_ns, slower_than_ns, margin_ns;
	size_t depth; /* levels that are shown */
	int tid;      /* 0: all */
	bool json;
};

/* -1: go on; else the exit code. */
int cli_dump_parse(int argc, char **argv, struct cli_dump_options *ret);

#endif
