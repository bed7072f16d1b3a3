/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe export: writes a trace for the viewers of other projects.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "analysis/export/export.h"
#include "cli/cli.h"
#include "cli/export/output_file.h"
#include "cli/filter/filter_check.h"
#include "cli/filter/filter_note.h"
#include "cli/filter_options.h"
#include "cli/trace_args.h"
#include "cli/wait/wait_export.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

static const char help[] =
	"usage: iprobe export --format FORMAT | -o FILE.SUFFIX [OPTIONS] [DIR]\n\n"
	"Writes a trace (iprobe.data) as a page to look at, or for other people's viewers.\n\n"
	"      --format FORMAT  html       one page for any browser, without a network: timeline, "
	"flame graph,\n"
	"                                  figures, histograms, heat maps\n"
	"                       chrome     every event: Perfetto's UI, chrome://tracing, Firefox "
	"Profiler, speedscope\n"
	"                       perfetto   the same in Perfetto's own format: smaller, arguments "
	"as JSON\n"
	"                       folded     own time of each way of calls: flamegraph.pl, "
	"speedscope\n"
	"                       callgrind  functions and who calls whom: KCachegrind, "
	"callgrind_annotate\n"
	"                       pprof      ways of calls, their number and own time, compressed: "
	"go tool pprof\n"
	"  -o, --output FILE    write to FILE, not to stdout; without --format its suffix tells "
	"the "
	"format: .html,\n"
	"                       .json (chrome), .pftrace, .folded, .callgrind, .pprof\n"
	"  -f, --functions SEL  these functions only; folded, callgrind, pprof, html's flame "
	"graph: ways of calls that begin at them\n"
	"      --by thread      folded, callgrind, pprof, html's flame graph: ways of calls begin "
	"at "
	"their thread\n"
	"      --by process     the same of processes, with their names\n"
	"      --tid TID        this thread only\n"
	"      --process PROC   this process only: a pid, or a name with wildcards\n"
	"      --details SIZE   html: room for short calls, one by one (default 8M; 0: only their "
	"sums)\n"
	"      --interval T     html: heat maps of latencies by intervals of T (default: 96 equal "
	"ones)\n"
	"      --idle           html, pprof, off-CPU: count the time in which threads wait for new "
	"work, too\n"
	"  -j, --jobs N         read with so many threads (default: one for each CPU)\n"
	"      --off-cpu        folded: the time off the CPU, by what was waited for, in "
	"microseconds\n"
	"                       (of a trace with events of the kernel)\n"
	"      --off-wake       the same, each with who ended the wait, and the calls that was in\n"
	"      --full-names     folded, callgrind: whole C++ names, not their short forms\n"
	"      --diff OTHER     html: the flame graph shows what has changed since the trace "
	"OTHER\n";

#define LARGE	     1000000000ull /* bytes: viewers have trouble with smaller files already */
#define KERNEL_EVENT 60u	   /* bytes that one takes, about */

#define DETAILS	    (8ull << 20)
#define DETAILS_MAX (256ull << 20) /* browsers take no text of more than 512 MiB */

typedef int (*exporter)(struct ip_trace_reader *trace, const struct ip_export_options *options,
			FILE *out);

static const struct format {
	const char *name;
	exporter run;
	unsigned event,
		/* The size of an event in the file: event bytes, and names times a function's
		 * name. 0: the file does not grow with events. */
		names;
} formats[] = {
	{"html", ip_export_html},
	{"chrome", ip_export_chrome, 72, 1},
	{"perfetto", ip_export_perfetto, 20},
	{"folded", ip_export_folded},
	{"callgrind", ip_export_callgrind},
	{"pprof", ip_export_pprof},
};

static const struct format *find_format(const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (!strcmp(name, formats[i].name))
			return &formats[i];
	return NULL;
}

/* What names of files say of the format. Not here, since several formats have them: .gz, .pb,
 * .txt, .trace. */
