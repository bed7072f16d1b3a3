/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe top: the busiest functions of live processes.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "access/worker_client.h"
#include "cli/args/processes.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/filter_options.h"
#include "cli/record/daemon_events.h"
#include "cli/record/via_daemon.h"
#include "cli/top/top.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/print.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"
#include "kernel_trace/kernel_check.h"

#define DELAY_NS   1000000000ull
#define BATCH_ROWS 20
#define TRIES	   3
#define SLICE_NS   100000000ull /* time between checks for signals */

#define KERNEL_GROUPS "sched,syscalls,faults"
#define KERNEL_MEMORY (16u << 20) /* each picture reads all of it */

static const char help[] =
	"usage: iprobe top [OPTIONS] PID...\n"
	"       iprobe top [OPTIONS] --name GLOB | --unit UNIT | --cgroup PATH\n\n"
	"Shows live which functions of a process are called how often, what time they take by "
	"themselves and with what they call, and how\n"
	"long calls last. Makes the chosen probes live with the hist payload until q, Ctrl-C, or "
	"the process ends, and puts every byte back;\n"
	"where the process is recorded with that payload already, shows what that session "
	"measures. No trace is kept. Figures of several\n"
	"processes are added up by function; those that come later join.\n\n" CLI_PROCESS_HELP
	"  -f, --functions SEL   globs, comma-separated; !GLOB takes away; file:GLOB, lib:GLOB; -f "
	"@FILE reads them\n"
	"                        (default: all probes)\n"
	"      --by process      several processes: a row for each function of each of them\n"
	"      --by thread       a row for each thread, with its name: calls and self time of all "
	"functions\n"
	"  -d, --delay T         between two pictures (default 1s)\n"
	"  -n, --iterations N    end after N of them\n"
	"      --duration T      end after T\n"
	"  -s, --sort COLUMN     rate, calls, self (default), total, avg, p50, p99, max, "
	"wait, function\n"
	"      --waits WHERE     functions that mostly wait (for events, a lock, a clock): below, "
	"with the order by self\n"
	"                        (default); hide; among the others (default with --json)\n"
	"      --kernel          what functions wait for, by events of the kernel (as root, or "
	"by iprobed): columns\n"
	"                        %WAIT and FOR\n"
	"      --idle            waits for new work count as waits, too\n"
	"      --kernel-buffer SIZE  the room for these events until they are read, for each CPU "
	"(default 4M)\n"
	"      --kernel-source WORD  where they come from: tracefs, perf, auto (default: the one "
	"that serves)\n"
	"      --limit ROWS      at most so many functions (default: as many as fit; 20 with "
	"--batch; all with --json)\n"
	"  -b, --batch           plain text, each picture below the other; so it is where stdout "
	"is no terminal\n"
	"      --json            each picture as one JSON object on a line\n"
	"      --full-names      whole C++ names, not their short forms\n"
	"      --memory SIZE     for rings and histograms (default 64M)\n"
	"      --max-stop T      no stop of the process longer than T (default 50ms)\n"
	"  -h, --help\n\n"
	"Keys: q quit, s S sort by the next column, the one before, r reverse, / show only some, t "
	"since the beginning, T threads, p pause, + - faster,\n"
	"slower, w what waits: below, hidden, among the others, d drop the function's probes, c "
	"add its callees, a add functions, ? help\n";

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Waits until this time, a signal, or the end of the session. */
static void wait_until(struct cli_top_session *session, uint64_t until)
{
	for (uint64_t now;
	     !ip_interrupted && (now = now_ns()) < until && !cli_top_session_has_ended(session);) {
		uint64_t ns = until - now < SLICE_NS ? until - now : SLICE_NS;
		const struct timespec nap = {0, (long)ns};

		nanosleep(&nap, NULL);
	}
}

/* Returns 0; 1 where no process reads stdout any more; -1 with an error. */
static int flush(void)
{
	if (fflush(stdout) == 0)
		return 0;
	return errno == EPIPE ? 1 : ip_error_errno("cannot write to stdout");
}

