/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of fperf share.
 */
#ifndef IP_CLI_FPERF_H
#define IP_CLI_FPERF_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "cli/fperf/papi_names.h"
#include "common/csv.h"
#include "common/json.h"
#include "fperf/fperf.h"

enum fperf_format { FPERF_TABLE, FPERF_CSV, FPERF_JSON };

#define FPERF_SOME 0 /* a limit: all rows that are known, and some others */

/* Prints the results. limit: the most rows of a table. end: why the counting ended. pid: of a
 * process that ran already; 0: it was started for this. */
void fperf_print(FILE *out, struct ip_fperf *f, enum fperf_format format, size_t limit,
		 const char *end, pid_t pid);
/* Tells on stderr what "+-?" means where the last table has it. process: the beginning of a line.
 */
void fperf_print_unsure(const char *process);
/* Print n rows, and of JSON what fperf_print() has. */
void fperf_print_csv(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *rows, size_t n);
void fperf_print_json(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *rows, size_t n,
		      const char *end, pid_t pid);
/* Returns how many samples have a value of the event. */
uint64_t fperf_valued(const struct ip_fperf_row *row, unsigned event);
/* Makes tables show whole C++ names from now on (--full-names). */
void fperf_print_full_names(void);
/* Prints the table on a terminal while fperf counts. Each call overwrites the table of the call
 * before. */
void fperf_show_live(void *context, struct ip_fperf *f);

/* Tries whether all the events can be counted together on this machine. Returns 0, or -1 with an
 * error. */
int fperf_try(const struct ip_fperf_options *o);

/* fperf_papi() returns the functions of libiprobe-papi.so, or NULL where it is not installed or
 * cannot be loaded. fperf_papi_why_not() returns the reason. */
const struct papi_names *fperf_papi(void);
const char *fperf_papi_why_not(void);
/* Finds an event that PAPI knows. The result is never freed. It is a function of type
 * ip_fperf_ask. */
const struct ip_fperf_event *fperf_papi_find(const char *name, const char **ret_why);
/* Makes an event of PAPI's description. The result is never freed. Returns NULL with an error:
 * memory ran out, or the event follows by a formula that fperf does not understand. */
const struct ip_fperf_event *fperf_papi_event(const struct papi_event *p);

/* Metrics that follow from several events, such as instructions per cycle. The events that were
 * asked for decide which metrics there are. */
void fperf_derived_header(FILE *out, struct ip_fperf *f);
void fperf_derived_cells(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *row);
void fperf_derived_csv_header(struct ip_csv *csv, struct ip_fperf *f);
void fperf_derived_csv(struct ip_csv *csv, struct ip_fperf *f, const struct ip_fperf_row *row);
void fperf_derived_json(struct ip_json *j, struct ip_fperf *f, const struct ip_fperf_row *row);

int fperf_list_events(int argc, char **argv);
int fperf_self_test(int argc, char **argv);

#endif
