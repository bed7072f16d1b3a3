/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the results of fperf go: stdout, or the file of --output.
 */
#ifndef IP_CLI_FPERF_OUTPUT_H
#define IP_CLI_FPERF_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/fperf/fperf_options.h"

/* The file for the results. It is opened before anything is counted, but keeps its content until
 * there are results. */
struct fperf_output {
	FILE *file; /* NULL: stdout */
	bool made;
};

/* Returns 0, or -1 with an error. The caller calls fperf_output_close(). */
int fperf_output_open(const struct fperf_options *o, struct fperf_output *ret);
/* Closes the file. Removes it where it is new and nothing was written. */
void fperf_output_close(const struct fperf_options *o, struct fperf_output *output, bool written);

/* Prints the results. end: why the counting ended. Returns 0, or -1 with an error where something
 * could not be written. */
int fperf_output_print(const struct fperf_options *o, struct fperf_output *output,
		       struct ip_fperf *f, const char *end);

#endif
