/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe wait: where the time of functions goes.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args/processes.h"
#include "cli/cli.h"
#include "cli/filter_options.h"
#include "cli/record/temporary_trace.h"
#include "cli/record/value_words.h"
#include "cli/trace_args.h"
#include "cli/wait/wait_calls.h"
#include "cli/wait/wait_clients.h"
#include "cli/wait/wait_locks.h"
#include "cli/wait/wait_report.h"
#include "cli/wait/wait_tree_print.h"
#include "common/error.h"
#include "kernel_trace/record_source.h"

static const char help[] =
	"usage: iprobe wait [OPTIONS] [DIR | PID...]\n\n"
	"Shows where the time of functions goes (iprobe.data): on a CPU, waiting for one, blocked "
	"on what.\n"
	"The recording must have events of the kernel: see iprobe-attach(1). Running processes are "
	"recorded\n"
	"first, until they end, the time is over, or Ctrl-C.\n\n"
	"  -f, --functions SEL  these functions only\n"
	"  -n, --limit N        the N functions that waited longest (default 20; with --json all)\n"
	"      --of SEL         the slowest calls of these functions, one by one: what each waited "
	"for, and what\n"
	"                       the threads did meanwhile that ended its waits\n"
	"      --slowest N      so many calls (default 3)\n"
	"      --value COND     with --of: calls whose values meet fd=3, len>4096, uri=*.html, "
	"retval<0; repeatable\n"
	"      --tree           by call path: what each path waited for, the longest first\n"
	"      --depth N        so many levels of it\n"
	"      --min-percent P  leave out of it what waited for less than P percent of all "
	"(default "
	"0.5; with --json\n"
	"                       0)\n"
	"      --locks          by lock: for how long it was waited for and held, and in which "
	"functions\n"
	"      --idle           count waits for new work (IDLE) as BLOCKED, and sort by them, too\n"
	"      --objects N      at most N objects for each function, or functions for each lock or "
	"client (default 3;\n"
	"                       with --json all)\n"
	"      --tid TID        this thread only, by the machine's id\n"
	"      --process PROC   this process only: a pid, or a name with wildcards\n"
	"      --by WHAT        function (default); process: each process by itself; client: the "
	"work for each client\n"
	"                       whose connections were accepted; connection: for each of these; "
	"value:NAME: for\n"
	"                       each request, whose id points or calls have recorded as NAME\n"
	"      --id SEL         by value: only points and functions of these names tell ids\n"
	"      --end SEL        by value: these points, and the ends of these functions, end the "
	"work "
	"for an id\n"
	"  -j, --jobs N         read events of the kernel with so many threads (default: one for "
	"each "
	"CPU)\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON document\n"
	"of processes:\n" CLI_PROCESS_HELP
	"      --args [F(EXPR, ...)]    record these arguments, too, as iprobe attach does\n"
	"      --retval [F(EXPR, ...)]  record results, too\n"
	"      --duration T     record for so long: 200ms, 10s (default: until Ctrl-C)\n"
	"      --kernel-source WORD\n"
	"                       where events of the kernel come from: tracefs, perf, auto\n"
	"  -o, --output DIR     keep the recording in DIR\n";

/* The command line. */
struct wait_command {
	int argc;
	char **argv;
	const char *live; /* the first option that only goes with processes; NULL: none */
	struct cli_wait_options options;
	struct cli_recording_request request;
};

enum {
	OPT_BY = 256,
	OPT_ARGS,
	OPT_RETVAL,
	OPT_DURATION,
	OPT_END,
	OPT_ID,
	OPT_IDLE,
	OPT_JSON,
	OPT_KERNEL_SOURCE,
	OPT_OBJECTS,
	OPT_OF,
	OPT_SLOWEST,
	OPT_TREE,
	OPT_LOCKS,
	OPT_MIN_PERCENT
};

/* An option that iprobe attach gets, with its value where there is one. */
static int pass_on(struct wait_command *c, const char *option, const char *value)
{
	c->live = c->live ? c->live : option;
	if (cli_recording_word(&c->request, option) < 0 ||
	    (value && cli_recording_word(&c->request, value) < 0))
		return cli_fail();
	return -1;
}

static int take_time(const char *command, struct wait_command *c)
{
	uint64_t ns;

	if (cli_parse_time(command, optarg, &ns) < 0)
		return 2;
	return ns ? pass_on(c, "--duration", optarg)
		  : cli_usage(command, "--duration: a time above 0");
}

/* --by value:NAME; several names are those of one id. */
static int take_value(const char *command, struct cli_wait_options *o)
{
	if (!optarg[6])
		return cli_usage(command, "--by value: needs the name of a value: --by value:id");
	if (o->nvalues == CLI_WAIT_VALUES)
		return cli_usage(command, "--by takes at most %u values", CLI_WAIT_VALUES);
	if (o->filter.by_process || (o->by != CLI_WAIT_BY_FUNCTION && o->by != CLI_WAIT_BY_VALUE))
		return cli_usage(command, "--by value:NAME goes with no other --by");
	o->by = CLI_WAIT_BY_VALUE;
	o->values[o->nvalues++] = optarg + 6;
	return -1;
}

