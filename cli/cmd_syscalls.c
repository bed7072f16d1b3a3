/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe syscalls: which system calls were made, by whom, for how long, and with what errors.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args/operands.h"
#include "cli/cli.h"
#include "cli/filter_options.h"
#include "cli/record/temporary_trace.h"
#include "cli/syscalls/syscalls_live.h"
#include "cli/syscalls/syscalls_options.h"
#include "cli/syscalls/syscalls_trace.h"
#include "cli/trace_args.h"
#include "common/error.h"

static const char help[] =
	"usage: iprobe syscalls [OPTIONS] [DIR | PID]\n\n"
	"Shows the system calls of a recording (iprobe.data) or of a running process: how many, "
	"for "
	"how long,\n"
	"with what errors. A recording must have events of the kernel: see iprobe-attach(1). Of a "
	"process they\n"
	"are counted until it ends, the time is over, or Ctrl-C; it needs no probes, and is not "
	"stopped.\n\n"
	"  -e SET               these system calls only: openat,read; %file, %desc, %network, "
	"%process, %memory,\n"
	"                       %signal, %ipc; !SET: all but these\n"
	"  -f, --functions SEL  only calls that these functions made\n"
	"      --failed         only calls that returned an error\n"
	"      --tid TID        only calls of this thread\n"
	"      --by WORD        a line for each call (default), function (the innermost one that "
	"made it), or fd (what the\n"
	"                       descriptor is)\n"
	"      --list           no sums: one line a call, in order of time, as strace -f -tt -T "
	"-y\n"
	"      --slowest N      the N calls that took longest, one line each\n"
	"  -n, --limit N        at most N lines\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON document; with --list or --slowest one a line\n"
	"of a process:\n"
	"  -p, --pid PID        the same as the operand PID\n"
	"      --duration T     for so long: 200ms, 10s (default: until Ctrl-C)\n"
	"  -o, --output DIR     record it into DIR, which is kept, and show that\n"
	"With -f, --by, --slowest or -o a process is recorded first, as iprobe attach does it.\n";

enum { OPT_BY = 256, OPT_DURATION, OPT_FAILED, OPT_JSON, OPT_LIST, OPT_SLOWEST };

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
		     {"fd", CLI_SYSCALLS_BY_DESCRIPTOR}};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(optarg, words[i].word)) {
			o->by = words[i].by;
			return -1;
		}
	return cli_usage(command, "--by takes call, function or fd, not '%s'", optarg);
}

static int take(const char *command, int option, void *context)
{
	struct cli_syscalls_options *o = context;

	switch (option) {
	case 'e':
		if (o->chosen)
			return cli_usage(command, "-e twice: separate system calls by commas");
		if (ip_syscall_set_parse(optarg, &o->set) < 0)
			return cli_usage(command, "%s", ip_error_message());
		o->chosen = true;
		break;
	case 'o':
		o->output = optarg;
		return *optarg ? -1 : cli_usage(command, "-o needs a directory");
	case 'p':
		return cli_pid_option(command, optarg) ? 2 : -1;
	case OPT_DURATION:
		o->duration = optarg;
		if (cli_parse_time(command, optarg, &o->duration_ns) < 0)
			return 2;
		return o->duration_ns ? -1 : cli_usage(command, "--duration: a time above 0");
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

static int show_process(int pid, const char *operand, const struct cli_syscalls_options *o)
{
	const struct cli_recording_request request = {.pid = operand,
						      .functions = o->filter.functions,
						      .duration = o->duration,
						      .output = o->output};
	struct cli_temporary_trace trace;
	int code;

	if (!o->filter.functions && o->by == CLI_SYSCALLS_BY_CALL && !o->slowest && !o->output)
		return cli_syscalls_live(pid, o) < 0 ? cli_fail() : 0;
	code = cli_record_first(&request, pid, &trace);
	if (code < 0 && (code = cli_syscalls_trace(trace.dir, o) < 0))
		cli_fail();
	cli_temporary_trace_clear(&trace);
	return code;
}

int cmd_syscalls(int argc, char **argv)
{
	static const struct option long_options[] = {
		CLI_FILTER_FUNCTIONS,
		CLI_FILTER_LIMIT,
		CLI_FILTER_TID,
		CLI_OPTION_PID,
		{"duration", required_argument, NULL, OPT_DURATION},
		{"output", required_argument, NULL, 'o'},
		{"by", required_argument, NULL, OPT_BY},
		{"failed", no_argument, NULL, OPT_FAILED},
		{"list", no_argument, NULL, OPT_LIST},
		{"slowest", required_argument, NULL, OPT_SLOWEST},
		{"json", no_argument, NULL, OPT_JSON},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"e:f:n:o:p:h", help, long_options, take};
	struct cli_syscalls_options o = {.filter = CLI_FILTER_ALL};
	const char *operand;
	int pid, code = cli_filter_parse(argc, argv, &command, &o.filter, &o);

	if (code < 0)
		code = check(argv[0], &o);
	if (code >= 0)
		return code;
	code = cli_process_operand(argc, argv, &pid, &operand);
	if (code == -1)
		return show_process(pid, operand, &o);
	if (code < 0 && (o.duration || o.output))
		return cli_usage(argv[0], "%s goes with a PID", o.duration ? "--duration" : "-o");
	if (code < 0)
		code = cli_reader_dir(argv[0], argc, argv, &operand);
	return code >= 0 ? code : show_trace(operand, &o);
}
