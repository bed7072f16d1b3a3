/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sub-commands of iprobe. Each gets its own name as argv[0], parses its options, prints, and
 * returns the exit code: 0 done, 1 could not (one line on stderr), 2 usage.
 */
#ifndef IP_CLI_CLI_H
#define IP_CLI_CLI_H

#include <stdio.h>

#include "session/session.h"

int cmd_attach(int argc, char **argv);
int cmd_detach(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_trim(int argc, char **argv);
int cmd_split(int argc, char **argv);
int cmd_graph(int argc, char **argv);
int cmd_hist(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_top(int argc, char **argv);

/* Prints "iprobe: MESSAGE" of the last error on stderr; returns 1. */
int cli_fail(void);
/* Prints "iprobe COMMAND: MESSAGE" and a hint at --help on stderr; returns 2. */
int cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What getopt_long has just refused, as a usage error. */
int cli_bad_option(const char *command, int argc, char **argv);

/* The argument of -f. An empty one, most likely a variable that a script has not set, is a usage
 * error: 2; else 0. */
int cli_functions(const char *command, const char *text, const char **ret);
/* Tells on stderr which items of a selection matched nothing, once it has been held against all
 * probes. */
void cli_warn_unused(const char *what, const char *unused);

/* Options that run and attach share. */
struct cli_record_options {
	struct ip_session_options session;
	bool json, dry_run, quiet;
	bool leave; /* attach: iprobed goes on with it by itself */
};

/* Parses them; argv[*ret_next] is the first operand. -1: go on; else the exit code. attach:
 * options may stand behind the PID too, and those that make sense only for a process that runs
 * are known. */
int cli_record_parse(int argc, char **argv, const char *help, bool attach,
		     struct cli_record_options *ret, int *ret_next);

/* The options of an attach whose command line has been found good, as a request to iprobed.
 * *ret_dir: -o, or NULL. 0 or -1. */
struct ip_request;
int cli_record_words(int argc, char **argv, struct ip_request *request, const char **ret_dir);

/* The summary: a line on stderr, or with --json one on stdout. */
void cli_record_summary(const struct cli_record_options *options,
			const struct ip_session_summary *summary);

/* From now on SIGINT, SIGTERM and SIGHUP end the session properly. */
void cli_catch_signals(void);

/* Path of libiprobe-rt.so: beside the build folder's iprobe, or where this prefix was installed.
 * NULL with an error. */
const char *cli_runtime_path(void);

#endif
