/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe darc: which call path makes the slow calls of a function slow.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/protocol.h"
#include "cli/cli.h"
#include "cli/darc/darc_command.h"
#include "cli/darc/darc_handovers.h"
#include "cli/darc/darc_html.h"
#include "cli/darc/darc_load.h"
#include "cli/darc/darc_options.h"
#include "cli/darc/darc_status.h"
#include "cli/darc/live/darc_live.h"
#include "cli/filter/filter_check.h"
#include "cli/filter_options.h"
#include "cli/record/start_command.h"
#include "cli/trace_args.h"
#include "common/error.h"
#include "common/file.h"
#include "common/interrupted.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"

static const char help[] =
	"usage: iprobe darc -f F0 [OPTIONS] [DIR | PID | -- COMMAND...]\n"
	"       iprobe darc --status [--json] PID\n\n"
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
	"      --handover 'GIVER(VALUE)=SERVER(VALUE)'\n"
	"                       a call of SERVER in another thread serves what a call of GIVER "
	"with\n"
	"                       the same value handed over, and the search goes on in it\n"
	"      --by variance    which call paths make the latency vary, in the place of root "
	"causes\n"
	"      --start-ops N    the peaks are looked at after N calls, not before (default 100)\n"
	"      --decision-ops N N calls of the peak are looked at, at most (default 1000; of a "
	"process "
	"20 in each\n"
	"                       step)\n"
	"      --maxcount-percentage P\n"
	"                       a root cause is the largest part P percent as often as the most "
	"frequent one\n"
	"                       (default 20)\n"
	"      --depth N        so many levels below the function (default 64)\n"
	"of a process: F0 alone goes live, then the callees that the search has to look at\n"
	"      --max-functions N\n"
	"                       so many of them at once (default 200)\n"
	"      --duration T     end the search after so long: 10s, 2m (default: when it is over)\n"
	"      --memory SIZE    of the rings that the calls are kept in (default 64M)\n"
	"      --kernel[=LIST]  record events of the kernel, too, as iprobe attach does\n"
	"      --budget P%      take probes out for a while where they would cost more of its run "
	"time: 2%\n"
	"      --resume FILE    keep the state of the search in FILE after each step; go on from "
	"there "
	"if FILE exists\n"
	"  -q, --quiet          do not tell each step\n"
	"      --live           show the search on the terminal; keys choose the peak that is "
	"searched\n"
	"      --status         tell what the search does that is under way in PID\n"
	"output:\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON document\n"
	"  -o, --output FILE    write the JSON document to FILE, and print one line of what was "
	"found\n"
	"      --html FILE      write a page for a browser, too: the histogram with its peaks, and "
	"the tree of\n"
	"                       causes\n";

struct command {
	struct cli_filter filter;
	struct ip_darc_options options;
	bool json, chosen, quiet, view;
	const char *html;   /* the page that is written; NULL: none */
	const char *output; /* the file of the JSON; NULL: all is printed */
	const char *live;   /* the last option that only goes with a process; NULL: none */
	int pid;
	struct ip_kernel_options kernel;
	uint64_t duration_ns;
	size_t max_functions;
	const char *resume; /* a file; NULL: nothing is kept */
	bool status;
	double budget;	 /* a share; 0: none */
	uint64_t memory; /* of the rings */
	struct cli_darc_handovers handovers;
};

enum {
	OPT_BY = 256,
	OPT_PEAK,
	OPT_SLOWER,
	OPT_PERCENTILE,
	OPT_START,
	OPT_DECISION,
	OPT_MAXCOUNT,
	OPT_MOST,
	OPT_DURATION,
	OPT_KERNEL,
	OPT_HANDOVER,
	OPT_HTML,
	OPT_RESUME,
	OPT_BUDGET,
	OPT_MEMORY,
	OPT_STATUS,
	OPT_LIVE,
	OPT_JSON
};