static int print(const struct cli_top_options *o, const struct cli_top_session *session,
		 const struct cli_top_snapshot *snapshot, uint64_t iteration)
{
	struct cli_top_order order = {.by_process = o->by_process,
				      .by_thread = o->by_thread,
				      .sort = o->sort,
				      .waits = o->waits};
	bool *wanted = NULL;
	struct cli_top_rows rows;
	size_t n;
	int done;

	if (o->functions && cli_top_session_joined(session) &&
	    !(wanted = cli_top_select(snapshot->recording, o->functions, &n)))
		return -1;
	order.wanted = wanted;
	done = cli_top_rows_make(snapshot, cli_top_session_counts(session), &order, &rows);
	free(wanted);
	if (done < 0)
		return -1;
	if (o->json) {
		cli_top_print_json(o, session, snapshot, &rows, iteration);
	} else {
		if (iteration > 1)
			ip_print(stdout, "\n");
		cli_top_print_sums(stdout, &rows);
		ip_print(stdout, "\n");
		cli_top_print_head(stdout, SIZE_MAX, o->sort, &rows);
		ip_print(stdout, "\n");
		for (size_t i = 0; i < rows.n && (!o->limit || i < o->limit); i++) {
			cli_top_print_row(stdout, SIZE_MAX, &rows, &rows.items[i]);
			ip_print(stdout, "\n");
		}
		if (o->limit)
			cli_top_print_more(stdout, &rows, o->limit);
	}
	cli_top_rows_clear(&rows);
	return flush();
}

static void tell_without_kernel(struct cli_top_session *session)
{
	const char *line = cli_top_session_without_kernel(session);

	if (line)
		ip_print(stderr, "iprobe: %s\n", line);
}

/* Prints one output after the other. Returns 0, or -1 with an error. */
static int print_all(const struct cli_top_options *o, struct cli_top_session *session,
		     const struct cli_top_snapshot *first)
{
	uint64_t start = now_ns(), end = o->duration_ns ? start + o->duration_ns : UINT64_MAX;
	struct cli_top_snapshot snapshot = *first;
	int done;

	for (uint64_t i = 1; !o->iterations || i <= o->iterations; i++) {
		wait_until(session, start + i * o->delay_ns < end ? start + i * o->delay_ns : end);
		if (ip_interrupted)
			return 0;
		done = cli_top_session_read(session, &snapshot);
		/* The process ended before the first interval: there is only one output, of all
		 * the time. */
		if (!done && i == 1 && !cli_top_session_is_joined(session))
			return print(o, session, &snapshot, i) < 0 ? -1 : 0;
		if (done <= 0)
			return done;
		tell_without_kernel(session);
		done = print(o, session, &snapshot, i);
		if (done)
			return done < 0 ? -1 : 0;
		if (now_ns() >= end)
			return 0;
	}
	return 0;
}

static int parse_count(const char *command, const char *text, const char *what, uint64_t *ret)
{
	char *end;

	*ret = strtoul(text, &end, 10);
	return isdigit((unsigned char)*text) && !*end && *ret
		       ? 0
		       : cli_usage(command, "'%s' is no number of %s", text, what);
}

enum {
	OPT_DURATION = 256,
	OPT_BY,
	OPT_LIMIT,
	OPT_JSON,
	OPT_MEMORY,
	OPT_MAX_STOP,
	OPT_FULL_NAMES,
	OPT_WAITS,
	OPT_KERNEL,
	OPT_KERNEL_BUFFER,
	OPT_IDLE,
	OPT_KERNEL_SOURCE
};

static const struct option long_options[] = {
	CLI_FILTER_FUNCTIONS,
	{"delay", required_argument, NULL, 'd'},
	{"iterations", required_argument, NULL, 'n'},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"sort", required_argument, NULL, 's'},
	{"waits", required_argument, NULL, OPT_WAITS},
	{"kernel", no_argument, NULL, OPT_KERNEL},
	{"idle", no_argument, NULL, OPT_IDLE},
	{"kernel-buffer", required_argument, NULL, OPT_KERNEL_BUFFER},
	{"kernel-source", required_argument, NULL, OPT_KERNEL_SOURCE},
	{"limit", required_argument, NULL, OPT_LIMIT},
	CLI_PROCESS_OPTIONS,
	{"by", required_argument, NULL, OPT_BY},
	{"batch", no_argument, NULL, 'b'},
	{"json", no_argument, NULL, OPT_JSON},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"max-stop", required_argument, NULL, OPT_MAX_STOP},
	{"full-names", no_argument, NULL, OPT_FULL_NAMES},
	{"help", no_argument, NULL, 'h'},
	{0}};

#define LETTERS ":f:d:n:s:p:bh"

