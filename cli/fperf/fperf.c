/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf: its options, and the session in which it counts.
 */
#include "cli/fperf/fperf.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/delegation.h"
#include "cli/args/operands.h"
#include "cli/args/processes.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/fperf/fperf_service.h"
#include "cli/record/live_line.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"
#include "config/probes_d.h"
#include "fperf/leaky_bucket.h"
#include "fperf/pmu.h"
#include "hotpatcher/process/probe_list_search.h"

#define INTERVAL_NS	100000000ull
#define INTERVAL_MIN_NS 10000000ull
#define BUDGET		0.02
#define STOP_LEAST	200000ull

static const char help[] =
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

#define LETTERS "+:p:e:f:n:o:qh"

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

static const struct option long_options[] = {
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

struct options {
	struct ip_session_options session;
	struct ip_fperf_options fperf;
	enum fperf_format format;
	const char *output;
	uint64_t limit;
	int pid; /* 0: of the choice, or a command */
	struct ip_service_choice choice;
	const char *program; /* of one of several processes; NULL: there is one */
	bool found;	     /* not named by its pid: it may have nothing to count */
	bool *little;	     /* one of several: set where results are few for want of calls */
	bool any, quiet, budget_given, memory_given;
	const struct ip_fperf_profile *profile; /* NULL: none */
};

int cli_fail(void)
{
	cli_live_line_clear();
	ip_print(stderr, "fperf: %s\n", ip_error_message());
	return 1;
}

int cli_usage(const char *command, const char *format, ...)
{
	va_list args;

	ip_print(stderr, "fperf: ");
	va_start(args, format);
	ip_vprint(stderr, format, args);
	va_end(args);
	ip_print(stderr, " (see fperf --help)\n");
	return 2;
}

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

/* The bytes that the process has read and written: in many programs they are a measure of its
 * work. */
struct io {
	uint64_t read, written;
};

static struct io io_of(int pid)
{
	char path[64];
	struct io io = {0};
	_cleanup_fclose_ FILE *file = NULL;

	snprintf(path, sizeof(path), "/proc/%d/io", pid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "rchar: %lu wchar: %lu", &io.read, &io.written) != 2)
		return (struct io){0};
	return io;
}

/* Prints a window. The first call prints none: what the process did before belongs to no window. */
static void tell_window(void *context, int pid, bool counted, uint64_t wall_ns, uint64_t cpu_ns)
{
	static struct io before;
	struct io now = io_of(pid);

	if (wall_ns)
		ip_print(stderr, "window\t%s\t%lu\t%lu\t%lu\t%lu\n", counted ? "on" : "off",
			 wall_ns, cpu_ns, now.read - before.read, now.written - before.written);
	before = now;
}

static int parse_one(int option, struct options *o)
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
		o->fperf.window = tell_window;
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
static int apply_profile(struct options *o)
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
static int parse_processes(int argc, char **argv, struct options *o)
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
		found = file && access(file, X_OK) == 0;
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

