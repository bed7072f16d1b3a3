/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf: what its files share.
 */
#ifndef IP_CLI_FPERF_H
#define IP_CLI_FPERF_H

#include <stdio.h>

#include "cli/csv.h"
#include "cli/papi_names.h"
#include "common/json.h"
#include "fperf/fperf.h"

enum fperf_format { FPERF_TABLE, FPERF_CSV, FPERF_JSON };

#define FPERF_SOME 0 /* a limit: all rows that are known, and some others */

/* What was counted. limit: rows of a table at most. end: why it ended. */
void fperf_print(FILE *out, struct ip_fperf *f, enum fperf_format format, size_t limit,
		 const char *end);
/* The table while it counts, on a terminal: overwrites itself. */
void fperf_show_live(void *context, struct ip_fperf *f);

/* Whether the events count here, all together. -1 with an error. */
int fperf_try(const struct ip_fperf_options *o);

/* What libiprobe-papi.so offers; NULL: it is not there, or does not come up, for this reason. */
const struct papi_names *fperf_papi(void);
const char *fperf_papi_why_not(void);
/* An event that PAPI knows, for good; an ip_fperf_ask. */
const struct ip_fperf_event *fperf_papi_find(const char *name, const char **ret_why);
/* For good; NULL with an error: memory ran out, or it follows by a formula that says nothing to
 * us. */
const struct ip_fperf_event *fperf_papi_event(const struct papi_event *p);

/* Metrics that follow from several events: instructions per cycle and so on. What is asked for
 * decides which there are. */
void fperf_derived_header(FILE *out, struct ip_fperf *f);
void fperf_derived_cells(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *row);
void fperf_derived_csv_header(struct cli_csv *csv, struct ip_fperf *f);
void fperf_derived_csv(struct cli_csv *csv, struct ip_fperf *f, const struct ip_fperf_row *row);
void fperf_derived_json(struct ip_json *j, struct ip_fperf *f, const struct ip_fperf_row *row);

int fperf_list_events(int argc, char **argv);
int fperf_self_test(int argc, char **argv);

#endif
