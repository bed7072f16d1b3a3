/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of fperf.
 */
#include "cli/fperf/fperf_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args/operands.h"
#include "cli/args/processes.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/fperf/fperf_summary.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/print.h"
#include "common/units.h"
#include "fperf/leaky_bucket.h"
#include "hotpatcher/process/probe_list_search.h"

#define INTERVAL_NS	100000000ull
#define INTERVAL_MIN_NS 10000000ull
#define BUDGET		0.02
#define STOP_LEAST	200000ull

const char fperf_help[] =
	"usage: fperf [OPTIONS] -p PID,...      (or PID...)\n"
	"       fperf [OPTIONS] --name GLOB | --unit UNIT | --cgroup PATH\n"
	"       fperf [OPTIONS] [--] CMD [ARGS...]\n"
	"       fperf list-events [--native] [--json]\n"
	"       fperf self-test\n\n"
	"Counts events (CPU time, page faults, context switches...) per call of each function of a "
	"program that was\n"
	"built with iprobe-cc, by samples, such that it costs no more than a budget. Inclusive "
	"(unless --exclusive):\n"
	"with what the function calls. Functions that are too hot for the budget have no probes "
	"for most of the time.\n\n"
	"  -p, --pid PID,...     running processes; until --duration, Ctrl-C or their end. Each "
	"has "
	"a budget and a\n"
	"                        table of its own\n"
	"      --children        also all that they have forked and will fork\n"
	"      --name GLOB       processes whose name or program matches; repeatable\n"
	"      --unit UNIT       processes of a unit of systemd (nginx.service, or nginx)\n"
	"      --cgroup PATH     processes of a control group, such as a container's\n"
	"  -e, --events LIST     comma-separated, at most 8; fperf list-events names them\n"
	"                        (default " IP_FPERF_NAMES_DEFAULT ")\n"
	"  -f, --functions SEL   globs, comma-separated; !GLOB takes away; file:GLOB, lib:GLOB "
	"(default: all)\n"
	"      --budget B        share of the run time that it may cost, as 2% (default), or none; "
	"N/s: besides, at most N\n"
	"                        samples a second\n"
	"      --exclusive       without what selected functions count that are called in it\n"
	"      --interval T      how often quotas are given (default 100ms)\n"
	"      --duration T      count for T only (10s, 2m)\n"
	"      --memory SIZE     for counters (default 64M)\n"
	"      --max-stop T      no stop longer than T (default 50ms)\n"
	"      --stop            change probes by stops only, also where pages could be switched\n"
	"      --list FILE       probe list or debug file of a stripped module; repeatable\n"
	"      --alternate T     to measure what it costs: count for T, have no probes for T, and "
	"so on; a line on stderr for each:\n"
	"                        on or off, nanoseconds, CPU time, bytes that the process has read "
	"and written\n"
	"      --profile NAME    events, functions, budget... of a profile in probes.d, where no "
	"option says otherwise\n"
	"      --multiplex       more hardware events than the PMU counts at a time: by turns, "
	"scaled and marked ~\n"
	"  -n, --limit N         rows of the table at most, 0: all (default: all that are known to "
	"within +-50 %,\n"
	"                        and 10 of the others, below a line)\n"
	"      --full-names      whole C++ names in the table, not their short forms\n"
	"      --csv, --json     in the place of the table\n"
	"  -o, --output FILE     write it there, not to stdout\n"
	"  -q, --quiet           no table while it runs, no summary\n"
	"  -h, --help\n";

enum {
	OPT_BUDGET = 256,
	OPT_INTERVAL,
	OPT_DURATION,
	OPT_MEMORY,
	OPT_MAX_STOP,
	OPT_LIST,
	OPT_CSV,
	OPT_JSON,
	OPT_ALTERNATE,
	OPT_PROFILE,
	OPT_MULTIPLEX,
	OPT_EXCLUSIVE,
	OPT_STOP,
	OPT_FULL_NAMES
};

