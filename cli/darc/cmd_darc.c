/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe darc: which call path makes the slow calls of a function slow.
 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/darc/darc.h"
#include "cli/filter/filter_check.h"
#include "cli/filter_options.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

static const char help[] =
	"usage: iprobe darc -f F0 [OPTIONS] [DIR]\n\n"
	"Finds which call path makes the slow calls of a function slow (iprobe.data): the peaks of "
	"its latency,\n"
	"and the root causes of one of them, from callee to callee down to the function, lock, "
	"device or thread\n"
	"that the time went to.\n\n"
	"  -f, --functions F0   the function; needed\n"
	"which of its calls are searched (default: the rightmost peak):\n"
	"      --peak N         those of the N-th peak\n"
	"      --slower-than T  those that last T or longer: 500us, 20ms\n"
	"      --percentile P   the slowest ones, from a percentile on: p99, p99.9\n"
	"      --tid TID        those in this thread only\n"
	"      --process PROC   those in this process only: a pid, or a name with wildcards\n"
	"how it is searched:\n"
	"      --by variance    which call paths make the latency vary, in the place of root "
	"causes\n"
	"      --start-ops N    the peaks are looked at after N calls, not before (default 100)\n"
	"      --decision-ops N N calls of the peak are looked at, at most (default 1000)\n"
	"      --maxcount-percentage P\n"
	"                       a root cause is the largest part P percent as often as the most "
	"frequent one\n"
	"                       (default 20)\n"
	"      --depth N        so many levels below the function (default 64)\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON document\n";

struct command {
	struct cli_filter filter;
	struct ip_darc_options options;
	bool json, chosen;
};

enum {
	OPT_BY = 256,
	OPT_PEAK,
	OPT_SLOWER,
	OPT_PERCENTILE,
	OPT_START,
	OPT_DECISION,
	OPT_MAXCOUNT,
	OPT_JSON
};

static int take_number(const char *command, const char *option, uint64_t *ret)
{
	char *end;

	*ret = strtoull(optarg, &end, 10);
	if (*optarg >= '0' && *optarg <= '9' && !*end && *ret)
		return -1;
	return cli_usage(command, "%s takes a number above 0, not '%s'", option, optarg);
}

/* A number from 0 to 100. */
static bool parse_percent(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return *text >= '0' && *text <= '9' && !*end && *ret >= 0 && *ret <= 100;
}

static int take_choice(const char *command, int option, struct command *c)
{
	struct ip_darc_options *o = &c->options;
	uint64_t number;
	int code;

	if (c->chosen)
		return cli_usage(command, "--peak, --slower-than and --percentile choose calls: "
					  "one of them, once");
	c->chosen = true;
	switch (option) {
	case OPT_PEAK:
		code = take_number(command, "--peak", &number);
		o->choice = IP_DARC_PEAK;
		o->number = number;
		return code;
	case OPT_SLOWER:
		o->choice = IP_DARC_SLOWER;
		if (cli_parse_time(command, optarg, &o->slower_ns) < 0)
			return 2;
		return o->slower_ns ? -1 : cli_usage(command, "--slower-than: a time above 0");
	default:
		o->choice = IP_DARC_PERCENTILE;
		if (!parse_percent(optarg + (*optarg == 'p'), &o->share) || o->share >= 100 ||
		    o->share <= 0)
			return cli_usage(
				command,
				"--percentile takes p50, p99, p99.9 and the like, not '%s'",
				optarg);
		o->share /= 100;
		return -1;
	}
}

static int take(const char *command, int option, void *context)
{
	struct command *c = context;
	struct ip_darc_options *o = &c->options;
	uint64_t number;
	int code;

	switch (option) {
	case OPT_PEAK:
	case OPT_SLOWER:
	case OPT_PERCENTILE:
		return take_choice(command, option, c);
	case OPT_BY:
		o->variance = true;
		return strcmp(optarg, "variance")
			       ? cli_usage(command, "--by takes variance, not '%s'", optarg)
			       : -1;
	case OPT_START:
		return take_number(command, "--start-ops", &o->start_operations);
	case OPT_DECISION:
		code = take_number(command, "--decision-ops", &number);
		o->decision_operations = number;
		return code;
	case OPT_MAXCOUNT:
		return parse_percent(optarg, &o->maxcount_percent)
			       ? -1
			       : cli_usage(command,
					   "--maxcount-percentage takes 0 to 100, not '%s'",
					   optarg);
	default:
		c->json = true;
		return -1;
	}
}

/* The function that a selection means. Returns 0, or -1 with an error: it means none, or several.
 */
