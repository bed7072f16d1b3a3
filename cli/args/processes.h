/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options and operands that choose one process or several: PID..., -p, --name, --unit, --cgroup,
 * --children.
 */
#ifndef IP_CLI_PROCESSES_H
#define IP_CLI_PROCESSES_H

#include <getopt.h>

#include "service/processes.h"

enum {
	CLI_OPTION_CHILDREN = 4096, /* above what commands use */
	CLI_OPTION_NAME,
	CLI_OPTION_UNIT,
	CLI_OPTION_CGROUP,
};

/* For getopt_long(), with the letters "p:". */
#define CLI_PROCESS_OPTIONS                                                                        \
	{"pid", required_argument, NULL, 'p'},                                                     \
		{"children", no_argument, NULL, CLI_OPTION_CHILDREN},                              \
		{"name", required_argument, NULL, CLI_OPTION_NAME},                                \
		{"unit", required_argument, NULL, CLI_OPTION_UNIT},                                \
	{                                                                                          \
		"cgroup", required_argument, NULL, CLI_OPTION_CGROUP                               \
	}

#define CLI_PROCESS_HELP                                                                           \
	"  -p, --pid PID,...     the same as the operand PID\n"                                    \
	"      --children        also all that they have forked and will fork\n"                   \
	"      --name GLOB       processes whose name or program matches; repeatable\n"            \
	"      --unit UNIT       processes of a unit of systemd (nginx.service, or nginx)\n"       \
	"      --cgroup PATH     processes of a control group, such as a container's\n"

/* Takes an option. Returns -1: it was one of these; -2: it was not; else the exit code after a
 * usage error. The texts are borrowed, and kept until the process ends. */
int cli_process_option(const char *command, int option, const char *text);

/* Whether an option of a command line, by its long name, is one of these. */
bool cli_is_process_option(const char *name);

/* Whether any process is named by an option or by the operands from argv[next] on. */
bool cli_any_process(int argc, int next);

/* Returns the choice that the options, and the operands from argv[next] on, make. Returns -1; else
 * the exit code after a usage error. *ret borrows memory that is kept until the process ends. */
int cli_process_choice(int argc, char **argv, int next, struct ip_service_choice *ret);

/* The same for a command that takes a trace, too: an operand that is a number is a process, unless
 * there is a file of that name. Returns -2: no process is chosen, and the operand, if there is one,
 * is a trace; else as above. */
int cli_process_choice_or_trace(int argc, char **argv, int next, struct ip_service_choice *ret);

/* Whether the choice is one process, and stays it. */
bool cli_is_one_process(const struct ip_service_choice *choice);

#endif
