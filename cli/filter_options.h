/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options by which the commands that read traces choose a part of the trace: -f, --tid,
 * --process, --from, --to, --depth, --value; --by thread and --by process; and -n. And -j: by how
 * many threads it is read.
 */
#ifndef IP_CLI_FILTER_OPTIONS_H
#define IP_CLI_FILTER_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/value_match.h"

struct cli_filter {
	const char *functions; /* NULL: all */
	uint64_t from_ns, to_ns;
	size_t depth;	     /* levels of calls; SIZE_MAX: all */
	size_t limit;	     /* -n; SIZE_MAX: all */
	int tid;	     /* 0: all */
	const char *process; /* pid, or pattern of names; NULL: all */
	size_t jobs;	     /* threads that read; 0: one for each CPU */
	bool full_names;
	bool by_thread, by_process;
	/* --value: conditions on what was recorded with a call; ip_value_matches_clear() frees them
	 */
	struct ip_value_matches matches;
};

#define CLI_FILTER_ALL                                                                             \
	{                                                                                          \
		.to_ns = UINT64_MAX, .depth = SIZE_MAX, .limit = SIZE_MAX                          \
	}

enum {
	CLI_OPT_TID = 1024,
	CLI_OPT_FROM,
	CLI_OPT_TO,
	CLI_OPT_DEPTH,
	CLI_OPT_FULL_NAMES,
	CLI_OPT_PROCESS,
	CLI_OPT_VALUE,
	CLI_OPT_BY_THREAD_OR_PROCESS
};

/* For getopt_long(): each command lists the options that it takes. */
#define CLI_FILTER_FUNCTIONS                                                                       \
	{                                                                                          \
		"functions", required_argument, NULL, 'f'                                          \
	}
#define CLI_FILTER_LIMIT                                                                           \
	{                                                                                          \
		"limit", required_argument, NULL, 'n'                                              \
	}
#define CLI_FILTER_TID                                                                             \
	{                                                                                          \
		"tid", required_argument, NULL, CLI_OPT_TID                                        \
	}
#define CLI_FILTER_PROCESS                                                                         \
	{                                                                                          \
		"process", required_argument, NULL, CLI_OPT_PROCESS                                \
	}
#define CLI_FILTER_VALUE                                                                           \
	{                                                                                          \
		"value", required_argument, NULL, CLI_OPT_VALUE                                    \
	}
#define CLI_FILTER_FROM                                                                            \
	{                                                                                          \
		"from", required_argument, NULL, CLI_OPT_FROM                                      \
	}
#define CLI_FILTER_TO                                                                              \
	{                                                                                          \
		"to", required_argument, NULL, CLI_OPT_TO                                          \
	}
#define CLI_FILTER_DEPTH                                                                           \
	{                                                                                          \
		"depth", required_argument, NULL, CLI_OPT_DEPTH                                    \
	}

/* --by thread and --by process, of commands that know no other --by. */
#define CLI_FILTER_BY_THREAD_OR_PROCESS                                                            \
	{                                                                                          \
		"by", required_argument, NULL, CLI_OPT_BY_THREAD_OR_PROCESS                        \
	}
#define CLI_FILTER_FULL_NAMES                                                                      \
	{                                                                                          \
		"full-names", no_argument, NULL, CLI_OPT_FULL_NAMES                                \
	}
#define CLI_FILTER_JOBS                                                                            \
	{                                                                                          \
		"jobs", required_argument, NULL, 'j'                                               \
	}
#define CLI_FILTER_HELP                                                                            \
	{                                                                                          \
		"help", no_argument, NULL, 'h'                                                     \
	}

/* The options of a command. long_options lists those of the options above that it takes, and its
 * own. take() handles one of its own options, with getopt's optarg. It returns -1: go on; else
 * the exit code. */
struct cli_filter_command {
	const char *short_options, *help;
	const struct option *long_options;
	int (*take)(const char *command, int option, void *context);
};

/* Reads all options of the command line. Returns -1: go on; else the exit code. */
int cli_filter_parse(int argc, char **argv, const struct cli_filter_command *command,
		     struct cli_filter *filter, void *context);

/* Parses a duration. Returns 0, or -1 after it has printed a usage error. */
int cli_parse_time(const char *command, const char *text, uint64_t *ret);

#endif
