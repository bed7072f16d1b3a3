/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run of fperf on one process: the session in which it counts, here or by iprobed.
 */
#ifndef IP_CLI_FPERF_RUN_H
#define IP_CLI_FPERF_RUN_H

#include "cli/fperf/fperf_options.h"
#include "cli/fperf/fperf_output.h"
#include "session/session.h"

/* Asks iprobed where this user may not trace the process. Returns -1: this process is to do it;
 * else the exit code. */
int fperf_run_by_daemon(const struct fperf_options *o, int argc, char **argv);

/* Counts the process of o->pid, or the command, and prints the results. Closes output. Returns the
 * exit code; an error has been told. */
int fperf_run(const struct fperf_options *o, struct fperf_output *output, char **command,
	      struct ip_session_summary *summary);

#endif