static const struct {
	const char *suffix, *format, *what;
} suffixes[] = {
	{".html", "html", "a page for a browser"},
	{".htm", "html", "a page for a browser"},
	{".json", "chrome", "Chrome trace format"},
	{".pftrace", "perfetto", "Perfetto's own format"},
	{".perfetto-trace", "perfetto", "Perfetto's own format"},
	{".perfetto", "perfetto", "Perfetto's own format"},
	{".folded", "folded", "folded ways of calls, for flamegraph.pl"},
	{".callgrind", "callgrind", "callgrind's format"},
	{".pprof", "pprof", "pprof's format"},
	{".pprof.gz", "pprof", "pprof's format"},
	{".pb.gz", "pprof", "pprof's format"},
};

/* Returns the format that the name of a file tells, and says so; NULL: it tells none. */
static const struct format *guess_format(const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	const size_t n = strlen(name);

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		const size_t length = strlen(suffixes[i].suffix);

		if (n <= length || strcasecmp(name + n - length, suffixes[i].suffix))
			continue;
		ip_print(stderr, "iprobe: writes %s (--format %s): %s\n", suffixes[i].what,
			 suffixes[i].format, path);
		return find_format(suffixes[i].format);
	}
	return NULL;
}

static int no_format(const char *command, const char *path)
{
	char names[256] = "";
	const size_t n = sizeof(formats) / sizeof(*formats);

	for (size_t i = 0; i < n; i++) {
		const char *before = !i ? "" : i + 1 < n ? ", " : " or ";
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", before, formats[i].name);
	}
	if (path)
		return cli_usage(command, "the name %s does not tell the format: --format %s", path,
				 names);
	return cli_usage(command, "--format is needed: %s", names);
}

struct options {
	struct cli_filter filter;
	const char *path, *other;
	const struct format *format;
	uint64_t details, interval_ns;
	bool details_given;
	bool off_cpu, off_wake, idle;
};

/* Warns of a large file before it is written. It is not known yet how many events each function
 * has: all events of the chosen thread are counted, or all of the trace. */
static void warn_of_size(const struct ip_trace_reader *trace, const struct options *o)
{
	const struct format *format = o->format;
	const struct ip_recording *s = trace->session;
	uint64_t events = 0, names = 0, size;
	char buffer[16];

	for (size_t i = 0; i < trace->nruns; i++)
		if (!trace->runs[i].off &&
		    (!o->filter.tid || trace->runs[i].tid == (uint32_t)o->filter.tid))
			events += trace->runs[i].bytes / 8;
	for (size_t i = 1; i < s->nfunctions; i++)
		names += strlen(s->functions[i].linker_name);
	names = s->nfunctions > 1 ? names / (s->nfunctions - 1) : 0;
	size = events * (format->event + format->names * names);
	if (format->run == ip_export_perfetto)
		size += s->kernel_events * KERNEL_EVENT;
	if (size > LARGE)
		ip_print(stderr,
			 "iprobe: %s: %s has every event: the file will have up to about %s, more "
			 "than most viewers open; iprobe trim takes out a part, and --format html "
			 "shows everything in some 10 MB\n",
			 trace->dir, format->name, ip_format_size(size, buffer));
}

static int write_file(struct ip_trace_reader *trace, exporter run,
		      const struct ip_export_options *options, const char *path)
{
	struct cli_output out;

	if (!path) {
		if (run(trace, options, stdout) < 0)
			return -1;
		return cli_reader_check_stdout();
	}
	return cli_output_open(path, &out) < 0
		       ? -1
		       : cli_output_close(&out, path, run(trace, options, out.file));
}

/* Opens the trace that the page compares with. Returns 0, or -1 with an error. */
static int open_other(const char *dir, const struct cli_filter *filter,
		      struct ip_export_options *options)
{
	if (cli_reader_open_functions(dir, NULL, &options->other) < 0)
		return -1;
	cli_reader_use_jobs(options->other, filter->jobs);
	options->other_selected = cli_reader_select(options->other, filter->functions);
	return options->other_selected ? 0 : -1;
}

