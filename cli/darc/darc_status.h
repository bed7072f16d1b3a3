/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe darc --status: what a search does that is under way in a process.
 */
#ifndef IP_CLI_DARC_STATUS_H
#define IP_CLI_DARC_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

/* Asks the search, and prints its state. Returns the exit code, after a message. */
int cli_darc_status(pid_t pid, bool json);

#endif
