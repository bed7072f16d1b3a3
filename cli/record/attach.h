/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to one process or to several.
 */
#ifndef IP_CLI_ATTACH_H
#define IP_CLI_ATTACH_H

#include "cli/cli.h"
#include "service/service.h"

/* Attaches to one process, by itself or through iprobed, and prints the result. Returns the exit
 * code. result: of a worker (service/workers.h), NULL if there is none. dir: of the trace, for
 * iprobed; NULL: as the command line says. */
int cli_attach_one(pid_t pid, const struct cli_record_options *options, int argc, char **argv,
		   const char *dir, struct ip_service_worker_result *result);

/* Attaches to all processes of a choice. Returns the exit code. */
int cli_attach_service(const struct ip_service_choice *choice,
		       const struct cli_record_options *options, int argc, char **argv);

/* Attaches to what a command line has chosen: to one process or to several. command: for a usage
 * error. Returns the exit code. */
int cli_attach_chosen(const char *command, const struct ip_service_choice *choice,
		      const struct cli_record_options *options, int argc, char **argv);

/* Puts back what is live in a process (iprobe detach), and tells only what fails. */
void cli_detach_left(pid_t pid);

#endif