const struct option fperf_long_options[] = {
	CLI_PROCESS_OPTIONS,
	{"events", required_argument, NULL, 'e'},
	{"functions", required_argument, NULL, 'f'},
	{"budget", required_argument, NULL, OPT_BUDGET},
	{"interval", required_argument, NULL, OPT_INTERVAL},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"max-stop", required_argument, NULL, OPT_MAX_STOP},
	{"list", required_argument, NULL, OPT_LIST},
	{"alternate", required_argument, NULL, OPT_ALTERNATE},
	{"profile", required_argument, NULL, OPT_PROFILE},
	{"multiplex", no_argument, NULL, OPT_MULTIPLEX},
	{"exclusive", no_argument, NULL, OPT_EXCLUSIVE},
	{"stop", no_argument, NULL, OPT_STOP},
	{"limit", required_argument, NULL, 'n'},
	{"full-names", no_argument, NULL, OPT_FULL_NAMES},
	{"csv", no_argument, NULL, OPT_CSV},
	{"json", no_argument, NULL, OPT_JSON},
	{"output", required_argument, NULL, 'o'},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

/* Parses "2%", "0.5 %", "none", "500/s". */
static int parse_budget(const char *text, struct ip_fperf_options *o)
{
	char *end;
	double n;

	if (!strcmp(text, "none")) {
		o->budget = -1;
		return 0;
	}
	n = strtod(text, &end);
	if (end != text && n >= 0 && isfinite(n) && !strcmp(end, "/s")) {
		o->samples_per_s = n;
		return 0;
	}
	end += strspn(end, " ");
	if (end == text || strcmp(end, "%") || !(n >= IP_PROFILE_BUDGET_LEAST && n <= 100))
		return ip_error("--budget %s: a share from 0.01%% to 100%%, as 2%%; none; or "
				"samples a second, as 500/s",
				text);
	o->budget = n / 100;
	return 0;
}

static int parse_interval(const char *text, uint64_t *ret)
{
	if (ip_parse_duration(text, ret) < 0)
		return -1;
	return *ret >= INTERVAL_MIN_NS ? 0 : ip_error("--interval %s: 10ms at least", text);
}

/* Parses a number of rows. 0 means all rows. */
static int parse_limit(const char *text, uint64_t *ret)
{
	if (text[strspn(text, "0123456789")] || ip_parse_size(text, ret) < 0)
		return ip_error("-n %s: a number of rows, or 0 for all", text);
	*ret = *ret ? *ret : SIZE_MAX;
	return 0;
}

static int parse_one(int option, struct fperf_options *o)
{
	int n;

	switch (option) {
	case 'e':
		n = ip_fperf_events_parse(optarg, o->fperf.events);
		o->fperf.nevents = n < 0 ? 0 : n;
		return n;
	case 'n':
		return parse_limit(optarg, &o->limit);
	case OPT_BUDGET:
		o->budget_given = true;
		return parse_budget(optarg, &o->fperf);
	case OPT_PROFILE:
		o->profile = ip_profile_find(optarg);
		return o->profile ? 0 : -2;
	case OPT_INTERVAL:
		return parse_interval(optarg, &o->fperf.interval_ns);
	case OPT_DURATION:
		if (ip_parse_duration(optarg, &o->session.duration_ns) < 0)
			return -1;
		return o->session.duration_ns ? 0
					      : ip_error("--duration 0 counts nothing; leave it "
							 "out to count until Ctrl-C");
	case OPT_ALTERNATE:
		o->fperf.window = fperf_summary_window;
		return parse_interval(optarg, &o->fperf.alternate_ns);
	case OPT_MEMORY:
		o->memory_given = true;
		return ip_parse_size(optarg, &o->session.memory);
	default:
		if (ip_parse_duration(optarg, &o->session.max_stop_ns) < 0)
			return -1;
		return o->session.max_stop_ns >= STOP_LEAST
			       ? 0
			       : ip_error("--max-stop: probes are changed again and again, each "
					  "time by many stops that would be shorter than 200us: "
					  "give that at least");
	}
}

