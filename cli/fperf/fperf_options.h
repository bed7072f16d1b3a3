/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of fperf where it counts: those of list-events and self-test are their own.
 */
#ifndef IP_CLI_FPERF_OPTIONS_H
#define IP_CLI_FPERF_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/fperf/fperf.h"
#include "config/probes_d.h"
#include "fperf/fperf.h"
#include "service/service.h"
#include "session/session.h"

struct fperf_options {
	struct ip_session_options session;
	struct ip_fperf_options fperf;
	enum fperf_format format;
	const char *output;
	uint64_t limit;
	int pid; /* 0: of the choice, or a command */
	struct ip_service_choice choice;
	const char *program; /* of one of several processes; NULL: there is one */
	bool found;	     /* not named by its pid: it may have nothing to count */
	bool *little;	     /* one of several: set where results are few for want of calls */
	bool any, quiet, budget_given, memory_given;
	const struct ip_fperf_profile *profile; /* NULL: none */
};

/* The options as getopt_long(3) takes them, with which a request of iprobed is put together. */
#define FPERF_LETTERS "+:p:e:f:n:o:qh"
extern const struct option fperf_long_options[];
extern const char fperf_help[];

/* Parses the command line. What o points to belongs to argv, or to the process. Returns -1: go
 * on; else the exit code, of an error that has been told, or of --help. */
int fperf_options_parse(int argc, char **argv, struct fperf_options *o);

#endif