/* Parses an option. Returns -1: go on; else the exit code. */
static int parse_option(const char *command, int option, struct cli_top_options *o)
{
	uint64_t n;

	switch (option) {
	case 'f':
		return cli_functions(command, optarg, &o->functions) ? 2 : -1;
	case 'd':
		if (cli_parse_time(command, optarg, &o->delay_ns) < 0)
			return 2;
		return o->delay_ns ? -1 : cli_usage(command, "--delay needs a time above 0");
	case 'n':
		return parse_count(command, optarg, "pictures", &o->iterations) ? 2 : -1;
	case OPT_DURATION:
		if (cli_parse_time(command, optarg, &o->duration_ns) < 0)
			return 2;
		return o->duration_ns ? -1 : cli_usage(command, "--duration needs a time above 0");
	case 's':
		o->sort = cli_top_column_of(optarg);
		return o->sort < CLI_TOP_COLUMNS
			       ? -1
			       : cli_usage(
					 command,
					 "--sort is rate, calls, self, total, avg, p50, p99, max, "
					 "wait or function, not '%s'",
					 optarg);
	case OPT_WAITS:
		o->waits_asked = true;
		if (cli_top_waits_of(optarg) < 0)
			return cli_usage(command, "--waits is below, hide or among, not '%s'",
					 optarg);
		o->waits = cli_top_waits_of(optarg);
		return -1;
	case OPT_KERNEL:
		return ip_kernel_groups_parse(KERNEL_GROUPS, &o->kernel.groups) < 0 ? cli_fail()
										    : -1;
	case OPT_IDLE:
		o->with_idle = true;
		return -1;
	case OPT_KERNEL_BUFFER:
		return cli_parse_kernel_buffer(optarg, &o->kernel.buffer) < 0
			       ? cli_usage(command, "%s", ip_error_message())
			       : -1;
	case OPT_KERNEL_SOURCE:
		return ip_kernel_source_parse(optarg, &o->kernel.source) < 0
			       ? cli_usage(command, "%s", ip_error_message())
			       : -1;
	case OPT_LIMIT:
		if (parse_count(command, optarg, "functions", &n))
			return 2;
		o->limit = n;
		return -1;
	case OPT_FULL_NAMES:
		o->full_names = true;
		return -1;
	case OPT_BY:
		o->by_process = !strcmp(optarg, "process");
		o->by_thread = !strcmp(optarg, "thread");
		return o->by_process || o->by_thread
			       ? -1
			       : cli_usage(command, "--by process or --by thread, not '%s'",
					   optarg);
	case 'b':
		o->batch = true;
		return -1;
	case OPT_JSON:
		o->json = true;
		return -1;
	case OPT_MEMORY:
		o->memory_asked = true;
		return ip_parse_size(optarg, &o->memory) < 0
			       ? cli_usage(command, "%s", ip_error_message())
			       : -1;
	case OPT_MAX_STOP:
		return cli_parse_time(command, optarg, &o->max_stop_ns) < 0 ? 2 : -1;
	case 'h':
		ip_print_lines(stdout, help);
		return 0;
	default: {
		int code = cli_process_option(command, option, optarg);

		return code == -2 ? 3 : code;
	}
	}
}

static int parse(int argc, char **argv, struct cli_top_options *o)
{
	int option, code;

	*o = (struct cli_top_options){.delay_ns = DELAY_NS,
				      .sort = CLI_TOP_SELF,
				      .memory = IP_DEFAULT_MEMORY,
				      .max_stop_ns = IP_DEFAULT_MAX_STOP};
	opterr = 0;
	while ((option = getopt_long(argc, argv, LETTERS, long_options, NULL)) >= 0) {
		code = parse_option(argv[0], option, o);

		if (code == 3)
			return cli_bad_option(argv[0], argc, argv, LETTERS, long_options);
		if (code >= 0)
			return code;
	}
	code = cli_process_choice(argc, argv, optind, &o->choice);
	if (code >= 0)
		return code;
	if (o->sort == CLI_TOP_WAIT && !o->kernel.groups)
		return cli_usage(argv[0], "--sort wait is by what the kernel tells: add --kernel");
	if (o->kernel.buffer && !o->kernel.groups)
		return cli_usage(argv[0], "--kernel-buffer is the room for events of --kernel: add "
					  "that option");
	if (o->with_idle && !o->kernel.groups)
		return cli_usage(argv[0], "--idle is about the waits of --kernel: add that option");
	if (o->kernel.source && !o->kernel.groups)
		return cli_usage(argv[0], "--kernel-source tells where events of --kernel come "
					  "from: add that option");
	if (!o->kernel.buffer)
		o->kernel.buffer = CLI_KERNEL_BUFFER;
	if (o->kernel.groups && !o->memory_asked)
		o->memory = KERNEL_MEMORY;
	if (cli_is_one_process(&o->choice))
		o->pid = o->choice.pids[0];
	o->batch |= o->json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);
	if (o->json && !o->waits_asked)
		o->waits = CLI_TOP_WAITS_AMONG;
	if (!o->limit && o->batch && !o->json)
		o->limit = BATCH_ROWS;
	return -1;
}

