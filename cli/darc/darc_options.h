/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options of iprobe darc.
 */
#ifndef IP_CLI_DARC_OPTIONS_H
#define IP_CLI_DARC_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/darc/search.h"

/* Reads a number from 0 to 100. */
bool cli_darc_percent(const char *text, double *ret);
/* Reads optarg as a share, "2%", which is at least what fperf takes. Returns -1, or the exit code
 * after a message. */
int cli_darc_budget(const char *command, double *ret);

/* Each reads optarg, as the option that is named takes it. Returns -1, or the exit code after a
 * message. */
int cli_darc_number(const char *command, const char *option, uint64_t *ret);
/* --peak, --slower-than or --percentile. */
int cli_darc_peak(const char *command, struct ip_darc_options *ret);
int cli_darc_slower_than(const char *command, struct ip_darc_options *ret);
int cli_darc_percentile(const char *command, struct ip_darc_options *ret);
/* The memory of the rings. */
int cli_darc_memory(const char *command, uint64_t *ret);

/* Returns whether an operand is a process: a number, unless there is a file of that name. */
bool cli_darc_is_process(const char *operand, int *ret);

#endif
