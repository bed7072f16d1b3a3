/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe wait --locks: for how long locks were waited for and had, in which functions.
 */
#ifndef IP_CLI_WAIT_LOCKS_H
#define IP_CLI_WAIT_LOCKS_H

#include "cli/wait/wait_report.h"

/* Prints the locks. Returns 0, or -1 with an error. */
int cli_wait_locks(const char *dir, const struct cli_wait_options *o);

#endif