/* Whether the format has what the kernel's events tell. */
static bool uses_waits(const struct options *o)
{
	return o->off_cpu || o->format->run == ip_export_pprof || o->format->run == ip_export_html;
}

static int show(const char *dir, const struct options *o)
{
	uint64_t unchosen = 0, unknown = 0, idle = 0;
	struct ip_export_options options = {.tid = o->filter.tid,
					    .details = o->details,
					    .interval_ns = o->interval_ns,
					    .full_names = o->filter.full_names,
					    .by_thread = o->filter.by_thread,
					    .by_process = o->filter.by_process,
					    .off_wake = o->off_wake,
					    .idle = o->idle,
					    .damage = cli_wait_export_damage,
					    .unknown = &unknown,
					    .idle_ns = &idle,
					    .unchosen = &unchosen};
	_cleanup_free_ bool *selected = NULL;
	struct ip_trace_reader *trace;
	int ret = cli_reader_open_functions(dir, o->filter.process, &trace);

	if (ret == 0) {
		cli_reader_use_jobs(trace, o->filter.jobs);
		selected = cli_filter_check(trace, &o->filter) < 0
				   ? NULL
				   : cli_reader_select(trace, o->filter.functions);
		options.selected = selected;
		if (selected)
			warn_of_size(trace, o);
		if (selected &&
		    cli_wait_export(trace, uses_waits(o), o->off_cpu, &options.waits) < 0)
			options.selected = NULL;
		ret = options.selected &&
				      (!o->other || open_other(o->other, &o->filter, &options) == 0)
			      ? write_file(trace, o->off_cpu ? ip_export_off_cpu : o->format->run,
					   &options, o->path)
			      : -1;
		if (ret == 0) {
			cli_reader_warn(trace);
			cli_reader_warn_counted(trace);
			if (!o->format->event) /* it adds calls up */
				cli_filter_note(stderr, "iprobe: ", trace->session);
			cli_filter_warn_none(trace, &o->filter, unchosen);
			cli_wait_export_unknown(o->off_cpu ? unknown : 0);
			cli_wait_export_idle(idle);
		}
		if (ret == 0 && options.other)
			cli_reader_warn(options.other);
		free((void *)options.other_selected);
		if (options.other)
			ip_trace_reader_close(options.other);
		ip_trace_waits_destroy(options.waits);
		ip_trace_reader_close(trace);
	}
	return ret < 0 ? cli_fail() : 0;
}

/* Returns what to say of formats that are asked for often, and are no formats here. */
static const char *said_of(const char *name)
{
	if (!strcasecmp(name, "ctf"))
		return "; a trace is CTF as it is: babeltrace2 and Trace "
		       "Compass open it";
	if (!strncasecmp(name, "flame", 5) || !strcasecmp(name, "svg"))
		return "; html has a flame graph, and folded is what flamegraph.pl reads";
	return "";
}

enum { OPT_OFF_CPU = 256, OPT_OFF_WAKE, OPT_IDLE, OPT_INTERVAL };

static int take(const char *command, int option, void *context)
{
	struct options *o = context;

	switch (option) {
	case 'F':
		o->format = find_format(optarg);
		if (!o->format)
			return cli_usage(command,
					 "there is no format '%s', but html, chrome, perfetto, "
					 "folded, callgrind and pprof%s",
					 optarg, said_of(optarg));
		break;
	case 'o':
		if (!*optarg)
			return cli_usage(command, "-o needs the name of a file");
		o->path = strcmp(optarg, "-") ? optarg : NULL;
		break;
	case 'D':
		o->details_given = true;
		if (ip_parse_size(optarg, &o->details) < 0)
			return cli_usage(command, "--details: %s", ip_error_message());
		if (o->details > DETAILS_MAX)
			return cli_usage(command, "--details is at most 256M: browsers take no "
						  "larger pages; iprobe trim takes out a part");
		break;
	case 'd':
		o->other = optarg;
		break;
	case OPT_INTERVAL:
		if (cli_parse_time(command, optarg, &o->interval_ns) < 0)
			return 2;
		if (!o->interval_ns)
			return cli_usage(command, "--interval needs a time above 0");
		break;
	case OPT_IDLE:
		o->idle = true;
		break;
	case OPT_OFF_WAKE:
		o->off_wake = true;
		/* fallthrough */
	case OPT_OFF_CPU:
		o->off_cpu = true;
		break;
	}
	return -1;
}

