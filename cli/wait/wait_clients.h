/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe wait --by client: how much work was done for each client, and by which functions.
 */
#ifndef IP_CLI_WAIT_CLIENTS_H
#define IP_CLI_WAIT_CLIENTS_H

#include "cli/wait/wait_report.h"

/* Prints the clients. Returns 0, or -1 with an error. */
int cli_wait_clients(const char *dir, const struct cli_wait_options *o);

#endif