static int take(const char *command, int option, void *context)
{
	struct wait_command *c = context;
	struct cli_wait_options *o = &c->options;
	const int code = cli_process_option(command, option, optarg);
	enum ip_kernel_source source;
	char *end;
	unsigned long n;

	if (code != -2)
		return code;
	switch (option) {
	case 'o':
		c->request.output = optarg;
		c->live = "-o";
		return *optarg ? -1 : cli_usage(command, "-o needs a directory");
	case OPT_KERNEL_SOURCE:
		return ip_kernel_source_parse(optarg, &source) < 0
			       ? cli_usage(command, "%s", ip_error_message())
			       : pass_on(c, "--kernel-source", optarg);
	case OPT_DURATION:
		return take_time(command, c);
	case OPT_ARGS:
		return pass_on(c, "--args", cli_value_word(c->argc, c->argv));
	case OPT_RETVAL:
		return pass_on(c, "--retval", cli_value_word(c->argc, c->argv));
	}
	if (option == OPT_JSON) {
		o->json = true;
		return -1;
	}
	if (option == OPT_BY) {
		if (!strncmp(optarg, "value:", 6))
			return take_value(command, o);
		if (o->nvalues)
			return cli_usage(command, "--by value:NAME does not go with --by %s",
					 optarg);
		o->filter.by_process = !strcmp(optarg, "process");
		o->by = !strcmp(optarg, "client")	? CLI_WAIT_BY_CLIENT
			: !strcmp(optarg, "connection") ? CLI_WAIT_BY_CONNECTION
							: CLI_WAIT_BY_FUNCTION;
		if (o->filter.by_process || o->by != CLI_WAIT_BY_FUNCTION ||
		    !strcmp(optarg, "function"))
			return -1;
		return cli_usage(command,
				 "--by takes function, process, client, connection or value:NAME, "
				 "not '%s'",
				 optarg);
	}
	if (option == OPT_OF) {
		o->of = true;
		return cli_functions(command, optarg, &o->filter.functions) ? 2 : -1;
	}
	if (option == OPT_TREE) {
		o->tree = true;
		return -1;
	}
	if (option == OPT_ID || option == OPT_END)
		return cli_functions(command, optarg, option == OPT_ID ? &o->ids : &o->ends) ? 2
											     : -1;
	if (option == OPT_IDLE) {
		o->idle = true;
		return -1;
	}
	if (option == OPT_LOCKS) {
		o->locks = true;
		return -1;
	}
	if (option == OPT_MIN_PERCENT) {
		o->min_percent = strtod(optarg, &end);
		return *optarg >= '0' && *optarg <= '9' && !*end && o->min_percent <= 100
			       ? -1
			       : cli_usage(command, "'%s' is no percentage", optarg);
	}
	n = strtoul(optarg, &end, 10);
	if (*optarg < '0' || *optarg > '9' || *end || n > UINT32_MAX)
		return cli_usage(command, "%s takes a number, not '%s'",
				 option == OPT_OBJECTS ? "--objects" : "--slowest", optarg);
	if (option == OPT_SLOWEST && !n)
		return cli_usage(command, "--slowest takes a number above 0");
	*(option == OPT_OBJECTS ? &o->objects : &o->slowest) = n;
	return -1;
}

static int show(const char *dir, struct cli_wait_options *o)
{
	if (o->of)
		return cli_wait_calls(dir, o) < 0 ? cli_fail() : 0;
	return (o->tree	   ? cli_wait_tree
		: o->locks ? cli_wait_locks
		: o->by	   ? cli_wait_clients
			   : cli_wait_report)(dir, o) < 0
		       ? cli_fail()
		       : 0;
}

static int show_trace(const char *dir, struct cli_wait_options *o)
{
	/* where the user leaves a pager, this process ends without a message */
	signal(SIGPIPE, SIG_DFL);
	return show(dir, o);
}

static int show_processes(const struct ip_service_choice *choice, struct wait_command *c)
{
	const struct cli_wait_options *o = &c->options;
	struct cli_temporary_trace trace;
	int code = -1;

	/* --of and --locks tell in which functions other threads were, --tree what is inside */
	if (!o->of && !o->tree && !o->locks && o->filter.functions)
		code = pass_on(c, "-f", o->filter.functions);
	for (int i = optind; code < 0 && i < c->argc; i++)
		code = pass_on(c, c->argv[i], NULL);
	if (code >= 0)
		return code;
	code = cli_record_first(&c->request, choice, &trace);
	if (code < 0) {
		code = show(trace.dir, &c->options);
		code = code ? code : trace.code;
	}
	cli_temporary_trace_clear(&trace);
	return code;
}

