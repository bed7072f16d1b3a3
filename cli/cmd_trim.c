/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe trim and iprobe split: write a part of a trace, or all of it in parts, as traces of
 * their own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/trim/trim.h"
#include "cli/cli.h"
#include "cli/filter/filter_check.h"
#include "cli/filter_options.h"
#include "cli/trace_args.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/trace/trace_dir.h"
#include "common/units.h"

#define PARTS_MAX 10000u

static const char trim_help[] =
	"usage: iprobe trim [OPTIONS] [DIR]\n\n"
	"Writes a part of a trace (iprobe.data) as a trace of its own. Options combine.\n\n"
	"      --from T, --to T     events of this time only, since the start of the recording: "
	"1.5s, 200ms\n"
	"      --tid TID            this thread only\n"
	"      --pid PID            this process only\n"
	"      --process PROC       this process only: a pid, or a name with wildcards\n"
	"  -f, --functions SEL      these functions only\n"
	"      --depth N            calls below so many levels only\n"
	"      --size SIZE          the first SIZE bytes of what the others leave: 10M, 1G\n"
	"      --newest             with --size: the last\n"
	"  -o, --output OUT         directory to write (default DIR.trim); it must not exist\n"
	"      --json               the result as JSON on stdout\n"
	"  -h, --help\n";

static const char split_help[] =
	"usage: iprobe split (--every T | --size SIZE | --by thread|process) [OPTIONS] [DIR]\n\n"
	"Writes a trace (iprobe.data) in parts, each a trace of its own: PREFIX.1, PREFIX.2 and so "
	"on, or, by thread\n"
	"and process, PREFIX.ID.\n\n"
	"      --every T            a part for each so long\n"
	"      --size SIZE          parts of at most so many bytes, in the order of time\n"
	"      --by thread|process  a part for each\n"
	"  -o, --output PREFIX      (default DIR); a part must not exist\n"
	"      --json               the parts as JSON on stdout\n"
	"  -h, --help\n";

struct options {
	struct cli_filter filter;
	const char *output, *by; /* NULL: not given */
	uint64_t every_ns, size;
	int pid;
	bool newest, json;
};

struct parts {
	struct ip_trace_reader *trace;
	const struct options *options;
	struct ip_trim_part *parts;
	/* by part: of its thread, where parts are of one; NULL: they are not */
	const struct ip_thread_packets **threads;
	size_t n;
	size_t done; /* number of the first parts that have been written */
};

/* Removes a part: a split that failed leaves nothing. It removes only what it has made, even
 * where the name belongs to another directory now. */
static void discard(const struct ip_trim_part *part)
{
	struct ip_dir_place place;

	if (ip_dir_locate(part->dir, &place) < 0)
		return;
	if (ip_dir_is_at(place.parent, place.name, part->result.fd))
		ip_trace_dir_remove(place.parent, place.name, part->result.fd, part->dir);
	ip_dir_place_close(&place);
}

static void clear(struct parts *p, bool failed)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	for (size_t i = 0; i < p->n; i++) {
		if (failed && i < p->done)
			discard(&p->parts[i]);
		if (i < p->done)
			close(p->parts[i].result.fd);
		free(p->parts[i].dir);
	}
	free(p->parts);
	free(p->threads);
	if (why)
		ip_error("%s", why);
}

/* Return the time of a part, limited to the time of the trace. */
static uint64_t shown_from(const struct parts *p, const struct ip_trim_part *part)
{
	return part->from > p->trace->begin ? part->from : p->trace->begin;
}

static uint64_t shown_to(const struct parts *p, const struct ip_trim_part *part)
{
	return part->to <= p->trace->end ? part->to : p->trace->end;
}

static const char *thread_name(const struct parts *p, const struct ip_thread_packets *run)
{
	return ip_recording_thread_name(p->trace->session, run->member, run->tid);
}

static uint32_t shown_pid(const struct parts *p, const struct ip_thread_packets *run)
{
	return p->trace->process_list[run->process].pid;
}