static int take_choice(const char *command, int option, struct command *c)
{
	if (c->chosen)
		return cli_usage(command, "--peak, --slower-than and --percentile choose calls: "
					  "one of them, once");
	c->chosen = true;
	return option == OPT_PEAK     ? cli_darc_peak(command, &c->options)
	       : option == OPT_SLOWER ? cli_darc_slower_than(command, &c->options)
				      : cli_darc_percentile(command, &c->options);
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
		return cli_darc_number(command, "--start-ops", &o->start_operations);
	case OPT_DECISION:
		code = cli_darc_number(command, "--decision-ops", &number);
		o->decision_operations = number;
		return code;
	case OPT_MAXCOUNT:
		return cli_darc_percent(optarg, &o->maxcount_percent)
			       ? -1
			       : cli_usage(command,
					   "--maxcount-percentage takes 0 to 100, not '%s'",
					   optarg);
	case OPT_MOST:
		c->live = "--max-functions";
		code = cli_darc_number(command, c->live, &number);
		c->max_functions = number;
		return code;
	case OPT_DURATION:
		c->live = "--duration";
		if (cli_parse_time(command, optarg, &c->duration_ns) < 0)
			return 2;
		return c->duration_ns ? -1 : cli_usage(command, "--duration: a time above 0");
	case OPT_KERNEL:
		c->live = "--kernel";
		return ip_kernel_choice_parse(optarg, &c->kernel.groups, &c->kernel.optional) < 0
			       ? cli_usage(command, "%s", ip_error_message())
			       : -1;
	case OPT_HANDOVER:
		return cli_darc_handovers_take(command, &c->handovers);
	case OPT_HTML:
		c->html = optarg;
		return *optarg ? -1 : cli_usage(command, "--html needs the name of a file");
	case 'o':
		c->output = optarg;
		return *optarg ? -1 : cli_usage(command, "-o needs the name of a file");
	case OPT_MEMORY:
		c->live = "--memory";
		return cli_darc_memory(command, &c->memory);
	case OPT_RESUME:
		c->live = "--resume";
		c->resume = optarg;
		return -1;
	case OPT_BUDGET:
		c->live = "--budget";
		return cli_darc_budget(command, &c->budget);
	case OPT_LIVE:
		c->live = "--live";
		c->view = c->quiet = true;
		return -1;
	case OPT_STATUS:
		c->status = true;
		return -1;
	case 'q':
		c->live = "-q";
		c->quiet = true;
		return -1;
	default:
		c->json = true;
		return -1;
	}
}

