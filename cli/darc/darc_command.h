/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that is started to be searched.
 */
#ifndef IP_CLI_DARC_COMMAND_H
#define IP_CLI_DARC_COMMAND_H

#include <sys/types.h>

/* Starts a command. Returns its pid, or -1 with an error. */
pid_t cli_darc_command_start(char **argv);

/* Waits until the command has become the program that has a function of the selection, as a shell
 * or a wrapper does. If it never does, the search tells that. */
void cli_darc_command_wait(pid_t pid, const char *functions);

#endif