static int find_function(const struct ip_trace_reader *trace, const char *selection,
			 struct ip_names *names, uint32_t *ret)
{
	_cleanup_free_ bool *selected = cli_reader_select(trace, selection);
	uint32_t first = 0, second = 0;
	size_t n = 0;

	for (uint32_t i = 0; selected && i < trace->session->nfunctions; i++) {
		if (!selected[i])
			continue;
		n++;
		second = first && !second ? i : second;
		first = first ? first : i;
	}
	if (!selected)
		return -1;
	*ret = first;
	return n == 1 ? 0
		      : ip_error("-f %s means several functions (%s, %s%s): one can be searched",
				 selection, ip_names_get(names, first), ip_names_get(names, second),
				 n > 2 ? ", ..." : "");
}

static int print(const struct cli_darc *d, bool json)
{
	if (json)
		return cli_darc_json(d);
	return d->search->options.variance ? cli_darc_variance_text(d) : cli_darc_text(d);
}

static int show(const char *dir, struct command *c)
{
	struct ip_trace_reader *trace = NULL;
	struct ip_darc_search search = {0};
	struct cli_darc d = {.search = &search};
	int ret = cli_reader_open(dir, c->filter.process, &trace);

	if (ret == 0) {
		d.names = ip_names_create(trace->session);
		d.places = ip_symbolizer_create(dir, trace->session);
		ret = d.names && d.places ? 0 : -1;
	}
	if (ret == 0 && c->filter.full_names)
		ip_names_use_full(d.names);
	if (ret == 0)
		ret = find_function(trace, c->filter.functions, d.names, &c->options.function);
	if (ret == 0)
		ret = cli_filter_check(trace, &c->filter);
	if (ret == 0 && !c->options.variance && ip_trace_waits_read(trace, &d.waits) < 0)
		ret = -1;
	for (const char *const *line = d.waits ? d.waits->damage : NULL; line && *line; line++)
		ip_print(stderr, "iprobe: %s\n", *line);
	if (ret == 0) {
		c->options.tid = c->filter.tid;
		ret = ip_darc_search(trace, d.waits, &c->options, &search);
	}
	if (ret == 0) {
		d.lost = trace->lost;
		cli_reader_warn(trace);
		ret = print(&d, c->json);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	ip_darc_search_clear(&search);
	ip_trace_waits_destroy(d.waits);
	ip_symbolizer_destroy(d.places);
	ip_names_destroy(d.names);
	ip_trace_reader_close(trace);
	return ret;
}

int cmd_darc(int argc, char **argv)
{
	static const struct option long_options[] = {
		CLI_FILTER_FUNCTIONS,
		CLI_FILTER_TID,
		CLI_FILTER_PROCESS,
		CLI_FILTER_DEPTH,
		{"peak", required_argument, NULL, OPT_PEAK},
		{"slower-than", required_argument, NULL, OPT_SLOWER},
		{"percentile", required_argument, NULL, OPT_PERCENTILE},
		{"by", required_argument, NULL, OPT_BY},
		{"start-ops", required_argument, NULL, OPT_START},
		{"decision-ops", required_argument, NULL, OPT_DECISION},
		{"maxcount-percentage", required_argument, NULL, OPT_MAXCOUNT},
		{"json", no_argument, NULL, OPT_JSON},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"f:h", help, long_options, take};
	struct command c = {.filter = CLI_FILTER_ALL,
			    .options = {.start_operations = 100,
					.decision_operations = 1000,
					.maxcount_percent = 20,
					.depth = 64}};
	const char *dir;
	int code = cli_filter_parse(argc, argv, &command, &c.filter, &c);

	if (code < 0 && !c.filter.functions)
		code = cli_usage(argv[0], "-f names the function whose calls are searched");
	if (code < 0 && c.filter.depth != SIZE_MAX) {
		c.options.depth = c.filter.depth;
		if (c.filter.depth > IP_DARC_DEPTH_MOST)
			code = cli_usage(argv[0], "--depth is %u at most", IP_DARC_DEPTH_MOST);
	}
	if (code < 0 && c.options.variance && c.chosen)
		code = cli_usage(argv[0], "--by variance is of all calls: it does not go with "
					  "--peak, --slower-than and --percentile");
	if (code < 0)
		code = cli_reader_dir(argv[0], argc, argv, &dir);
	if (code >= 0)
		return code;
	/* where the user leaves a pager, this process ends without a message */
	signal(SIGPIPE, SIG_DFL);
	return show(dir, &c) < 0 ? cli_fail() : 0;
}
