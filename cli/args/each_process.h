/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that do the same for each process of a choice: status, detach, snapshot. Each process
 * has a child process of this one (service/workers.h); they run at the same time, and what they
 * print comes in the order of the pids.
 */
#ifndef IP_CLI_EACH_PROCESS_H
#define IP_CLI_EACH_PROCESS_H

#include <stdbool.h>

#include "service/processes.h"

/* one: does it for one process, prints the result on stdout, and returns the exit code. It runs in
 * a child process. json: what it prints is one JSON document, and all of them make an array.
 * once: a line that begins with a blank, and that an earlier process had, too, is left out.
 * Returns the exit code: 0 where all that were named by pid, or any of the others, went well. */
int cli_each_process(const struct ip_service_choice *choice, bool json, bool once,
		     int (*one)(void *context, const struct ip_service_process *process),
		     void *context);

/* Reads the choice from the command line, whose options have been read by getopt_long(), and does
 * it for each process: in this process itself where it is one that is named by its pid, of which
 * only the pid is known then. Returns the exit code. */
int cli_serve_processes(int argc, char **argv, bool json,
			int (*one)(void *context, const struct ip_service_process *process),
			void *context);

#endif
