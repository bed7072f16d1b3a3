/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the options of iprobe dump.
 */
#include "cli/dump_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "common/error.h"
#include "common/units.h"

static const char help[] =
	"usage: iprobe dump [OPTIONS] [DIR]\n\n"
	"Prints each event of a trace (iprobe.data): time since its start, thread, function, indented by "
	"depth; at an\n"
	"exit, how long the call took. With arguments and results, if those were recorded.\n\n"
	"  -f, --functions SEL  these functions only\n"
	"      --tid TID        this thread only\n"
	"      --from T, --to T events of this time only, since the start of the recording: 1.5s, 200ms\n"
	"      --depth N        calls below so many levels only\n"
	"      --min-duration T calls that last so long at least\n"
	"      --around SEL     what happened, in all threads, around the slow calls of these functions: "
	"those that\n"
	"                       last longer than --slower-than T; and T before and behind them (--margin, "
	"default 1ms)\n"
	"      --slower-than T\n"
	"      --margin T\n"
	"      --json           one JSON object a line; ts: nanoseconds since the start of the recording\n";

enum {
	OPT_MIN_DURATION = 256,
	OPT_JSON,
	OPT_AROUND,
	OPT_SLOWER_THAN,
	OPT_MARGIN
};

int cli_dump_parse(int argc, char **argv, struct cli_dump_options *o)
{
	static const struct option long_options[] = {
		CLI_FILTER_FUNCTIONS,
		CLI_FILTER_TID,
		CLI_FILTER_FROM,
		CLI_FILTER_TO,
		CLI_FILTER_DEPTH,
		{"min-duration", required_argument, NULL, OPT_MIN_DURATION},
		{"around", required_argument, NULL, OPT_AROUND},
		{"slower-than", required_argument, NULL, OPT_SLOWER_THAN},
		{"margin", required_argument, NULL, OPT_MARGIN},
		{"json", no_argument, NULL, OPT_JSON},
		{"help", no_argument, NULL, 'h'},
		{0}};
	uint64_t *times[] = {[OPT_MIN_DURATION - OPT_MIN_DURATION] = &o->min_duration_ns,
			     [OPT_SLOWER_THAN - OPT_MIN_DURATION] = &o->slower_than_ns,
			     [OPT_MARGIN - OPT_MIN_DURATION] = &o->margin_ns};
	bool slower_than = false;
	int option;

	*o = (struct cli_dump_options){.filter = CLI_FILTER_ALL, .margin_ns = 1000000};
	opterr = 0;
	while ((option = getopt_long(argc, argv, "f:h", long_options, NULL)) >= 0) {
		int taken = cli_filter_option(argv[0], option, &o->filter);

		if (taken < 0)
			return 2;
		if (taken)
			continue;
		switch (option) {
		case OPT_AROUND:
			if (cli_functions(argv[0], optarg, &o->around))
				return 2;
			break;
		case OPT_MIN_DURATION:
		case OPT_SLOWER_THAN:
		case OPT_MARGIN:
			if (cli_parse_time(argv[0], optarg, times[option - OPT_MIN_DURATION]) < 0)
				return 2;
			slower_than |= option == OPT_SLOWER_THAN;
			break;
		case OPT_JSON:
			o->json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			return cli_bad_option(argv[0], argc, argv);
		}
	}
	if (slower_than != !!o->around)
		return cli_usage(argv[0], "--around SEL and --slower-than T go together");
	return -1;
}