/* Parses the options up to the next operand. Returns -1: go on; else the exit code. */
static int parse_options(int argc, char **argv, struct options *o)
{
	int option, code;

	while ((option = getopt_long(argc, argv, LETTERS, long_options, NULL)) >= 0) {
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
			ip_print_lines(stdout, help);
			return 0;
		case '?':
		case ':':
			return cli_bad_option("fperf", argc, argv, LETTERS, long_options);
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

/* Parses the command line. Returns -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct options *o)
{
	int code;

	*o = (struct options){
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
		return cli_usage("fperf", "-p PID and a command: one of them");
	if (!o->any && optind >= argc)
		return cli_usage("fperf", "whom? a PID (-p PID), or a command");
	return o->any ? parse_processes(argc, argv, o) : -1;
}

/* Makes a directory for the session's trace, which is not read. The caller frees the path. */
static char *make_directory(struct ip_dir_place *ret)
{
	const char *base = getenv("TMPDIR");
	char *path;
	int fd;

	base = base && *base ? base : "/tmp";
	fd = ip_dir_make_temporary(base, "fperf", ret);
	if (fd < 0)
		return NULL;
	close(fd);
	if (asprintf(&path, "%s/%s", base, ret->name) >= 0)
		return path;
	ip_error("out of memory");
	return NULL;
}

/* The file for the results. It is opened before anything is counted, but keeps its content until
 * there are results. */
struct output {
	FILE *file; /* NULL: stdout */
	bool made;
};

static int open_output(const struct options *o, struct output *ret)
{
	int fd;

	*ret = (struct output){0};
	if (!o->output)
		return 0;
	fd = ip_file_open_output(o->output, &ret->made);
	if (fd < 0)
		return -1;
	ret->file = fdopen(fd, "w");
	return ret->file ? 0 : ip_error_errno("cannot write %s", o->output);
}

/* Closes the file. Removes it where it is new and nothing was written. */
static void close_output(const struct options *o, struct output *output, bool written)
{
	if (output->file && output->made && !written)
		ip_file_unmake(o->output, fileno(output->file));
	if (output->file)
		fclose(output->file);
}

static int print(const struct options *o, struct output *output, struct ip_fperf *f,
		 const char *end)
{
	FILE *out = output->file ? output->file : stdout;

	if (output->file && ftruncate(fileno(out), 0) < 0 && errno != EINVAL)
		return ip_error_errno("cannot write %s", o->output);
	if (o->program && o->format == FPERF_TABLE)
		ip_print(out, "pid %d (%s)\n", o->pid, o->program);
	fperf_print(out, f, o->format, o->limit, end, o->pid);
	if (o->program && o->format == FPERF_TABLE)
		ip_print(out, "\n");
	if (fflush(out) != 0)
		return ip_error_errno("cannot write %s", o->output ? o->output : "to stdout");
	/* only the stream knows whether something could not be written before the last fflush() */
	if (ferror(out))
		return ip_error("cannot write %s: a part of it is missing",
				o->output ? o->output : "to stdout");
	return 0;
}

#define LITTLE_SAMPLES 30u /* for each function that was called: fewer tell little */
#define IDLE_SHARE     0.1 /* of the time: a process that runs for less has little to do */

/* Whether results are few for want of calls, rather than for the budget. */
static bool is_little(const struct ip_fperf_summary *sum)
{
	return sum->length_s > 0 && sum->run_s < IDLE_SHARE * sum->length_s &&
	       sum->samples < LITTLE_SAMPLES * (sum->called ? sum->called : 1);
}

/* several: the line says of which process it is. */
static void tell_summary(const struct ip_session_summary *s, struct ip_fperf *f, bool several)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);
	struct ip_fperf_summary sum;
	char process[32] = "";

	ip_fperf_summary(f, &sum);
	if (several)
		snprintf(process, sizeof(process), "pid %d: ", s->pid);
	ip_print(
		stderr,
		"fperf: %s%lu sample%s in %.2f s (%.2f s of CPU time); %zu of %zu function%s "
		"called, "
		"%zu of them have samples; it cost %.1f ms, %.2f %% (stops and page switches %.2f "
		"%%); probes changed %lu time%s, %lu of them without a stop; longest stop %.2f ms, "
		"longest gap of functions that stayed %.3f ms\n",
		process, sum.samples, ip_plural(sum.samples), sum.length_s, sum.run_s, sum.called,
		sum.functions, ip_plural(sum.functions), sum.sampled,
		1e3 * sum.overhead * sum.run_s, 100 * sum.overhead, 100 * sum.stops_share,
		sum.changes, ip_plural(sum.changes), sum.changes_without_stop,
		ip_stop_log_longest(&s->stops) / 1e6, sum.longest_gap_ns / 1e6);
	if (is_little(&sum) && !several)
		ip_print(
			stderr,
			"fperf: %sthere is little to tell: the process was on a CPU for %.1f %% of "
			"the time, and few calls were to be sampled: count for longer "
			"(--duration), "
			"or while it has work\n",
			process, sum.length_s > 0 ? 100 * sum.run_s / sum.length_s : 0.0);
	if (s->end == IP_END_EXECED)
		ip_print(stderr,
			 "fperf: pid %d has executed another program: that one is not counted "
			 "(fperf -p anew counts it, and fperf -- CMD counts whatever CMD "
			 "executes)\n",
			 s->pid);
	if (sum.changes_failed)
		ip_print(stderr,
			 "fperf: %lu change%s of probes failed, so functions kept or lacked probes "
			 "for longer than meant; the last one: %s\n",
			 sum.changes_failed, sum.changes_failed == 1 ? "" : "s",
			 sum.change_failure);
	if (sum.confined)
		ip_print(stderr, "fperf: the process has put itself under seccomp: no samples were "
				 "taken from then on, calls were counted\n");
	if (sum.left_out)
		ip_print(stderr,
			 "fperf: %lu sample%s not taken: too many others were open in their "
			 "thread, or a hook below them\n",
			 sum.left_out, sum.left_out == 1 ? " was" : "s were");
	if (sum.missing)
		ip_print(stderr,
			 "fperf: %lu value%s missing in samples: the kernel had other counters "
			 "in the PMU%s, or a descriptor had been closed\n",
			 sum.missing, sum.missing == 1 ? " is" : "s are",
			 o->multiplex ? "" : " (--multiplex takes turns and scales)");
	if (sum.scaled)
		ip_print(stderr, "fperf: %lu value%s scaled (~), since counters took turns\n",
			 sum.scaled, sum.scaled == 1 ? " is" : "s are");
	if (sum.gone)
		ip_print(stderr,
			 "fperf: the process closed descriptors of counters, or put others in "
			 "their place, %lu time%s: they were opened anew\n",
			 sum.gone, ip_plural(sum.gone));
	if (sum.refused)
		ip_print(stderr, "fperf: %u thread%s no samples, for want of a counter (%s): %s\n",
			 sum.refused, sum.refused == 1 ? " has" : "s have",
			 sum.refused_event ? sum.refused_event : "?",
			 ip_pmu_error(sum.refused_error));
}

