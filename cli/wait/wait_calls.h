/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe wait --of: the slowest calls of functions, each with what it waited for and why that took
 * so long.
 */
#ifndef IP_CLI_WAIT_CALLS_H
#define IP_CLI_WAIT_CALLS_H

#include "cli/wait/wait_report.h"

/* Prints the calls that meet the conditions on values. Returns 0, or -1 with an error. */
int cli_wait_calls(const char *dir, struct cli_wait_options *o);

#endif