/* Takes values from the profile where no option has set them. Returns 0, or an error as
 * parse_one(). */
static int apply_profile(struct fperf_options *o)
{
	const struct ip_fperf_profile *p = o->profile;
	int n;

	if (!p)
		return 0;
	if (!o->session.functions)
		o->session.functions = p->functions;
	if (!o->session.duration_ns)
		o->session.duration_ns = p->duration_ns;
	if (!o->fperf.interval_ns && p->interval_ns)
		o->fperf.interval_ns =
			p->interval_ns < INTERVAL_MIN_NS ? INTERVAL_MIN_NS : p->interval_ns;
	if (!o->budget_given && p->budget_percent > 0)
		o->fperf.budget = p->budget_percent / 100;
	if (!o->budget_given && p->budget_samples)
		o->fperf.samples_per_s = p->budget_samples;
	if (o->fperf.nevents || !p->events)
		return 0;
	n = ip_fperf_events_parse(p->events, o->fperf.events);
	o->fperf.nevents = n < 0 ? 0 : n;
	return n < 0 ? ip_error_prefix("profile %s", p->name) : 0;
}

/* Reads which processes are meant. Returns -1: go on; else the exit code. */
static int parse_processes(int argc, char **argv, struct fperf_options *o)
{
	int code = cli_process_choice(argc, argv, argc, &o->choice);

	if (code >= 0)
		return code;
	if (cli_is_one_process(&o->choice)) {
		o->pid = o->choice.pids[0];
		return -1;
	}
	if (o->format == FPERF_CSV)
		return cli_usage("fperf", "--csv is for one process: --json has several");
	if (o->fperf.alternate_ns)
		return cli_usage("fperf", "--alternate is for one process");
	return -1;
}

/* Whether a program of that name can be run as a command. */
static bool is_command(const char *name)
{
	const char *path = getenv("PATH");
	bool found = false;

	for (const char *at = path ? path : ""; *at && !found; at += *at == ':') {
		const int n = strcspn(at, ":");
		_cleanup_free_ char *file = NULL;

		if (asprintf(&file, "%.*s/%s", n, at, name) < 0)
			file = NULL;
		found = file && ip_access(file, X_OK) == 0;
		at += n;
	}
	return found;
}

/* Takes the next operand as a process, as other commands do: it is a number, and no command has
 * that name. Returns whether it was one; -1 after a usage error. */
static int take_pid(int argc, char **argv)
{
	int pid;

	if (optind >= argc || !strcmp(argv[optind - 1], "--") ||
	    argv[optind][strspn(argv[optind], "0123456789")] ||
	    ip_parse_pid(argv[optind], &pid) < 0 || is_command(argv[optind]))
		return 0;
	return cli_pid_option("fperf", argv[optind++]) ? -1 : 1;
}

/* Refuses a process and a command: perf stat -p PID, perf stat -p PID -- sleep 5. */
static int refuse_both(const char *word, const char *next)
{
	if (!strcmp(word, "sleep") && next)
		return cli_usage("fperf",
				 "-p PID and a command: one of them; --duration %s%s ends it, in "
				 "the place of sleep %s",
				 next, next[strspn(next, "0123456789.")] ? "" : "s", next);
	return cli_usage("fperf", "-p PID and a command: one of them");
}

/* Refuses what is a command of perf, and would be run as a program: perf stat -p PID. stat(1) has
 * neither of the two options. Returns -1 where the word is none. */
