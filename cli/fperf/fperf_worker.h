/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run of fperf on several processes: each is counted by a worker.
 */
#ifndef IP_CLI_FPERF_WORKER_H
#define IP_CLI_FPERF_WORKER_H

#include "cli/fperf/fperf_options.h"
#include "cli/fperf/fperf_output.h"

/* Counts all processes of o->choice until the end, and prints their results. argv is what iprobed
 * is asked by where this user may not trace one. Closes output. Returns the exit code; an error has
 * been told. */
int fperf_worker_run_all(struct fperf_options *o, struct fperf_output *output, int argc,
			 char **argv);

#endif
