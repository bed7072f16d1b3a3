/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe syscalls: which system calls were made, by whom, for how long, and with what errors.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args/processes.h"
#include "cli/cli.h"
#include "cli/filter_options.h"
#include "cli/record/temporary_trace.h"
#include "cli/syscalls/syscalls_live.h"
#include "cli/syscalls/syscalls_options.h"
#include "cli/syscalls/syscalls_trace.h"
#include "cli/trace_args.h"
#include "common/error.h"
#include "kernel_trace/record_source.h"

static const char help[] =
	"usage: iprobe syscalls [OPTIONS] [DIR | PID...]\n\n"
	"Shows the system calls of a recording (iprobe.data) or of running processes: how many, "
	"for how long,\n"
	"with what errors. A recording must have events of the kernel: see iprobe-attach(1). Of "
	"processes they\n"
	"are counted until these end, the time is over, or Ctrl-C; they need no probes, and are "
	"not "
	"stopped.\n\n"
	"  -e SET               these system calls only: openat,read; %file, %desc, %network, "
	"%process, %memory,\n"
	"                       %signal, %ipc; !SET: all but these\n"
	"  -f, --functions SEL  only calls that these functions made\n"
	"      --failed         only calls that returned an error\n"
	"      --tid TID        only calls of this thread\n"
	"      --process PROC   of a recording: those of this process only: a pid, or a name with "
	"wildcards\n"
	"      --by WORD        a line for each call (default), function (the innermost one that "
	"made it), fd (what the\n"
	"                       descriptor is), or process\n"
	"      --list           no sums: one line a call, in order of time, as strace -f -tt -T "
	"-y\n"
	"      --slowest N      the N calls that took longest, one line each\n"
	"  -n, --limit N        at most N lines\n"
	"  -j, --jobs N         read events with so many threads (default: one for each CPU)\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON document; with --list or --slowest one a line\n"
	"of processes:\n" CLI_PROCESS_HELP
	"      --duration T     for so long: 200ms, 10s (default: until Ctrl-C)\n"
	"      --kernel-source WORD\n"
	"                       where events of the kernel come from: tracefs, perf, auto\n"
	"  -o, --output DIR     record it into DIR, which is kept, and show that\n"
	"With -f, --by function or fd, --slowest or -o they are recorded first, as iprobe attach "
	"does it.\n";

/* The command line. */
struct syscalls_command {
	struct cli_syscalls_options options;
	struct cli_recording_request request;
};

enum { OPT_BY = 256, OPT_DURATION, OPT_FAILED, OPT_JSON, OPT_KERNEL_SOURCE, OPT_LIST, OPT_SLOWEST };

static int take_number(const char *command, const char *option, size_t *ret)
{
	char *end;
	const unsigned long n = strtoul(optarg, &end, 10);

	if (*optarg < '0' || *optarg > '9' || *end || !n || n > UINT32_MAX)
		return cli_usage(command, "%s takes a number above 0, not '%s'", option, optarg);
	*ret = n;
	return -1;
}

static int take_by(const char *command, struct cli_syscalls_options *o)
{
	static const struct {
		const char *word;
		enum cli_syscalls_by by;
	} words[] = {{"call", CLI_SYSCALLS_BY_CALL},
		     {"function", CLI_SYSCALLS_BY_FUNCTION},
		     {"fd", CLI_SYSCALLS_BY_DESCRIPTOR},
		     {"process", CLI_SYSCALLS_BY_PROCESS}};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(optarg, words[i].word)) {
			o->by = words[i].by;
			return -1;
		}
	return cli_usage(command, "--by takes call, function, fd or process, not '%s'", optarg);
}

static int take(const char *command, int option, void *context)
{
	struct syscalls_command *c = context;
	struct cli_syscalls_options *o = &c->options;
	const int code = cli_process_option(command, option, optarg);

	if (code != -2)
		return code;
	switch (option) {
	case 'e':
		if (o->chosen)
			return cli_usage(command, "-e twice: separate system calls by commas");
		if (ip_syscall_set_parse(optarg, &o->set) < 0)
			return cli_usage(command, "%s", ip_error_message());
		o->chosen = true;
		break;
	case 'o':
		c->request.output = optarg;
		o->live = "-o";
		return *optarg ? -1 : cli_usage(command, "-o needs a directory");
	case OPT_DURATION:
		o->live = "--duration";
		if (cli_recording_word(&c->request, "--duration") < 0 ||
		    cli_recording_word(&c->request, optarg) < 0)
			return cli_fail();
		if (cli_parse_time(command, optarg, &o->duration_ns) < 0)
			return 2;
		return o->duration_ns ? -1 : cli_usage(command, "--duration: a time above 0");
	case OPT_KERNEL_SOURCE:
		o->live = "--kernel-source";
		if (cli_recording_word(&c->request, "--kernel-source") < 0 ||
		    cli_recording_word(&c->request, optarg) < 0)
			return cli_fail();
		return ip_kernel_source_parse(optarg, &o->source) < 0
			       ? cli_usage(command, "%s", ip_error_message())
			       : -1;
	case OPT_BY:
		return take_by(command, o);
	case OPT_FAILED:
		o->failed = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	case OPT_LIST:
		o->list = true;
		break;
	case OPT_SLOWEST:
		return take_number(command, "--slowest", &o->slowest);
	}
	return -1;
}

