/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe hist: latency histograms of functions.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/profile/value_filter.h"
#include "cli/args/operands.h"
#include "cli/args/processes.h"
#include "cli/cli.h"
#include "cli/elide.h"
#include "cli/filter_options.h"
#include "cli/hist/hist.h"
#include "cli/screen/reading_screen.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/print.h"
#include "common/units.h"

static const char help[] =
	"usage: iprobe hist [OPTIONS] [DIR|PID...]\n\n"
	"Shows how many calls of a function lasted how long (iprobe.data), in powers of two, and "
	"where the peaks are. Of processes that are being recorded with the hist payload: up to "
	"now, added up.\n\n"
	"  -f, --functions SEL  these functions only\n"
	"  -n, --limit N        the first N functions in the order of total time (default 10; with "
	"-f all)\n" CLI_PROCESS_HELP
	"      --by WHAT        value:NAME: a histogram for each value of an argument, or of "
	"retval; "
	"value:NAME/log2:\n"
	"                       numbers by powers of two\n"
	"      --over-time      a heat map: time from left to right, duration upwards\n"
	"      --interval T     a line for each T: its calls by duration, and how far they are "
	"from "
	"those before;\n"
	"                       of processes: again each T, until the session ends; with "
	"--over-time a line, too\n"
	"      --diff OTHER     how far the histograms are from those of trace OTHER, and which "
	"peaks came or went\n"
	"      --tid TID        this thread only\n"
	"      --process PROC   this process only: a pid, or a name with wildcards\n"
	"      --value COND     calls whose values meet fd=3, len>4096, uri=*.html, retval<0 ... "
	"only; again: all\n"
	"                       must hold\n"
	"  -j, --jobs N         read with so many threads (default: one for each CPU)\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON document\n";

/* Columns of a heat map: where there is no terminal, and on one, which has other columns, too. */
#define SLICES	   64u
#define SLICES_MIN 16u
#define SLICES_MAX 256u
#define NO_SLICES  12u

/* A histogram that the process made does not tell threads or times. */
static void warn_of_measured(const struct cli_hist *h)
{
	if (h->latencies->tid && cli_hist_any_measured(h))
		ip_print(stderr,
			 "iprobe: %s: --payload hist does not tell threads apart: with --tid only "
			 "functions that were logged are shown\n",
			 h->dir);
	if ((h->latencies->groups || ip_value_filter_is_on(h->latencies->matches)) &&
	    cli_hist_any_measured(h))
		ip_print(stderr,
			 "iprobe: %s: --payload hist keeps no values: with %s only functions that "
			 "were logged are shown\n",
			 h->dir, h->latencies->groups ? "--by" : "--value");
	if (h->latencies->slices.n && cli_hist_any_measured(h))
		ip_print(stderr,
			 "iprobe: %s: --payload hist keeps no times: %s shows these functions as "
			 "without it\n",
			 h->dir, h->interval_ns ? "--interval" : "--over-time");
}

/* What is printed while the trace is being read. */
struct so_far {
	const struct cli_hist *hist;
	const bool *selected;
	size_t limit;
};

/* Prints the histograms of what has been read so far; as cli_reading_screen.print. */
static int print_so_far(void *context, void *result, size_t lines)
{
	const struct so_far *s = context;
	struct cli_hist h = *s->hist;
	int ret;

	(void)lines;
	h.latencies = result;
	ret = cli_hist_order(&h, s->selected, s->limit);
	if (ret == 0)
		ret = cli_hist_text(&h);
	free(h.order);
	return ret;
}

static struct ip_latency_slices slices_of(const struct ip_trace_reader *trace,
					  const struct cli_hist_options *o)
{
	const size_t room = o->json ? SIZE_MAX : cli_name_width(NO_SLICES, SLICES_MIN);

	if (o->interval_ns)
		return ip_latency_slices_every(trace, o->interval_ns);
	if (!o->over_time)
		return (struct ip_latency_slices){0};
	return ip_latency_slices_equal(trace, room == SIZE_MAX	  ? SLICES
					      : room > SLICES_MAX ? SLICES_MAX
								  : room);
}