static void print_json(const struct parts *p)
{
	const struct ip_recording *s = p->trace->session;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_array(&j, "parts");
	for (size_t i = 0; i < p->n; i++) {
		const struct ip_trim_part *part = &p->parts[i];

		ip_json_object(&j, NULL);
		ip_json_string(&j, "dir", part->dir);
		ip_json_uint(&j, "from_ns", ip_recording_since_start(s, shown_from(p, part)));
		ip_json_uint(&j, "to_ns", ip_recording_since_start(s, shown_to(p, part)));
		ip_json_uint(&j, "events", part->result.events);
		ip_json_uint(&j, "lost", part->result.lost);
		ip_json_uint(&j, "bytes", part->result.bytes);
		if (p->threads) {
			ip_json_uint(&j, "pid", shown_pid(p, p->threads[i]));
			ip_json_uint(&j, "tid", p->threads[i]->tid);
			ip_json_string(&j, "thread", thread_name(p, p->threads[i]));
		}
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

static void print_text(const struct parts *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct ip_trim_part *part = &p->parts[i];
		char events[32], lost[32], size[16];

		ip_print(stderr, "iprobe: %s: %s event%s, %s", part->dir,
			 ip_format_count(part->result.events, events),
			 ip_plural(part->result.events), ip_format_size(part->result.bytes, size));
		if (part->result.lost)
			ip_print(stderr, ", %s lost", ip_format_count(part->result.lost, lost));
		if (p->threads && thread_name(p, p->threads[i]))
			ip_print(stderr, " (%s)", thread_name(p, p->threads[i]));
		ip_print(stderr, "\n");
	}
}

/* Adds a part and takes dir over. */
static int add_part(struct parts *p, uint64_t from, uint64_t to, char *dir)
{
	if (!dir)
		return ip_error("out of memory");
	if (ip_array_grow(&p->parts, p->n, sizeof(*p->parts)) < 0) {
		free(dir);
		return -1;
	}
	p->parts[p->n++] = (struct ip_trim_part){.dir = dir, .from = from, .to = to};
	return 0;
}

/* Writes the parts that have been added since the last call. */
static int write_parts(struct parts *p, const struct ip_trim_options *o)
{
	size_t done;
	int ret = ip_trim_write(p->trace, o, p->parts + p->done, p->n - p->done, &done);

	p->done += done;
	return ret;
}

/* Returns DIR without the slashes at its end, followed by the formatted number. */
static char *name_behind(const char *dir, const char *format, uint64_t number)
{
	_cleanup_free_ char *behind = NULL;
	int length = strlen(dir);
	char *ret;

	while (length > 1 && dir[length - 1] == '/')
		length--;
	if (asprintf(&behind, format, number) < 0) {
		behind = NULL;
		return NULL;
	}
	return asprintf(&ret, "%.*s.%s", length, dir, behind) < 0 ? NULL : ret;
}

static int trim(struct parts *p, const char *dir)
{
	const struct options *o = p->options;
	_cleanup_free_ uint64_t *cuts = NULL;
	_cleanup_free_ bool *selected = NULL;
	struct ip_trim_options t;
	size_t n = 0;

	if (cli_filter_check(p->trace, &o->filter) < 0 ||
	    cli_filter_check_pid(p->trace, o->pid) < 0)
		return -1;
	ip_trim_all(p->trace, &t);
	t.from = ip_trim_tsc(p->trace, o->filter.from_ns);
	/* as in dump: an event that is shown with that time is in it */
	if (o->filter.to_ns < UINT64_MAX)
		t.to = ip_trim_tsc(p->trace, o->filter.to_ns + 1);
	t.tid = o->filter.tid;
	t.pid = o->pid;
	t.depth = o->filter.depth;
	if (o->filter.functions) {
		selected = cli_reader_select(p->trace, o->filter.functions);
		if (!selected)
			return -1;
		t.selected = selected;
	}
	if (o->size && ip_trim_cuts(p->trace, &t, o->size, o->newest, &cuts, &n) < 0)
		return -1;
	if (n && o->newest)
		t.from = cuts[n - 1];
	else if (n)
		t.to = cuts[0];
	if (add_part(p, t.from, t.to, o->output ? strdup(o->output) : name_behind(dir, "trim", 0)) <
	    0)
		return -1;
	return write_parts(p, &t);
}

static int split_by_time(struct parts *p, const char *prefix, const uint64_t *cuts, size_t n)
{
	struct ip_trim_options t;

	ip_trim_all(p->trace, &t);
	for (size_t i = 0; i <= n; i++)
		if (add_part(p, i ? cuts[i - 1] : 0, i < n ? cuts[i] : UINT64_MAX,
			     name_behind(prefix, "%" PRIu64, i + 1)) < 0)
			return -1;
	return write_parts(p, &t);
}

static int split_every(struct parts *p, const char *prefix)
{
	uint64_t from = ip_recording_since_start(p->trace->session, p->trace->begin);
	uint64_t length = ip_recording_since_start(p->trace->session, p->trace->end) - from;
	uint64_t n = length / p->options->every_ns;
	_cleanup_free_ uint64_t *cuts = NULL;

	if (n > PARTS_MAX)
		return ip_error("%s: that would be %" PRIu64 " parts: choose a longer time",
				p->trace->dir, n);
	cuts = calloc(n + 1, sizeof(*cuts));
	if (!cuts)
		return ip_error("out of memory");
	for (uint64_t i = 0; i < n; i++)
		cuts[i] = ip_trim_tsc(p->trace, from + (i + 1) * p->options->every_ns);
	return split_by_time(p, prefix, cuts, n);
}

static int split_by_size(struct parts *p, const char *prefix)
{
	_cleanup_free_ uint64_t *cuts = NULL;
	struct ip_trim_options t;
	size_t n;

	ip_trim_all(p->trace, &t);
	if (ip_trim_cuts(p->trace, &t, p->options->size, false, &cuts, &n) < 0)
		return -1;
	if (n > PARTS_MAX)
		return ip_error("%s: that would be %zu parts: choose larger ones", p->trace->dir,
				n + 1);
	return split_by_time(p, prefix, cuts, n);
}

/* Whether several recordings have parts of the process of run. */
static bool has_parts(const struct ip_trace_reader *trace, const struct ip_thread_packets *run)
{
	for (size_t i = 0; i < trace->nruns; i++)
		if (trace->runs[i].process == run->process && trace->runs[i].member != run->member)
			return true;
	return false;
}

/* Writes the part of one process. The trace of several processes that it may come from has a trace
 * for each of them (or for it and what it has forked): the part is a trace of one, too, unless
 * several of them have something of it. */
static int write_process(struct parts *p, struct ip_trim_options *o,
			 const struct ip_thread_packets *run)
{
	struct ip_trace_reader *trace = p->trace;
	size_t done;
	int ret;

	if (!trace->members || has_parts(trace, run))
		return write_parts(p, o);
	o->pid = trace->process_list[run->process].own;
	ret = ip_trim_write(trace->members[run->member], o, p->parts + p->done, p->n - p->done,
			    &done);
	p->done += done;
	return ret;
}

/* Returns whether threads of several processes have the number. */
static bool is_ambiguous(const struct ip_trace_reader *trace, const struct ip_thread_packets *run)
{
	for (size_t i = 0; i < trace->nruns; i++)
		if (trace->runs[i].tid == run->tid && trace->runs[i].process != run->process)
			return true;
	return false;
}

static int note_thread(struct parts *p, const struct ip_thread_packets *run)
{
	if (ip_array_grow(&p->threads, p->n, sizeof(*p->threads)) < 0)
		return -1;
	p->threads[p->n] = run;
	return 0;
}

/* Makes the parts in the order in which threads or processes appear. Several processes may have a
 * thread of one number: then the numbers of the processes tell these parts apart. */
static int split_by_id(struct parts *p, const char *prefix, bool thread)
{
	const struct ip_trace_reader *trace = p->trace;
	struct ip_trim_options t;

	ip_trim_all(trace, &t);
	for (size_t i = 0; i < trace->nruns; i++) {
		const struct ip_thread_packets *runs = trace->runs, *run = &runs[i];
		bool ambiguous;
		_cleanup_free_ char *both = NULL;
		uint32_t id = thread ? run->tid : run->pid;
		size_t k = 0;

		while (k < i && (thread ? runs[k].tid != id || runs[k].process != run->process
					: runs[k].pid != id))
			k++;
		if (k < i)
			continue;
		ambiguous = thread && is_ambiguous(trace, run);
		if (p->n == PARTS_MAX)
			return ip_error("%s: has more than %u: iprobe trim takes out single ones",
					trace->dir, PARTS_MAX);
		t.tid = thread ? id : 0;
		t.pid = thread && !ambiguous ? 0 : run->pid;
		if (ambiguous)
			both = name_behind(prefix, "%" PRIu64, shown_pid(p, run));
		if (ambiguous && !both)
			return ip_error("out of memory");
		if ((thread && note_thread(p, run) < 0) ||
		    add_part(p, t.from, t.to,
			     ambiguous ? name_behind(both, "%" PRIu64, id)
				       : name_behind(prefix, "%" PRIu64, id)) < 0 ||
		    (t.pid ? write_process(p, &t, run) : write_parts(p, &t)) < 0)
			return -1;
	}
	return 0;
}

static int split(struct parts *p, const char *dir)
{
	const struct options *o = p->options;
	const char *prefix = o->output ? o->output : dir;

	if (o->every_ns)
		return split_every(p, prefix);
	if (o->size)
		return split_by_size(p, prefix);
	return split_by_id(p, prefix, !strcmp(o->by, "thread"));
}

static bool has_events(const struct parts *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->parts[i].result.events)
			return true;
	return false;
}