static int refuse_subcommand(const char *const *words)
{
	const bool is_list = !strcmp(*words, "list") || !strcmp(*words, "list-event") ||
			     !strcmp(*words, "events"),
		   is_word = is_list || !strcmp(*words, "stat") || !strcmp(*words, "record") ||
			     !strcmp(*words, "report");
	const char *next = words[1];

	if (!is_word ||
	    (is_command(*words) && (!next || (strncmp(next, "-p", 2) && strncmp(next, "-e", 2) &&
					      strcmp(next, "--pid")))))
		return -1;
	if (is_list)
		return cli_usage("fperf", "no command '%s': do you mean fperf list-events?",
				 *words);
	return cli_usage("fperf", "leave '%s' out: fperf -p PID, or fperf -- CMD, counts", *words);
}

/* Parses the options up to the next operand. Returns -1: go on; else the exit code. */
static int parse_options(int argc, char **argv, struct fperf_options *o)
{
	int option, code;

	while ((option = getopt_long(argc, argv, FPERF_LETTERS, fperf_long_options, NULL)) >= 0) {
		switch (option) {
		case 'f':
			if (cli_functions("fperf", optarg, &o->session.functions))
				return 2;
			break;
		case OPT_LIST:
			if (ip_probe_list_search_add(optarg) < 0)
				return cli_fail();
			break;
		case OPT_MULTIPLEX:
			o->fperf.multiplex = true;
			break;
		case OPT_EXCLUSIVE:
			o->fperf.exclusive = true;
			break;
		case OPT_STOP:
			o->fperf.stops = true;
			break;
		case OPT_FULL_NAMES:
			fperf_print_full_names();
			break;
		case OPT_CSV:
			o->format = FPERF_CSV;
			break;
		case OPT_JSON:
			o->format = FPERF_JSON;
			break;
		case 'o':
			o->output = optarg;
			break;
		case 'q':
			o->quiet = true;
			break;
		case 'h':
			ip_print_lines(stdout, fperf_help);
			return 0;
		case '?':
		case ':':
			return cli_bad_option("fperf", argc, argv, FPERF_LETTERS,
					      fperf_long_options);
		default:
			code = cli_process_option("fperf", option, optarg);
			if (code >= 0)
				return code;
			if (code == -1)
				break;
			code = parse_one(option, o);
			if (code == -2) /* the request is well-formed, but it cannot be served */
				return cli_fail();
			if (code < 0)
				return cli_usage("fperf", "%s", ip_error_message());
		}
	}
	return -1;
}

int fperf_options_parse(int argc, char **argv, struct fperf_options *o)
{
	int code;

	*o = (struct fperf_options){
		.session = {.memory = IP_DEFAULT_MEMORY,
			    .max_stop_ns = IP_DEFAULT_MAX_STOP,
			    .clock = IP_CLOCK_TSC},
		.fperf = {.budget = BUDGET, .samples_per_s = -1, .policy = &ip_fperf_bucket},
	};
	opterr = 0;
	do {
		code = parse_options(argc, argv, o);
		if (code >= 0)
			return code;
		code = take_pid(argc, argv);
		if (code < 0)
			return 2;
	} while (code);
	if (apply_profile(o) < 0)
		return cli_fail();
	if (!o->fperf.interval_ns)
		o->fperf.interval_ns = INTERVAL_NS;
	if (!o->fperf.nevents) {
		int n = ip_fperf_events_parse(IP_FPERF_NAMES_DEFAULT, o->fperf.events);

		if (n < 0)
			return cli_fail();
		o->fperf.nevents = n;
	}
	o->any = cli_any_process(argc, argc);
	if (o->any && optind < argc)
		return refuse_both(argv[optind], argv[optind + 1]);
	if (!o->any && optind < argc && strcmp(argv[optind - 1], "--")) {
		code = refuse_subcommand((const char *const *)argv + optind);
		if (code >= 0)
			return code;
	}
	if (!o->any && optind >= argc)
		return cli_usage("fperf", "whom? a PID (-p PID), or a command");
	return o->any ? parse_processes(argc, argv, o) : -1;
}