/* Reports that no thread of the process could count the events. */
static int check_refused(struct ip_fperf *f)
{
	struct ip_fperf_summary sum;

	ip_fperf_summary(f, &sum);
	if (!sum.refused || sum.counting || sum.samples)
		return 0;
	return ip_error("%s cannot be counted in that process: %s",
			sum.refused_event ? sum.refused_event : "-e",
			ip_pmu_error(sum.refused_error));
}

/* Asks iprobed where this user may not trace the process. The profile is looked up here, with
 * the rights of this user; the options follow it and override it. Returns -1: this process is to
 * do it; else the exit code. */
static int ask_daemon(const struct options *o, int argc, char **argv)
{
	const struct ip_fperf_profile *p = o->profile;
	struct cli_via_daemon_word words[7] = {0};
	char budget[64], duration[32], interval[32];
	size_t n = 0;

	if (p && p->functions)
		words[n++] = (struct cli_via_daemon_word){"functions", p->functions};
	if (p && p->events)
		words[n++] = (struct cli_via_daemon_word){"events", p->events};
	if (p && p->duration_ns) {
		snprintf(duration, sizeof(duration), "%luns", p->duration_ns);
		words[n++] = (struct cli_via_daemon_word){"duration", duration};
	}
	if (p && p->interval_ns) {
		snprintf(interval, sizeof(interval), "%luns", o->fperf.interval_ns);
		words[n++] = (struct cli_via_daemon_word){"interval", interval};
	}
	if (p && !o->budget_given && (p->budget_percent > 0 || p->budget_samples)) {
		if (p->budget_samples)
			snprintf(budget, sizeof(budget), "%lu/s", p->budget_samples);
		else
			snprintf(budget, sizeof(budget), "%.9g%%", p->budget_percent);
		words[n++] = (struct cli_via_daemon_word){"budget", budget};
	}
	/* options may follow the PID; there is no command whose options they could be */
	return (o->program ? cli_via_daemon_print : cli_via_daemon_try)(
		IP_REQUEST_FPERF, o->pid, argc, argv, &LETTERS[1], long_options, words);
}

static int run(const struct options *o, struct output *output, char **command,
	       struct ip_session_summary *summary)
{
	struct ip_session_options session = o->session;
	struct ip_fperf *f = NULL;
	_cleanup_free_ char *base = NULL, *dir = NULL;
	struct ip_dir_place place = {.parent = -1};
	int code, status = 0, done;
	bool written;

	if (o->pid) /* before there is anything that would be left behind */
		cli_catch_signals();
	base = make_directory(&place);
	if (!base || asprintf(&dir, "%s/session", base) < 0 || ip_fperf_create(&o->fperf, &f) < 0) {
		close_output(o, output, false);
		return cli_fail();
	}
	session.dir = dir;
	session.controller = ip_fperf_controller(f);
	if (o->pid) {
		done = ip_session_attach(o->pid, &session, summary);
	} else {
		const char *runtime = cli_runtime_path();

		done = runtime ? ip_session_run(command, runtime, &session, summary, &status) : -1;
	}
	if (done == 0 && o->fperf.show)
		ip_print(stderr, "\033[J");
	written = done == 0 && check_refused(f) == 0 &&
		  print(o, output, f, ip_session_end_text(summary)) == 0;
	if (!written && o->found && summary->nothing)
		code = 1; /* it is not told of each process of a service */
	else if (!written)
		code = cli_fail();
	else
		code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	close_output(o, output, written);
	if (done == 0 && !o->quiet)
		tell_summary(summary, f, o->program);
	if (done == 0 && o->little) {
		struct ip_fperf_summary sum;

		ip_fperf_summary(f, &sum);
		*o->little = is_little(&sum);
	}
	ip_fperf_destroy(f);
	ip_dir_remove(place.parent, place.name);
	ip_dir_place_close(&place);
	return code;
}

