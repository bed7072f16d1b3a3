/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe tui: a trace on the terminal.
 */
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/filter_options.h"
#include "cli/trace_args.h"
#include "cli/tui/tui.h"
#include "common/error.h"

static const char help[] =
	"usage: iprobe tui [OPTIONS] [DIR]\n\n"
	"Shows a trace (iprobe.data) on the terminal: the report, the tree of calls, the timeline "
	"of "
	"each thread,\n"
	"callers and callees of a function. ? shows the keys of each view.\n\n"
	"  -f, --functions SEL  the report: these functions only; trees that begin at them\n"
	"  -s, --sort COLUMN    the report by calls, total (default), self, min, avg, p50, p90, "
	"p99, "
	"p99.9, max,\n"
	"                       stddev, threads or function\n"
	"      --view VIEW      begin with report (default), graph, timeline, callers or threads\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"  -h, --help\n\n"
	"Keys: q quit, 1 to 5 and Tab the views, / search, c callers and callees, g in the graph, "
	"x "
	"the slowest call, w its waits,\n"
	"? help\n";

enum { OPT_VIEW = 256 };

static const struct cli_tui_view_ops *const views[CLI_TUI_VIEWS] = {
	[CLI_TUI_REPORT] = &cli_tui_report,	[CLI_TUI_GRAPH] = &cli_tui_graph,
	[CLI_TUI_TIMELINE] = &cli_tui_timeline, [CLI_TUI_CALLERS] = &cli_tui_callers,
	[CLI_TUI_THREADS] = &cli_tui_threads,
};

static int take(const char *command, int option, void *context)
{
	struct cli_tui_options *o = context;

	if (option == OPT_VIEW) {
		for (size_t i = 0; i < CLI_TUI_VIEWS; i++)
			if (!strcmp(optarg, views[i]->name)) {
				o->view = i;
				return -1;
			}
		return cli_usage(command,
				 "--view is report, graph, timeline, callers or threads, not '%s'",
				 optarg);
	}
	for (size_t i = 0; i < CLI_REPORT_COLUMNS; i++)
		if (!strcmp(optarg, cli_report_columns[i].name)) {
			o->report.sort = optarg;
			return -1;
		}
	return cli_usage(command, "there is no column '%s' to sort by", optarg);
}

static int parse(int argc, char **argv, struct cli_tui_options *ret)
{
	static const struct option long_options[] = {CLI_FILTER_FUNCTIONS,
						     {"sort", required_argument, NULL, 's'},
						     {"view", required_argument, NULL, OPT_VIEW},
						     CLI_FILTER_FULL_NAMES,
						     CLI_FILTER_HELP,
						     {0}};
	static const struct cli_filter_command command = {"f:s:h", help, long_options, take};

	*ret = (struct cli_tui_options){.report = {.filter = CLI_FILTER_ALL}};
	return cli_filter_parse(argc, argv, &command, &ret->report.filter, ret);
}

int cmd_tui(int argc, char **argv)
{
	struct cli_tui_options options;
	struct ip_trace_reader *trace;
	const char *dir;
	int code = parse(argc, argv, &options);

	if (code < 0)
		code = cli_reader_dir(argv[0], argc, argv, &dir);
	if (code >= 0)
		return code;
	setlocale(LC_CTYPE, "");
	if (cli_reader_open_functions(dir, NULL, &trace) < 0)
		return cli_fail();
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		ip_trace_reader_close(trace);
		ip_error("iprobe tui needs a terminal, and stdin or stdout is none: iprobe report, "
			 "graph and dump print the same");
		return cli_fail();
	}
	cli_catch_signals();
	return cli_tui_run(trace, &options) < 0 ? cli_fail() : 0;
}
