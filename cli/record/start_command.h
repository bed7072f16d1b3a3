/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a command that nothing is done to: it is attached to later, as a process that was there
 * before. iprobe run (session/run.c) has a way of its own, since it records the first instruction.
 */
#ifndef IP_CLI_START_COMMAND_H
#define IP_CLI_START_COMMAND_H

#include <sys/types.h>

/* Executes the command in a new process. Returns its pid, or -1 with an error: it could not be
 * executed, and there is no process. */
pid_t cli_start_command(char **argv);

#endif