/* Options that do not go together, and what is left out. Returns -1: go on; else the exit code. */
static int check(const char *command, struct cli_wait_options *o)
{
	if (!o->json && o->filter.limit == SIZE_MAX && !o->filter.functions)
		o->filter.limit = 20;
	if (o->of && o->filter.tid)
		return cli_usage(command, "--of shows calls of all threads: it does not go with "
					  "--tid");
	if (o->of && o->tree)
		return cli_usage(command, "--of shows single calls, --tree all of them");
	if (o->locks && (o->of || o->tree || o->filter.tid))
		return cli_usage(command, "--locks shows locks of all threads: it does not go with "
					  "--of, --tree or --tid");
	if (!o->tree && (o->filter.depth != SIZE_MAX || o->min_percent >= 0))
		return cli_usage(command, "--depth and --min-percent are of --tree");
	if (o->min_percent < 0)
		o->min_percent = o->json ? 0 : 0.5;
	if (o->of && o->filter.by_process)
		return cli_usage(command, "--of shows calls one by one: it does not go with --by");
	if (o->by != CLI_WAIT_BY_FUNCTION && (o->of || o->tree || o->locks || o->filter.tid))
		return cli_usage(command, "--by client is of all threads and calls: it does not go "
					  "with --of, --tree, --locks and --tid");
	if ((o->locks || o->by != CLI_WAIT_BY_FUNCTION) && o->filter.process)
		return cli_usage(command, "--locks and --by client are of all processes: they do "
					  "not go with --process");
	if ((o->locks || o->tree) && o->filter.by_process)
		return cli_usage(command, "--by process does not go with --locks and --tree");
	if ((o->ids || o->ends) && o->by != CLI_WAIT_BY_VALUE)
		return cli_usage(command, "--id and --end go with --by value:NAME");
	if (o->idle && (o->of || o->locks || o->by != CLI_WAIT_BY_FUNCTION))
		return cli_usage(command, "--idle is of functions and of --tree: --of, --locks and "
					  "--by client set nothing aside");
	if (o->slowest && !o->of)
		return cli_usage(command, "--slowest goes with --of");
	if (o->filter.matches.n && !o->of)
		return cli_usage(command, "--value goes with --of");
	o->slowest = o->slowest ? o->slowest : 3;
	if (!o->json && o->objects == SIZE_MAX)
		o->objects = 3;
	return -1;
}

int cmd_wait(int argc, char **argv)
{
	static const struct option long_options[] = {
		CLI_FILTER_FUNCTIONS,
		CLI_FILTER_LIMIT,
		CLI_FILTER_TID,
		CLI_FILTER_JOBS,
		CLI_FILTER_DEPTH,
		CLI_FILTER_VALUE,
		CLI_PROCESS_OPTIONS,
		{"args", optional_argument, NULL, OPT_ARGS},
		{"retval", optional_argument, NULL, OPT_RETVAL},
		{"duration", required_argument, NULL, OPT_DURATION},
		{"output", required_argument, NULL, 'o'},
		{"kernel-source", required_argument, NULL, OPT_KERNEL_SOURCE},
		CLI_FILTER_PROCESS,
		{"of", required_argument, NULL, OPT_OF},
		{"slowest", required_argument, NULL, OPT_SLOWEST},
		{"by", required_argument, NULL, OPT_BY},
		{"objects", required_argument, NULL, OPT_OBJECTS},
		{"tree", no_argument, NULL, OPT_TREE},
		{"idle", no_argument, NULL, OPT_IDLE},
		{"id", required_argument, NULL, OPT_ID},
		{"end", required_argument, NULL, OPT_END},
		{"locks", no_argument, NULL, OPT_LOCKS},
		{"min-percent", required_argument, NULL, OPT_MIN_PERCENT},
		{"json", no_argument, NULL, OPT_JSON},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"f:j:n:o:p:h", help, long_options, take};
	struct wait_command c = {
		.argc = argc,
		.argv = argv,
		.options = {.filter = CLI_FILTER_ALL, .objects = SIZE_MAX, .min_percent = -1}};
	struct ip_service_choice choice;
	const char *dir;
	int code = cli_filter_parse(argc, argv, &command, &c.options.filter, &c);

	if (code < 0)
		code = check(argv[0], &c.options);
	if (code < 0)
		code = cli_process_choice_or_trace(argc, argv, optind, &choice);
	if (code == -1) {
		code = show_processes(&choice, &c);
	} else if (code < 0 && c.live) {
		code = cli_usage(argv[0], "%s goes with a PID", c.live);
	} else if (code < 0) {
		code = cli_reader_dir(argv[0], argc, argv, &dir);
		code = code >= 0 ? code : show_trace(dir, &c.options);
	}
	free(c.request.words);
	ip_value_matches_clear(&c.options.filter.matches);
	return code;
}