static void tell_live(void *context)
{
	ip_service_worker_say_live(*(const int *)context, false);
}

struct service {
	struct options *options;
	int argc;
	char **argv;
};

/* Has iprobed count one of several processes, in a worker. What it prints is as of one process: its
 * name stands above it. Returns -1: this process is to do it; else the exit code. */
static int ask_daemon_for_one(const struct options *o, const struct service *s)
{
	const bool table = o->format == FPERF_TABLE;
	int socket = -1, wanted = cli_via_daemon_wanted(o->pid, &socket), code;

	if (wanted <= 0)
		return wanted < 0 ? cli_fail() : -1;
	close(socket);
	if (table)
		ip_print(stdout, "pid %d (%s)\n", o->pid, o->program);
	code = ask_daemon(o, s->argc, s->argv);
	if (table && !code)
		ip_print(stdout, "\n");
	return code;
}

/* Counts one of several processes, in a worker. */
static int work(void *context, const struct ip_service_task *task, int socket,
		struct ip_service_worker_result *result)
{
	const struct service *s = context;
	struct options o = *s->options;
	struct ip_session_summary summary = {0};
	struct output output = {0};
	int code;

	o.pid = task->pid;
	o.program = task->comm;
	o.found = !task->named;
	o.little = &result->little;
	o.session.duration_ns = task->left_ns;
	if (!o.memory_given)
		o.session.memory = ip_service_memory(o.session.memory, task->n);
	o.session.started = task->started;
	o.session.on_live = tell_live;
	o.session.context = &socket;
	code = ask_daemon_for_one(&o, s);
	if (code < 0)
		code = run(&o, &output, NULL, &summary);
	result->recorded = !code;
	result->none = summary.nothing;
	if (code)
		snprintf(result->why, sizeof(result->why), "%s", ip_error_message());
	return code;
}

static int run_service(struct options *o, struct output *output, int argc, char **argv)
{
	struct service own = {o, argc, argv};
	const struct fperf_service service = {.choice = o->choice,
					      .duration_ns = o->session.duration_ns,
					      .json = o->format == FPERF_JSON,
					      .quiet = o->quiet,
					      .out = output->file ? output->file : stdout,
					      .work = work,
					      .context = &own};
	bool written;
	int code = fperf_service_run(&service, &written);

	close_output(o, output, written);
	return code;
}

static int count(int argc, char **argv)
{
	struct ip_session_summary summary;
	struct options o;
	struct output output;
	int code = parse(argc, argv, &o);

	if (code < 0 && o.pid)
		code = ask_daemon(&o, argc, argv);
	if (code >= 0)
		return code;
	if (!o.quiet && o.pid && isatty(STDERR_FILENO))
		o.fperf.show = fperf_show_live;
	if (fperf_try(&o.fperf) < 0 || open_output(&o, &output) < 0)
		return cli_fail();
	return o.any && !o.pid ? run_service(&o, &output, argc, argv)
			       : run(&o, &output, argv + optind, &summary);
}

int main(int argc, char **argv)
{
	int code;

	cli_print_notices();
	if (ip_delegation_take() < 0)
		return cli_fail();
	ip_probes_d_serve();
	ip_fperf_events_ask(fperf_papi_find);
	if (argc < 2) {
		ip_print_lines(stderr, help);
		return 2;
	}
	/* the options of list-events and self-test are in the same help */
	if (argc == 3 && (!strcmp(argv[1], "list-events") || !strcmp(argv[1], "self-test")) &&
	    (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"))) {
		ip_print_lines(stdout, help);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		ip_print(stdout, "fperf " IP_VERSION "\n");
		return 0;
	}
	if (!strcmp(argv[1], "list-events"))
		code = fperf_list_events(argc - 1, argv + 1);
	else if (!strcmp(argv[1], "self-test"))
		code = fperf_self_test(argc - 1, argv + 1);
	else
		code = count(argc, argv);
	if (fflush(stdout) != 0 && !code) {
		ip_print(stderr, "fperf: cannot write to stdout: %s\n", strerror(errno));
		code = 1;
	}
	return code;
}