/* Tells why the parts have no events. Returns 0, or -1 with an error. */
static int warn_none(const struct parts *p)
{
	uint64_t events;

	if (ip_trace_reader_count(p->trace, &events) < 0)
		return -1;
	cli_reader_warn_counted(p->trace);
	cli_filter_warn_none(p->trace, &p->options->filter, events);
	return 0;
}

static int work(const char *dir, const struct options *o,
		int (*write)(struct parts *p, const char *dir))
{
	struct parts p = {.options = o};
	int ret = cli_reader_open(dir, o->filter.process, &p.trace);
	bool failed;

	if (ret < 0)
		return cli_fail();
	ret = write(&p, dir);
	/* complete parts remain, even where printing about them fails */
	failed = ret < 0;
	if (ret == 0) {
		if (o->json)
			print_json(&p);
		else
			print_text(&p);
		ret = cli_reader_check_stdout();
		cli_reader_warn(p.trace);
	}
	if (ret == 0 && !has_events(&p))
		ret = warn_none(&p);
	clear(&p, failed);
	ip_trace_reader_close(p.trace);
	return ret < 0 ? cli_fail() : 0;
}

enum { OPT_PID = 256, OPT_SIZE, OPT_NEWEST, OPT_EVERY, OPT_BY, OPT_JSON };

