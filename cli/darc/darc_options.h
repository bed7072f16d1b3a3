/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options of iprobe darc.
 */
#ifndef IP_CLI_DARC_OPTIONS_H
#define IP_CLI_DARC_OPTIONS_H

#include <stdbool.h>

/* Reads a number from 0 to 100. */
bool cli_darc_percent(const char *text, double *ret);
/* Reads optarg as a share, "2%", which is at least what fperf takes. Returns -1, or the exit code
 * after a message. */
int cli_darc_budget(const char *command, double *ret);

#endif
