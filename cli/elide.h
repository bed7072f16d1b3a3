/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions in columns of a terminal.
 */
#ifndef IP_CLI_ELIDE_H
#define IP_CLI_ELIDE_H

#include <stddef.h>

/* Makes a name take at most width columns, in place: without template arguments where it is too
 * long, then its end, which tells most. Control characters become '?'. width: 3 or more. */
void cli_fit_name(char *name, size_t width);

/* Columns that a text takes on a terminal, counting one for each character. */
size_t cli_width_of(const char *text);

/* Columns for names beside others of a terminal, at least least. What is not read by a person at
 * once (a pipe, a file) has names as they are: SIZE_MAX. */
size_t cli_name_width(size_t others, size_t least);

#endif
