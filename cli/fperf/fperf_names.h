/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions in the table of fperf, as report has them: short, and without parameters where
 * no other function has that name.
 */
#ifndef IP_CLI_FPERF_NAMES_H
#define IP_CLI_FPERF_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "fperf/fperf.h"

/* Returns the names of n rows; full: whole ones, with their parameters. The rows are borrowed. The
 * caller frees the names by fperf_names_free(). NULL: memory ran out; a single name may be NULL for
 * that reason, too. Names may hold any byte. */
char **fperf_names(const struct ip_fperf_row *rows, size_t n, bool full);
void fperf_names_free(char **names, size_t n);

#endif
