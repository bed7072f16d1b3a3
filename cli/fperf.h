/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf: what its files share.
 */
#ifndef IP_CLI_FPERF_H
#define IP_CLI_FPERF_H

#include <stdio.h>

#include "hotpatcher/fperf.h"

enum fperf_format { FPERF_TABLE, FPERF_CSV, FPERF_JSON };

/* What was counted. budget: as it was given. limit: rows of a table, 0: all. */
void fperf_print(FILE *out, struct ip_fperf *f, enum fperf_format format, size_t limit);
/* The table while it counts, on a terminal: overwrites itself. */
void fperf_show_live(void *context, struct ip_fperf *f);

int fperf_list_events(int argc, char **argv);
int fperf_self_test(int argc, char **argv);

#endif
