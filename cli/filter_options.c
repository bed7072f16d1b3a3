/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options by which a part of a trace is chosen.
 */
#include "cli/filter_options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

/* Parses a whole number above 0. A number that is too large for the type is as good as all. */
static int parse_number(const char *command, int option, const char *what, size_t *ret)
{
	char *end;

	*ret = strtoul(optarg, &end, 10);
	if (!isdigit((unsigned char)*optarg) || *end || !*ret) {
		cli_usage(command, "'%s' is no number of %s%s", optarg, what,
			  strcmp(optarg, "0") || option == 'j'
				  ? ""
				  : " (without the option all are shown)");
		return -1;
	}
	return 1;
}

int cli_parse_time(const char *command, const char *text, uint64_t *ret)
{
	if (ip_parse_duration(text, ret) == 0)
		return 0;
	cli_usage(command, "%s", ip_error_message());
	return -1;
}

/* Takes an option. Returns 1 where it belongs to the filter, 0 where it does not, -1 after a
 * usage error has been printed. */
static int take_own(const char *command, int option, struct cli_filter *f)
{
	switch (option) {
	case 'f':
		return cli_functions(command, optarg, &f->functions) ? -1 : 1;
	case 'n':
		return parse_number(command, option, "functions", &f->limit);
	case 'j':
		return parse_number(command, option, "threads", &f->jobs);
	case CLI_OPT_DEPTH:
		return parse_number(command, option, "levels", &f->depth);
	case CLI_OPT_FROM:
		return cli_parse_time(command, optarg, &f->from_ns) < 0 ? -1 : 1;
	case CLI_OPT_TO:
		return cli_parse_time(command, optarg, &f->to_ns) < 0 ? -1 : 1;
	case CLI_OPT_PROCESS:
		if (*optarg) {
			f->process = optarg;
			return 1;
		}
		cli_usage(command, "--process needs a pid, or a name: 4711, 'nginx*'");
		return -1;
	case CLI_OPT_VALUE:
		if (ip_value_matches_add(&f->matches, optarg) == 0)
			return 1;
		cli_usage(command, "%s", ip_error_message());
		return -1;
	case CLI_OPT_TID:
		if (ip_parse_pid(optarg, &f->tid) == 0)
			return 1;
		cli_usage(command, "'%s' is no thread id", optarg);
		return -1;
	case CLI_OPT_BY_THREAD_OR_PROCESS:
		f->by_thread = !strcmp(optarg, "thread");
		f->by_process = !strcmp(optarg, "process");
		if (f->by_thread || f->by_process)
			return 1;
		cli_usage(command, "--by takes thread or process, not '%s'", optarg);
		return -1;
	case CLI_OPT_FULL_NAMES:
		f->full_names = true;
		return 1;
	default:
		return 0;
	}
}

int cli_filter_parse(int argc, char **argv, const struct cli_filter_command *command,
		     struct cli_filter *filter, void *context)
{
	int option, code = -1;

	opterr = 0;
	while (code < 0 && (option = getopt_long(argc, argv, command->short_options,
						 command->long_options, NULL)) >= 0) {
		int taken = option == '?' ? 0 : take_own(argv[0], option, filter);

		if (taken < 0)
			return 2;
		if (option == 'h') {
			ip_print_lines(stdout, command->help);
			return 0;
		}
		if (option == '?')
			return cli_bad_option(argv[0], argc, argv, command->short_options,
					      command->long_options);
		if (!taken)
			code = command->take(argv[0], option, context);
	}
	return code;
}
