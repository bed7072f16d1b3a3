/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe compare-calls: why a call was slow and a usual one not.
 */
#include <signal.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/darc/compare/compare_calls.h"
#include "cli/darc/darc_html.h"
#include "cli/trace_args.h"

static const char help[] =
	"usage: iprobe compare-calls --of FUNC [OPTIONS] [DIR]\n\n"
	"Shows why a call of a function was slow and a usual one not (iprobe.data): what each call "
	"path below it\n"
	"took in both, what differs most first; with events of the kernel also what the threads "
	"waited for.\n\n"
	"      --of FUNC        the function; needed\n"
	"      --slowest N      compare the N slowest calls, one by one (default 1)\n"
	"      --median         with the call of the median (this is so in any case)\n"
	"  -n, --limit N        the first N call paths (default 20; with --json all)\n"
	"      --depth N        so many levels below the function (default 64)\n"
	"      --tid TID        calls in this thread only\n"
	"      --process PROC   in this process only: a pid, or a name with wildcards\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON document\n"
	"      --html FILE      write a page for a browser, too: both calls as timelines, one "
	"above "
	"the other\n";

struct command {
	struct cli_filter filter;
	struct cli_compare_options options;
};

enum { OPT_OF = 256, OPT_SLOWEST, OPT_MEDIAN, OPT_JSON, OPT_HTML };

static int take(const char *command, int option, void *context)
{
	struct command *c = context;
	char *end;

	switch (option) {
	case OPT_OF:
		return cli_functions(command, optarg, &c->filter.functions) ? 2 : -1;
	case OPT_SLOWEST:
		c->options.slowest = strtoul(optarg, &end, 10);
		return *optarg >= '0' && *optarg <= '9' && !*end && c->options.slowest &&
				       c->options.slowest <= 1000
			       ? -1
			       : cli_usage(command,
					   "--slowest takes a number from 1 to 1000, not "
					   "'%s'",
					   optarg);
	case OPT_JSON:
		c->options.json = true;
		break;
	case OPT_HTML:
		c->options.html = optarg;
		return *optarg ? -1 : cli_usage(command, "--html needs the name of a file");
	}
	return -1;
}

int cmd_compare_calls(int argc, char **argv)
{
	static const struct option long_options[] = {
		CLI_FILTER_LIMIT,
		CLI_FILTER_TID,
		CLI_FILTER_PROCESS,
		CLI_FILTER_DEPTH,
		{"of", required_argument, NULL, OPT_OF},
		{"slowest", required_argument, NULL, OPT_SLOWEST},
		{"median", no_argument, NULL, OPT_MEDIAN},
		{"json", no_argument, NULL, OPT_JSON},
		{"html", required_argument, NULL, OPT_HTML},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"n:h", help, long_options, take};
	struct command c = {.filter = CLI_FILTER_ALL, .options = {.slowest = 1, .depth = 64}};
	const char *dir;
	int code = cli_filter_parse(argc, argv, &command, &c.filter, &c);

	c.options.filter = &c.filter;
	if (code < 0 && !c.filter.functions)
		code = cli_usage(argv[0], "--of names the function whose calls are compared");
	if (code < 0 && c.filter.depth != SIZE_MAX) {
		c.options.depth = c.filter.depth;
		if (c.filter.depth > IP_DARC_DEPTH_MOST)
			code = cli_usage(argv[0], "--depth is %u at most", IP_DARC_DEPTH_MOST);
	}
	if (code < 0)
		code = cli_reader_dir(argv[0], argc, argv, &dir);
	if (code >= 0)
		return code;
	c.options.limited = c.filter.limit != SIZE_MAX;
	if (!c.options.json && c.filter.limit == SIZE_MAX)
		c.filter.limit = 20;
	if (c.options.html && cli_darc_file_try(c.options.html, "--html") < 0)
		return cli_fail();
	/* where the user leaves a pager, this process ends without a message */
	signal(SIGPIPE, SIG_DFL);
	return cli_compare_calls(dir, &c.options) < 0 ? cli_fail() : 0;
}