static int take(const char *command, int option, void *context)
{
	struct options *o = context;

	switch (option) {
	case 'o':
		if (!*optarg)
			return cli_usage(command, "-o needs the name of a directory");
		if (!strcmp(optarg, "-"))
			return cli_usage(command, "a trace is a directory, which stdout "
						  "cannot be (./- is one of that name)");
		o->output = optarg;
		break;
	case OPT_EVERY:
		if (cli_parse_time(command, optarg, &o->every_ns) < 0)
			return 2;
		if (!o->every_ns)
			return cli_usage(command, "--every needs a time above 0");
		break;
	case OPT_PID:
		if (ip_parse_pid(optarg, &o->pid) < 0)
			return cli_usage(command, "'%s' is no process id", optarg);
		break;
	case OPT_SIZE:
		if (ip_parse_size(optarg, &o->size) < 0)
			return cli_usage(command, "%s", ip_error_message());
		if (!o->size)
			return cli_usage(command, "--size needs a size above 0");
		break;
	case OPT_BY:
		if (strcmp(optarg, "thread") && strcmp(optarg, "process"))
			return cli_usage(command, "--by thread or process, not '%s'", optarg);
		o->by = optarg;
		break;
	case OPT_NEWEST:
		o->newest = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	}
	return -1;
}

/* Parses the command line. Returns -1: go on; else the exit code. */
static int parse(int argc, char **argv, const struct cli_filter_command *command, struct options *o,
		 const char **ret_dir)
{
	int code;

	*o = (struct options){.filter = CLI_FILTER_ALL};
	code = cli_filter_parse(argc, argv, command, &o->filter, o);
	return code < 0 ? cli_reader_dir(argv[0], argc, argv, ret_dir) : code;
}

int cmd_trim(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_FILTER_FROM,
						     CLI_FILTER_TO,
						     CLI_FILTER_TID,
						     CLI_FILTER_PROCESS,
						     {"pid", required_argument, NULL, OPT_PID},
						     CLI_FILTER_FUNCTIONS,
						     CLI_FILTER_DEPTH,
						     {"size", required_argument, NULL, OPT_SIZE},
						     {"newest", no_argument, NULL, OPT_NEWEST},
						     {"output", required_argument, NULL, 'o'},
						     {"json", no_argument, NULL, OPT_JSON},
						     CLI_FILTER_HELP,
						     {0}};
	static const struct cli_filter_command command = {"f:o:h", trim_help, long_options, take};
	struct options o;
	const char *dir;
	int code = parse(argc, argv, &command, &o, &dir);

	if (code >= 0)
		return code;
	if (o.newest && !o.size)
		return cli_usage(argv[0], "--newest goes with --size");
	if (o.filter.to_ns < o.filter.from_ns)
		return cli_usage(argv[0], "--to lies before --from");
	return work(dir, &o, trim);
}

int cmd_split(int argc, char **argv)
{
	static const struct option long_options[] = {{"every", required_argument, NULL, OPT_EVERY},
						     {"size", required_argument, NULL, OPT_SIZE},
						     {"by", required_argument, NULL, OPT_BY},
						     {"output", required_argument, NULL, 'o'},
						     {"json", no_argument, NULL, OPT_JSON},
						     CLI_FILTER_HELP,
						     {0}};
	static const struct cli_filter_command command = {"o:h", split_help, long_options, take};
	struct options o;
	const char *dir;
	int code = parse(argc, argv, &command, &o, &dir);

	if (code >= 0)
		return code;
	if (!!o.every_ns + !!o.size + !!o.by != 1)
		return cli_usage(argv[0],
				 "one of --every T, --size SIZE, --by thread|process is needed");
	return work(dir, &o, split);
}