int cmd_export(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"format", required_argument, NULL, 'F'},
		{"output", required_argument, NULL, 'o'},
		CLI_FILTER_FUNCTIONS,
		CLI_FILTER_BY_THREAD_OR_PROCESS,
		CLI_FILTER_TID,
		{"details", required_argument, NULL, 'D'},
		CLI_FILTER_PROCESS,
		{"diff", required_argument, NULL, 'd'},
		{"idle", no_argument, NULL, OPT_IDLE},
		{"interval", required_argument, NULL, OPT_INTERVAL},
		{"off-cpu", no_argument, NULL, OPT_OFF_CPU},
		{"off-wake", no_argument, NULL, OPT_OFF_WAKE},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_JOBS,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"o:f:j:h", help, long_options, take};
	struct options o = {.filter = CLI_FILTER_ALL, .details = DETAILS};
	const char *dir, *by;
	int code = cli_filter_parse(argc, argv, &command, &o.filter, &o);

	if (code < 0)
		code = cli_reader_dir(argv[0], argc, argv, &dir);
	if (code >= 0)
		return code;
	by = o.filter.by_process ? "process" : "thread";
	if (!o.format && o.path)
		o.format = guess_format(o.path);
	if (!o.format)
		return no_format(argv[0], o.path);
	if (o.other && o.format->run != ip_export_html)
		return cli_usage(argv[0], "--diff goes with --format html only");
	if (o.idle && !uses_waits(&o))
		return cli_usage(
			argv[0],
			"--idle goes with --format html, pprof, and folded --off-cpu only");
	if (o.interval_ns && o.format->run != ip_export_html)
		return cli_usage(argv[0], "--interval goes with --format html only");
	if (o.details_given && o.format->run != ip_export_html)
		return cli_usage(argv[0], "--details goes with --format html only");
	if (o.off_cpu && o.format->run != ip_export_folded)
		return cli_usage(argv[0], "--off-%s goes with --format folded only",
				 o.off_wake ? "wake" : "cpu");
	if ((o.filter.by_thread || o.filter.by_process) && o.format->event)
		return cli_usage(argv[0],
				 "--by %s does not go with --format %s: there each thread has a "
				 "track of its own, below its process",
				 by, o.format->name);
	if (o.other && (o.filter.by_thread || o.filter.by_process))
		return cli_usage(argv[0],
				 "--by %s does not go with --diff: the other trace has other "
				 "threads and processes",
				 by);
	if (o.filter.by_process && o.filter.tid)
		return cli_usage(argv[0], "--tid is of one thread: not with --by process");
	if (o.other && (o.filter.tid || o.filter.process))
		return cli_usage(argv[0], "--diff does not go with --tid and --process: the other "
					  "trace has other ones");
	/* a page of megabytes, or bytes that are no text, are of no use there */
	if (!o.path && isatty(STDOUT_FILENO) && o.format->run != ip_export_folded &&
	    o.format->run != ip_export_callgrind)
		return cli_usage(argv[0], "--format %s to a terminal: name a file with -o",
				 o.format->name);
	/* where the reader of stdout has gone, this process ends without a message */
	if (!o.path)
		signal(SIGPIPE, SIG_DFL);
	return show(dir, &o);
}