static int show(const char *dir, struct command *c)
{
	struct cli_darc_trace t;
	int ret = cli_darc_open(dir, &c->filter, !c->options.variance, &t);

	if (ret == 0)
		ret = cli_darc_find_function(&t, "-f", c->filter.functions, &c->options.function);
	if (ret == 0)
		ret = cli_darc_handovers_find(&c->handovers, &t, &c->options);
	if (ret == 0)
		ret = cli_filter_check(t.trace, &c->filter);
	if (ret == 0) {
		c->options.tid = c->filter.tid;
		ret = ip_darc_search(t.trace, t.waits, &c->options, &t.search);
	}
	if (ret == 0)
		ret = ip_stretches_find(t.trace, t.waits, &t.search, &t.stretches);
	if (ret == 0) {
		const struct cli_darc d = cli_darc_of(&t, NULL);

		cli_reader_warn(t.trace);
		ret = cli_darc_print(&d, c->json, c->output);
		if (ret == 0)
			ret = cli_darc_html(&d, t.trace, c->html);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	cli_darc_clear(&t);
	cli_darc_handovers_clear(&c->handovers);
	return ret;
}

static int show_live(struct command *c, struct cli_darc_resume *resume)
{
	const struct cli_darc_live_options options = {
		.session = {.pid = c->pid,
			    .functions = c->filter.functions,
			    .max_stop_ns = IP_DEFAULT_MAX_STOP,
			    .memory = c->memory,
			    .kernel = c->kernel,
			    .budget = c->budget},
		.filter = &c->filter,
		.search = c->options,
		.duration_ns = c->duration_ns,
		.max_functions = c->max_functions,
		.handovers = &c->handovers,
		.resume = resume,
		.json = c->json,
		.html = c->html,
		.output = c->output,
		.quiet = c->quiet,
		.live = c->view};

	cli_catch_signals();
	return cli_darc_live(&options);
}

/* The command is started, searched, and goes on to its own end, unless the user has ended the
 * search. */
static int show_command(struct command *c, struct cli_darc_resume *resume, char **argv)
{
	int code;

	c->pid = cli_start_command(argv);
	if (c->pid < 0)
		return cli_fail();
	/* not before: what is ignored stays so in a program that is executed */
	cli_catch_signals();
	cli_darc_command_wait(c->pid, c->filter.functions);
	code = show_live(c, resume);
	fflush(stdout);
	if (ip_interrupted)
		kill(c->pid, SIGTERM);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		if (ip_interrupted)
			kill(c->pid, SIGTERM);
	return code;
}

/* command: NULL: there is a process. */
static int search_live(struct command *c, char **command)
{
	struct cli_darc_resume resume;
	int code;

	if (cli_darc_resume_begin(c->resume, &c->options, &resume) < 0)
		code = cli_fail();
	else
		code = command ? show_command(c, &resume, command) : show_live(c, &resume);
	cli_darc_resume_end(&resume);
	return code;
}

static int show_status(int argc, char **argv, struct command *c)
{
	if (c->filter.functions || c->chosen || c->live || c->options.variance || c->output)
		return cli_usage(argv[0],
				 "--status goes with --json alone: the search was told the "
				 "rest when it began");
	if (argc - optind != 1 || ip_parse_pid(argv[optind], &c->pid) < 0)
		return cli_usage(argv[0], "--status takes the PID of one process");
	return cli_darc_status(c->pid, c->json);
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
		{"handover", required_argument, NULL, OPT_HANDOVER},
		{"start-ops", required_argument, NULL, OPT_START},
		{"decision-ops", required_argument, NULL, OPT_DECISION},
		{"maxcount-percentage", required_argument, NULL, OPT_MAXCOUNT},
		{"max-functions", required_argument, NULL, OPT_MOST},
		{"duration", required_argument, NULL, OPT_DURATION},
		{"kernel", optional_argument, NULL, OPT_KERNEL},
		{"resume", required_argument, NULL, OPT_RESUME},
		{"budget", required_argument, NULL, OPT_BUDGET},
		{"status", no_argument, NULL, OPT_STATUS},
		{"live", no_argument, NULL, OPT_LIVE},
		{"quiet", no_argument, NULL, 'q'},
		{"json", no_argument, NULL, OPT_JSON},
		{"html", required_argument, NULL, OPT_HTML},
		{"output", required_argument, NULL, 'o'},
		{"memory", required_argument, NULL, OPT_MEMORY},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"f:o:qh", help, long_options, take};
	struct command c = {
		.filter = CLI_FILTER_ALL,
		.options = {.start_operations = 100, .maxcount_percent = 20, .depth = 64},
		.memory = IP_DEFAULT_MEMORY,
		.kernel.buffer = IP_REQUEST_KERNEL_BUFFER_USUAL,
		.max_functions = 200};
	bool is_command, is_live;
	const char *dir;
	int code = cli_filter_parse(argc, argv, &command, &c.filter, &c);

	if (code < 0 && c.status)
		return show_status(argc, argv, &c);
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
	if (code >= 0)
		return code;
	is_command = optind < argc && optind > 1 && !strcmp(argv[optind - 1], "--");
	is_live = is_command || (argc - optind == 1 && cli_darc_is_process(argv[optind], &c.pid));
	if (is_live && (c.options.variance || c.filter.process))
		return cli_usage(argv[0], "%s is for traces",
				 c.filter.process ? "--process" : "--by variance");
	if (is_live && c.handovers.n && (c.resume || c.budget > 0))
		return cli_usage(argv[0], "--handover does not go with %s",
				 c.resume ? "--resume" : "--budget");
	if (is_live && c.view && (is_command || c.resume))
		return cli_usage(argv[0], "--live does not go with %s",
				 c.resume ? "--resume, which keeps the peak"
					  : "a command, which may write to the terminal");
	if (is_live && c.filter.tid)
		c.options.tid = c.filter.tid;
	if (!c.options.decision_operations)
		c.options.decision_operations = is_live ? 20 : 1000;
	/* not after minutes of search */
	if ((c.html && cli_darc_file_try(c.html, "--html") < 0) ||
	    (c.output && cli_darc_file_try(c.output, "-o") < 0))
		return cli_fail();
	if (is_live)
		return search_live(&c, is_command ? argv + optind : NULL);
	if (c.live)
		return cli_usage(argv[0], "%s goes with a PID or a command", c.live);
	code = cli_reader_dir(argv[0], argc, argv, &dir);
	if (code >= 0)
		return code;
	/* where the user leaves a pager, this process ends without a message */
	signal(SIGPIPE, SIG_DFL);
	return show(dir, &c) < 0 ? cli_fail() : 0;
}
