/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Do you mean": what a mistyped command or option was most likely to be, and what other tools'
 * users type out of habit.
 */
#ifndef IP_CLI_SUGGEST_H
#define IP_CLI_SUGGEST_H

#include <getopt.h>
#include <stddef.h>

/* Prints on stderr that there is no such command, and what comes near. names: of all commands, up
 * to a NULL. Returns 2. */
int cli_no_command(const char *word, const char *const *names);

/* Reports the option that getopt_long() has just refused as a usage error: unknown, ambiguous,
 * without its value, or with one that it does not take. letters and options are those that
 * getopt_long() got. Returns 2. */
int cli_bad_option(const char *command, int argc, char **argv, const char *letters,
		   const struct option *options);

#endif
