/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options of iprobe dump.
 */
#include "cli/dump/dump_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/error.h"
#include "common/units.h"

static const char help[] =
	"usage: iprobe dump [OPTIONS] [DIR]\n\n"
	"Prints each event of a trace (iprobe.data): time since its start, thread, function, "
	"indented by depth; at an\n"
	"exit, how long the call took. With arguments and results, if those were recorded.\n\n"
	"  -f, --functions SEL  these functions only\n"
	"      --tid TID        this thread only\n"
	"      --process PROC   this process only: a pid, or a name with wildcards\n"
	"      --from T, --to T events of this time only, since the start of the recording: 1.5s, "
	"200ms\n"
	"      --depth N        calls below so many levels only\n"
	"      --min-duration T calls that last so long at least\n"
	"      --around SEL     what happened, in all threads, around the slow calls of these "
	"functions: those that\n"
	"                       last longer than --slower-than T; and T before and behind them "
	"(--margin, default 1ms)\n"
	"      --slower-than T\n"
	"      --margin T\n"
	"      --value COND     events whose values meet fd=3, len>4096, uri=*.html, retval<0 ... "
	"only: calls by their\n"
	"                       arguments, exits by their results, too; may be repeated: all hold\n"
	"      --pretty         as on a terminal: guides, and a call that calls nothing in one "
	"line\n"
	"      --plain          as in a pipe: each event is a line\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON object a line; ts: nanoseconds since the start of the "
	"recording\n";

enum {
	OPT_MIN_DURATION = 256,
	OPT_JSON,
	OPT_AROUND,
	OPT_SLOWER_THAN,
	OPT_MARGIN,
	OPT_PLAIN,
	OPT_PRETTY
};

static int take(const char *command, int option, void *context)
{
	struct cli_dump_options *o = context;

	switch (option) {
	case OPT_AROUND:
		return cli_functions(command, optarg, &o->around) ? 2 : -1;
	case OPT_MIN_DURATION:
		return cli_parse_time(command, optarg, &o->min_duration_ns) < 0 ? 2 : -1;
	case OPT_SLOWER_THAN:
		o->slower_than = true;
		return cli_parse_time(command, optarg, &o->slower_than_ns) < 0 ? 2 : -1;
	case OPT_MARGIN:
		return cli_parse_time(command, optarg, &o->margin_ns) < 0 ? 2 : -1;
	case OPT_PLAIN:
	case OPT_PRETTY:
		o->pretty = option == OPT_PRETTY;
		return -1;
	default:
		o->json = true;
		return -1;
	}
}

int cli_dump_parse(int argc, char **argv, struct cli_dump_options *o)
{
	static const struct option long_options[] = {
		CLI_FILTER_FUNCTIONS,
		CLI_FILTER_TID,
		CLI_FILTER_PROCESS,
		CLI_FILTER_FROM,
		CLI_FILTER_TO,
		CLI_FILTER_DEPTH,
		{"min-duration", required_argument, NULL, OPT_MIN_DURATION},
		{"around", required_argument, NULL, OPT_AROUND},
		{"slower-than", required_argument, NULL, OPT_SLOWER_THAN},
		{"margin", required_argument, NULL, OPT_MARGIN},
		CLI_FILTER_VALUE,
		{"plain", no_argument, NULL, OPT_PLAIN},
		{"pretty", no_argument, NULL, OPT_PRETTY},
		{"json", no_argument, NULL, OPT_JSON},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"f:h", help, long_options, take};
	int code;

	*o = (struct cli_dump_options){
		.filter = CLI_FILTER_ALL, .margin_ns = 1000000, .pretty = isatty(STDOUT_FILENO)};
	code = cli_filter_parse(argc, argv, &command, &o->filter, o);
	o->pretty &= !o->json;
	o->dim = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	if (code < 0 && o->filter.to_ns < o->filter.from_ns)
		return cli_usage(argv[0], "--to lies before --from");
	if (code < 0 && o->slower_than != !!o->around)
		return cli_usage(argv[0], "--around SEL and --slower-than T go together");
	return code;
}
