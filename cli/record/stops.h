/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How commands show the stops of a target.
 */
#ifndef IP_CLI_STOPS_H
#define IP_CLI_STOPS_H

#include <stdio.h>

#include "common/json.h"
#include "hotpatcher/ptrace/stop_log.h"

/* " 1.2 ms, 3.4 ms and 5 times more, at most 6.7 ms". */
void cli_print_stops(FILE *out, const struct ip_stop_log *stops);
/* The same of a session, in words: whether the process was stopped, or one thread held; why (NULL:
 * that is not told); and the stops of children that it forked. */
void cli_print_stopped(FILE *out, const struct ip_stop_log *stops, const char *why);

/* " and 3 looks, together 1.2 ms"; nothing if there was none. */
void cli_print_looks(FILE *out, size_t n, uint64_t ns);

/* "stop_us":[...],"more_stops":N,"more_stops_max_us":X: into the object that is open. */
void cli_json_stops(struct ip_json *j, const struct ip_stop_log *stops);

#endif