static int show(const char *dir, struct cli_hist_options *o)
{
	struct cli_hist_trace t = {0};
	struct cli_reading_screen screen = {.print = print_so_far};
	struct so_far so_far;
	int ret = cli_hist_open(dir, o, o->json ? NULL : &screen, &t);

	if (ret == 0) {
		const struct ip_latency_slices slices = slices_of(t.reader, o);

		so_far = (struct so_far){&t.hist, t.selected, o->filter.limit};
		screen.context = &so_far;
		if (!o->json)
			cli_reading_screen_begin(&screen, t.reader);
		ret = cli_hist_collect(&t, o, &slices, false);
		cli_reading_screen_end(&screen, t.reader);
	}
	if (ret == 0)
		ret = cli_hist_order(&t.hist, t.selected, o->filter.limit);
	if (ret == 0) {
		cli_reader_warn(t.reader);
		warn_of_measured(&t.hist);
		if (o->json)
			cli_hist_json(&t.hist);
		else
			ret = cli_hist_text(&t.hist);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	if (ret == 0)
		cli_reading_screen_leave(&screen);
	cli_hist_close(&t);
	return ret;
}

/* Returns whether the operand is a process: a number, unless there is a file of that name. */
static bool is_process(const char *operand, int *ret)
{
	return operand[strspn(operand, "0123456789")] == '\0' && ip_access(operand, F_OK) < 0 &&
	       ip_parse_pid(operand, ret) == 0;
}

enum { OPT_OVER_TIME = 256, OPT_INTERVAL, OPT_JSON, OPT_BY, OPT_DIFF };

static int take(const char *command, int option, void *context)
{
	struct cli_hist_options *o = context;
	const int code = cli_process_option(command, option, optarg);

	if (code != -2) {
		o->is_process = true;
		return code;
	}
	switch (option) {
	case OPT_OVER_TIME:
		o->over_time = true;
		break;
	case OPT_INTERVAL:
		if (cli_parse_time(command, optarg, &o->interval_ns) < 0)
			return 2;
		if (!o->interval_ns)
			return cli_usage(command, "--interval needs a time above 0");
		break;
	case OPT_BY:
		if (strncmp(optarg, CLI_HIST_BY, strlen(CLI_HIST_BY)) ||
		    !optarg[strlen(CLI_HIST_BY)])
			return cli_usage(
				command, "--by value:NAME, not '%s': is 'value:%s' meant?", optarg,
				strncmp(optarg, CLI_HIST_BY, strlen(CLI_HIST_BY)) ? optarg
										  : "NAME");
		o->by = optarg;
		break;
	case OPT_DIFF:
		o->other = optarg;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	}
	return -1;
}

/* Parses the command line. Returns -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct cli_hist_options *o)
{
	static const struct option long_options[] = {
		CLI_FILTER_FUNCTIONS,
		CLI_FILTER_LIMIT,
		CLI_FILTER_TID,
		CLI_PROCESS_OPTIONS,
		CLI_FILTER_PROCESS,
		CLI_FILTER_VALUE,
		{"by", required_argument, NULL, OPT_BY},
		{"over-time", no_argument, NULL, OPT_OVER_TIME},
		{"diff", required_argument, NULL, OPT_DIFF},
		{"interval", required_argument, NULL, OPT_INTERVAL},
		{"json", no_argument, NULL, OPT_JSON},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_JOBS,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"f:n:p:j:h", help, long_options, take};
	int code;

	*o = (struct cli_hist_options){.filter = CLI_FILTER_ALL};
	code = cli_filter_parse(argc, argv, &command, &o->filter, o);
	if (o->filter.limit == SIZE_MAX && !o->filter.functions && !o->json)
		o->filter.limit = 10;
	return code;
}

/* Whether several operands are processes: a trace is one operand. */
static bool are_processes(int argc, char **argv)
{
	bool all = argc - optind > 1;
	int pid;

	for (int i = optind; i < argc; i++)
		all &= is_process(argv[i], &pid);
	return all;
}

/* Checks what goes with what. Returns -1: go on; else the exit code. */
static int check(const char *command, const struct cli_hist_options *o)
{
	if (o->is_process && o->filter.matches.n)
		return cli_usage(command, "histograms of a process know no values: --value is for "
					  "traces");
	if (o->is_process && o->by)
		return cli_usage(command, "histograms of a process know no values: --by is for "
					  "traces");
	if (o->is_process && o->filter.process)
		return cli_usage(command,
				 "--process is for traces: PIDs, --name and the like choose "
				 "live processes");
	if (o->is_process && o->filter.tid)
		return cli_usage(command, "histograms of a process know no thread: --tid is for "
					  "traces");
	if (o->is_process && o->other)
		return cli_usage(command, "--diff compares two traces, and no processes");
	if (o->is_process && o->over_time && !o->interval_ns)
		return cli_usage(command, "histograms of a process know no time: --over-time goes "
					  "with --interval there");
	if (o->other && (o->over_time || o->interval_ns))
		return cli_usage(command, "--diff compares whole traces: it does not go with "
					  "--over-time and --interval");
	if (o->other && o->filter.tid)
		return cli_usage(command, "--diff does not go with --tid: the other trace has "
					  "other threads");
	return -1;
}

int cmd_hist(int argc, char **argv)
{
	struct ip_service_choice choice = {0};
	struct cli_hist_options o;
	const char *operand = NULL;
	pid_t pid = 0;
	int code = parse(argc, argv, &o);

	if (code >= 0)
		return code;
	if (o.is_process || are_processes(argc, argv)) {
		o.is_process = true;
		code = cli_process_choice(argc, argv, optind, &choice);
	} else {
		code = cli_reader_dir(argv[0], argc, argv, &operand);
	}
	if (code >= 0)
		return code;
	if (!o.is_process && is_process(operand, &pid)) {
		o.is_process = true;
		choice = (struct ip_service_choice){.pids = &pid, .npids = 1};
	}
	code = check(argv[0], &o);
	/* where the user leaves a pager, this process ends without a message */
	signal(SIGPIPE, SIG_DFL);
	if (code < 0 && o.is_process)
		code = cli_hist_live(&choice, &o);
	else if (code < 0)
		code = (o.other ? cli_hist_show_diff(operand, &o) : show(operand, &o)) < 0
			       ? cli_fail()
			       : 0;
	ip_value_matches_clear(&o.filter.matches);
	return code;
}
