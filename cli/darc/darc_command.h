/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that is started to be searched.
 */
#ifndef IP_CLI_DARC_COMMAND_H
#define IP_CLI_DARC_COMMAND_H

#include <sys/types.h>

/* Waits until the command has become the program that has a function of the selection, as a shell
 * or a wrapper does. If it never does, the search tells that. */
void cli_darc_command_wait(pid_t pid, const char *functions);

#endif