/* Options that do not go together. Returns -1: go on; else the exit code. */
static int check(const char *command, const struct cli_syscalls_options *o)
{
	if (o->list && o->slowest)
		return cli_usage(command, "--list is in order of time, --slowest is not: take one");
	if ((o->list || o->slowest) && o->by != CLI_SYSCALLS_BY_CALL)
		return cli_usage(command, "--by makes sums: it does not go with %s",
				 o->list ? "--list" : "--slowest");
	return -1;
}

static int show_trace(const char *dir, const struct cli_syscalls_options *o)
{
	/* where the user leaves a pager, this process ends without a message */
	signal(SIGPIPE, SIG_DFL);
	return cli_syscalls_trace(dir, o) < 0 ? cli_fail() : 0;
}

/* Records the processes, and shows what was recorded. */
static int show_recorded(const struct ip_service_choice *choice, struct syscalls_command *c,
			 int argc, char **argv)
{
	const char *functions = c->options.filter.functions;
	struct cli_temporary_trace trace;
	int code, done = 0;

	if (functions)
		done = cli_recording_word(&c->request, "-f") < 0 ||
		       cli_recording_word(&c->request, functions) < 0;
	for (int i = optind; !done && i < argc; i++)
		done = cli_recording_word(&c->request, argv[i]) < 0;
	if (done)
		return cli_fail();
	code = cli_record_first(&c->request, choice, &trace);
	if (code < 0) {
		code = cli_syscalls_trace(trace.dir, &c->options) < 0 ? cli_fail() : trace.code;
	}
	cli_temporary_trace_clear(&trace);
	return code;
}

static int show_processes(const struct ip_service_choice *choice, struct syscalls_command *c,
			  int argc, char **argv)
{
	const struct cli_syscalls_options *o = &c->options;
	int done;

	if (o->filter.functions || o->by == CLI_SYSCALLS_BY_FUNCTION ||
	    o->by == CLI_SYSCALLS_BY_DESCRIPTOR || o->slowest || c->request.output)
		return show_recorded(choice, c, argc, argv);
	done = cli_syscalls_live(choice, o);
	return done < 0 ? cli_fail() : done;
}

int cmd_syscalls(int argc, char **argv)
{
	static const struct option long_options[] = {
		CLI_FILTER_FUNCTIONS,
		CLI_FILTER_LIMIT,
		CLI_FILTER_TID,
		CLI_FILTER_JOBS,
		CLI_FILTER_PROCESS,
		CLI_PROCESS_OPTIONS,
		{"duration", required_argument, NULL, OPT_DURATION},
		{"output", required_argument, NULL, 'o'},
		{"kernel-source", required_argument, NULL, OPT_KERNEL_SOURCE},
		{"by", required_argument, NULL, OPT_BY},
		{"failed", no_argument, NULL, OPT_FAILED},
		{"list", no_argument, NULL, OPT_LIST},
		{"slowest", required_argument, NULL, OPT_SLOWEST},
		{"json", no_argument, NULL, OPT_JSON},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"e:f:j:n:o:p:h", help, long_options,
							  take};
	struct syscalls_command c = {.options = {.filter = CLI_FILTER_ALL}};
	struct ip_service_choice choice;
	const char *dir;
	int code = cli_filter_parse(argc, argv, &command, &c.options.filter, &c);

	if (code < 0)
		code = check(argv[0], &c.options);
	if (code < 0)
		code = cli_process_choice_or_trace(argc, argv, optind, &choice);
	if (code == -1 && c.options.filter.process) {
		code = cli_usage(argv[0], "--process chooses from a recording: name the processes "
					  "themselves");
	} else if (code == -1) {
		code = show_processes(&choice, &c, argc, argv);
	} else if (code < 0 && c.options.live) {
		code = cli_usage(argv[0], "%s goes with a PID", c.options.live);
	} else if (code < 0) {
		code = cli_reader_dir(argv[0], argc, argv, &dir);
		code = code >= 0 ? code : show_trace(dir, &c.options);
	}
	free(c.request.words);
	return code;
}