/* Begins or joins a session and takes the snapshot from which its first interval counts: the
 * session's own beginning lies before its probes went live. A session that the process had may
 * have been about to end: then it tries again. Returns 1; 0 where there is nothing to show; -1
 * with an error. */
static int begin(const struct cli_top_options *o, struct cli_top_session **ret,
		 struct cli_top_snapshot *ret_first)
{
	for (unsigned i = 0;; i++) {
		int done = cli_top_session_begin(o, !o->batch, ret);

		if (done)
			return done < 0 ? -1 : 0;
		done = cli_top_session_read(*ret, ret_first);
		if (done || i == TRIES || ip_interrupted || !cli_top_session_is_joined(*ret))
			return done;
		cli_top_session_end(*ret);
	}
}

/* Finds out who reads events of the kernel: the sessions themselves, or a process of iprobed's for
 * this user. Returns 0, or -1 with an error: they cannot be had. */
static int find_kernel(struct cli_top_options *o, struct cli_daemon_events *events)
{
	const char *none = ip_worker_client_no_events();
	int got;

	if (none)
		return ip_error("%s", none);
	/* a worker of iprobed has its own; where there are several processes, each session asks */
	o->kernel.optional = ip_worker_client_events() || geteuid();
	if (ip_worker_client_events() ||
	    (!o->pid && cli_lacks_kernel_events(&o->kernel) && cli_daemon_listens()))
		return 0;
	got = o->pid ? cli_daemon_events_open(o->pid, &o->kernel, true, events) : 0;
	if (got > 0)
		o->kernel.reader = events->reader;
	if (got)
		return got < 0 ? -1 : 0;
	return ip_kernel_check_source(o->kernel.source) < 0 ? cli_daemon_events_missing(&o->kernel)
							    : 0;
}

/* Where events of the kernel cannot be had, the rest is shown, and a line tells what is missing. */
static void look_for_kernel(struct cli_top_options *o, struct cli_daemon_events *events)
{
	*events = (struct cli_daemon_events){.connection = -1};
	if (!o->kernel.groups || find_kernel(o, events) == 0)
		return;
	snprintf(o->no_kernel, sizeof(o->no_kernel), "no waits are shown: %s", ip_error_message());
	ip_print(stderr, "iprobe: %s\n", o->no_kernel);
	o->kernel.groups = 0;
	if (o->sort == CLI_TOP_WAIT)
		o->sort = CLI_TOP_SELF;
}

int cmd_top(int argc, char **argv)
{
	struct cli_top_options o;
	struct cli_top_session *session;
	struct cli_top_snapshot first;
	struct cli_daemon_events events;
	int done, ended, code = parse(argc, argv, &o), index = optind;

	if (code < 0 && o.pid) {
		code = cli_via_daemon_try(IP_REQUEST_TOP, o.pid, argc, argv, LETTERS, long_options,
					  NULL);
		optind = index;
	}
	if (code >= 0)
		return code;
	cli_catch_signals();
	look_for_kernel(&o, &events);
	done = begin(&o, &session, &first);
	cli_daemon_events_close(&events); /* the session has them */
	if (done > 0 && o.batch && !o.json && !o.iterations && !o.duration_ns &&
	    !isatty(STDOUT_FILENO))
		ip_print(stderr, "iprobe: top goes on until Ctrl-C or the end of the process (-n N "
				 "or --duration T ends it)\n");
	if (done > 0)
		done = o.batch ? print_all(&o, session, &first) : cli_top_view(&o, session, &first);
	code = done < 0 ? cli_fail() : 0;
	ended = cli_top_session_end(session);
	return code ? code : ended;
}
