/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What run and attach have in common: options, signals, summary, the runtime's place.
 */
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/via_daemon.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/pieces.h"
#include "common/units.h"
#include "common/trace_format.h"
#include "common/values.h"
#include "hotpatcher/catalog.h"
#include "hotpatcher/hot.h"

#define STOPS_SHOWN 16

enum {
	OPT_DURATION = 256,
	OPT_MEMORY,
	OPT_MAX_SIZE,
	OPT_MAX_STOP,
	OPT_NO_STOP,
	OPT_JSON,
	OPT_DRY_RUN,
	OPT_ARGS,
	OPT_RETVAL,
	OPT_STRING_LIMIT,
	OPT_LIST,
	OPT_FOLLOW_FORK,
	OPT_RESUME,
	OPT_TIME,
	OPT_DEPTH,
	OPT_MIN_DURATION,
	OPT_SAMPLE,
	OPT_START_ON,
	OPT_STOP_ON,
	OPT_TID,
	OPT_THREAD,
	OPT_CALLSITE,
	OPT_FOLLOW_EXEC,
	OPT_PAYLOAD,
	OPT_DROP_HOT,
	OPT_OVERWRITE,
	OPT_COMPRESS,
	OPT_CLOCK,
	OPT_ROTATE,
	OPT_LEAVE
};

static const struct option long_options[] = {
	{"functions", required_argument, NULL, 'f'},
	{"output", required_argument, NULL, 'o'},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"max-size", required_argument, NULL, OPT_MAX_SIZE},
	{"max-stop", required_argument, NULL, OPT_MAX_STOP},
	{"no-stop", no_argument, NULL, OPT_NO_STOP},
	{"list", required_argument, NULL, OPT_LIST},
	{"json", no_argument, NULL, OPT_JSON},
	{"dry-run", no_argument, NULL, OPT_DRY_RUN},
	{"args", no_argument, NULL, OPT_ARGS},
	{"retval", no_argument, NULL, OPT_RETVAL},
	{"string-limit", required_argument, NULL, OPT_STRING_LIMIT},
	{"follow-fork", no_argument, NULL, OPT_FOLLOW_FORK},
	{"resume", no_argument, NULL, OPT_RESUME},
	{"time", required_argument, NULL, OPT_TIME},
	{"depth", required_argument, NULL, OPT_DEPTH},
	{"min-duration", required_argument, NULL, OPT_MIN_DURATION},
	{"sample", required_argument, NULL, OPT_SAMPLE},
	{"start-on", required_argument, NULL, OPT_START_ON},
	{"stop-on", required_argument, NULL, OPT_STOP_ON},
	{"tid", required_argument, NULL, OPT_TID},
	{"thread", required_argument, NULL, OPT_THREAD},
	{"callsite", no_argument, NULL, OPT_CALLSITE},
	{"follow-exec", no_argument, NULL, OPT_FOLLOW_EXEC},
	{"payload", required_argument, NULL, OPT_PAYLOAD},
	{"drop-hot", optional_argument, NULL, OPT_DROP_HOT},
	{"overwrite", no_argument, NULL, OPT_OVERWRITE},
	{"compress", no_argument, NULL, OPT_COMPRESS},
	{"clock", required_argument, NULL, OPT_CLOCK},
	{"rotate", required_argument, NULL, OPT_ROTATE},
	{"leave", no_argument, NULL, OPT_LEAVE},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

int cli_bad_option(const char *command, int argc, char **argv)
{
	const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "?";

	if (optopt && optopt < 256)
		return cli_usage(command, "option -%c is unknown or lacks its value", optopt);
	return cli_usage(command, "option %s is unknown, ambiguous, or wrong in its value", word);
}

static int parse_value(int option, const char *text, struct ip_session_options *session)
{
	switch (option) {
	case OPT_DURATION:
		if (ip_parse_duration(text, &session->duration_ns) < 0)
			return -1;
		return session->duration_ns
			       ? 0
			       : ip_error(
					 "--duration 0 records nothing; leave it out to record until Ctrl-C");
	case OPT_MEMORY:
		return ip_parse_size(text, &session->memory);
	case OPT_MAX_SIZE:
		return ip_parse_size(text, &session->max_size);
	default:
		return ip_parse_duration(text, &session->max_stop_ns);
	}
}

static int parse_clock(const char *text, enum ip_clock_source *ret)
{
	static const char *const names[] = {[IP_CLOCK_AUTO] = "auto", [IP_CLOCK_TSC] = "tsc", [IP_CLOCK_MONOTONIC] = "monotonic"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(text, names[i])) {
			*ret = i;
			return 0;
		}
	return ip_error("--clock is auto, tsc or monotonic, not '%s'", text);
}

static int parse_string_limit(const char *text, unsigned *ret)
{
	uint64_t bytes;

	if (ip_parse_size(text, &bytes) < 0)
		return -1;
	if (!bytes || bytes > IP_STRING_LIMIT_MAX)
		return ip_error("--string-limit %s: from 1 to %u bytes", text, IP_STRING_LIMIT_MAX);
	*ret = bytes;
	return 0;
}

/* --depth and the like. 0; -1 with an error. */
static int parse_filter(int option, const char *text, struct ip_session_options *session)
{
	struct ip_filter_options *f = &session->filters;
	uint64_t n;

	switch (option) {
	case OPT_DEPTH:
		session->own = "--depth";
		if (ip_parse_size(text, &n) < 0 || !n || n > 512)
			return ip_error("--depth %s: a number of frames from 1 to 512", text);
		f->depth = n;
		return 0;
	case OPT_MIN_DURATION:
		session->own = "--min-duration";
		return ip_parse_duration(text, &f->min_duration_ns);
	case OPT_SAMPLE:
		session->own = "--sample";
		return ip_filter_parse_sample(f, text);
	case OPT_START_ON:
		session->own = "--start-on";
		return ip_filter_parse_trigger(text, &f->start);
	case OPT_STOP_ON:
		session->own = "--stop-on";
		return ip_filter_parse_trigger(text, &f->stop);
	case OPT_TID:
		session->own = "--tid";
		f->tids = text;
		return ip_filter_check_tids(text);
	case OPT_THREAD:
		session->own = "--thread";
		f->names = text;
		return *text ? 0 : ip_error("--thread needs a glob of names");
	default:
		session->own = "--callsite";
		f->callsite = true;
		return 0;
	}
}

static int parse_rotate(const char *text, struct ip_session_options *session)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n < 2 || n > IP_PIECES_MAX)
		return ip_error("--rotate %s: from 2 to %u pieces", text, IP_PIECES_MAX);
	session->rotate = n;
	session->own = "--rotate";
	return 0;
}

static int parse_drop_hot(const char *text, struct ip_session_options *session)
{
	char *end;
	unsigned long percent = text ? strtoul(text, &end, 10) : IP_HOT_PERCENT;

	if (text && (*text < '0' || *text > '9' || (*end && strcmp(end, "%")) || !percent || percent > 99))
		return ip_error("--drop-hot=%s: from 1 to 99 per cent", text);
	session->drop_hot = percent;
	session->own = "--drop-hot";
	return 0;
}

/* What cannot be had together; NULL: all can. */
static const char *contradiction(const struct ip_session_options *o)
{
	if (o->filters.min_duration_ns && o->values.args)
		return "--min-duration holds entries back, and --args records values with them: leave one out";
	if (o->drop_hot && (o->coarse || o->overwrite || o->no_stop || o->follow_fork || o->follow_exec || o->resume ||
			    ip_filters_any(&o->filters)))
		return "--drop-hot does not go with --time coarse, --overwrite, --no-stop, --follow-fork, --follow-exec, --resume, nor "
		       "with filters";
	if (o->clock == IP_CLOCK_MONOTONIC && (o->payloads.n || o->drop_hot))
		return "--payload and --drop-hot measure durations by the TSC: --clock monotonic does not go with them";
	if (o->rotate && o->overwrite)
		return "--overwrite keeps the newest in memory and writes it once, --rotate keeps it on disk: one of them";
	if (o->rotate && o->max_size && o->max_size / o->rotate < IP_TRACE_PIECE_LEAST)
		return "--rotate: a piece must hold 256K: give more --max-size, or fewer pieces";
	return NULL;
}

/* Functions that start or stop the recording are selected, too. */
static int add_trigger(struct ip_session_options *session, const char *name)
{
	static char *texts[2];
	static unsigned n;
	struct ip_selection *selection;
	_cleanup_free_ char *text = NULL;

	if (!name || !session->functions)
		return 0;
	if (ip_selection_parse(session->functions, &selection) < 0) /* it may be @FILE */
		return -1;
	if (ip_selection_only_takes_away(selection) || ip_selection_is_all(selection)) { /* it starts from everything */
		ip_selection_destroy(selection);
		return 0;
	}
	text = ip_selection_text(selection);
	ip_selection_destroy(selection);
	if (!text || asprintf(&texts[n], "%s,%s", text, name) < 0)
		return ip_error("out of memory");
	session->functions = texts[n++];
	return 0;
}

int cli_record_parse(int argc, char **argv, const char *help, bool attach, struct cli_record_options *ret,
		     int *ret_next)
{
	const char *command = argv[0];
	int option;

	*ret = (struct cli_record_options){
		.session = {.dir = "iprobe.data",
			    .memory = IP_DEFAULT_MEMORY,
			    .max_stop_ns = IP_DEFAULT_MAX_STOP,
			    .values = {.string_limit = IP_STRING_LIMIT},
			    .live_line = isatty(STDERR_FILENO)},
	};
	opterr = 0;
	optind = 0;
	while ((option = getopt_long(argc, argv, attach ? ":f:o:qh" : "+:f:o:qh", long_options, NULL)) >= 0) {
		switch (option) {
		case 'f':
			if (cli_functions(command, optarg, &ret->session.functions))
				return 2;
			break;
		case 'o':
			if (!*optarg)
				return cli_usage(command, "-o needs the name of a directory");
			ret->session.dir = optarg;
			ret->session.own = "-o";
			break;
		case OPT_LIST:
			if (ip_catalog_add(optarg) < 0)
				return cli_fail();
			ret->session.own = "--list";
			break;
		case OPT_JSON:
			ret->json = true;
			break;
		case 'q':
			ret->quiet = true;
			break;
		case OPT_ARGS:
			ret->session.values.args = true;
			break;
		case OPT_RETVAL:
			ret->session.values.retval = true;
			break;
		case OPT_STRING_LIMIT:
			if (parse_string_limit(optarg, &ret->session.values.string_limit) < 0)
				return cli_usage(command, "%s", ip_error_message());
			break;
		case OPT_FOLLOW_FORK:
			ret->session.follow_fork = true;
			ret->session.own = "--follow-fork";
			break;
		case OPT_TIME:
			if (strcmp(optarg, "precise") && strcmp(optarg, "coarse"))
				return cli_usage(command, "--time is precise or coarse, not '%s'", optarg);
			ret->session.coarse = !strcmp(optarg, "coarse");
			ret->session.own = "--time";
			break;
		case OPT_DEPTH:
		case OPT_MIN_DURATION:
		case OPT_SAMPLE:
		case OPT_START_ON:
		case OPT_STOP_ON:
		case OPT_TID:
		case OPT_THREAD:
		case OPT_CALLSITE:
			if (parse_filter(option, optarg, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
			break;
		case OPT_FOLLOW_EXEC: /* run: it does so by itself */
			ret->session.follow_exec = true;
			ret->session.own = "--follow-exec";
			break;
		case OPT_PAYLOAD:
			if (ip_payload_rules_add(&ret->session.payloads, optarg) < 0)
				return cli_usage(command, "%s", ip_error_message());
			ret->session.own = "--payload";
			break;
		case OPT_DROP_HOT:
			if (parse_drop_hot(optarg, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
			break;
		case OPT_OVERWRITE:
			ret->session.overwrite = true;
			ret->session.own = "--overwrite";
			break;
		case OPT_CLOCK:
			if (parse_clock(optarg, &ret->session.clock) < 0)
				return cli_usage(command, "%s", ip_error_message());
			ret->session.own = "--clock";
			break;
		case OPT_ROTATE:
			if (parse_rotate(optarg, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
			break;
		case OPT_COMPRESS:
			ret->session.compress = true;
			ret->session.own = "--compress";
			break;
		case OPT_NO_STOP:
			if (!attach) /* run: before its first instruction there is nobody whom a stop could hurt */
				fputs("iprobe: --no-stop: a program that is just starting is stopped all the "
				      "same\n",
				      stderr);
			ret->session.no_stop = attach;
			ret->session.own = "--no-stop";
			break;
		case OPT_RESUME:
			if (!attach)
				return cli_usage(command, "--resume goes with attach");
			ret->session.resume = true;
			break;
		case OPT_LEAVE:
			if (!attach)
				return cli_usage(command, "--leave goes with attach");
			ret->leave = true;
			break;
		case OPT_DRY_RUN:
			if (!attach)
				return cli_usage(command, "--dry-run goes with attach");
			ret->dry_run = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		case OPT_DURATION:
		case OPT_MEMORY:
		case OPT_MAX_SIZE:
		case OPT_MAX_STOP:
			if (parse_value(option, optarg, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
			if (option != OPT_MAX_STOP)
				ret->session.own = option == OPT_DURATION ? "--duration"
						   : option == OPT_MEMORY ? "--memory"
									  : "--max-size";
			break;
		default:
			return cli_bad_option(command, argc, argv);
		}
	}
	if (ret->session.follow_exec &&
	    (ret->session.coarse || ret->session.payloads.n || ip_filters_any(&ret->session.filters)))
		return cli_usage(command, "--follow-exec does not go with --time coarse, --payload, nor with filters");
	if (ip_payload_rules_matter(&ret->session.payloads) && ip_filters_any(&ret->session.filters))
		return cli_usage(command, "--payload count, hist and user do not go with filters, nor with --callsite");
	if (ret->session.overwrite &&
	    (ret->session.coarse || ret->session.payloads.n || ret->session.follow_exec || ip_filters_any(&ret->session.filters)))
		return cli_usage(command, "--overwrite does not go with --time coarse, --payload, --follow-exec, nor with filters");
	if (ret->quiet)
		ret->session.live_line = false;
	if (ret->session.resume &&
	    (ret->session.functions || ret->session.payloads.n || ret->dry_run || ret->session.overwrite || ret->session.compress || ret->session.rotate || ret->session.clock || ret->session.coarse ||
	     ip_filters_any(&ret->session.filters)))
		return cli_usage(command, "--resume goes on as it was begun: without -f, --payload, --overwrite, --compress, --rotate, --time, --clock, filters and --dry-run");
	if (contradiction(&ret->session))
		return cli_usage(command, "%s", contradiction(&ret->session));
	if (add_trigger(&ret->session, ret->session.filters.start.name) < 0 ||
	    add_trigger(&ret->session, ret->session.filters.stop.name) < 0)
		return cli_fail();
	*ret_next = optind;
	return -1;
}

int cli_record_words(int argc, char **argv, struct ip_request *request, const char **ret_dir)
{
	return cli_via_daemon_options(argc, argv, ":f:o:qh", long_options, request, ret_dir);
}

static void on_signal(int signal_number)
{
	ip_session_interrupted = signal_number;
}

void cli_catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	/* what would end us with sites live */
	sigaction(SIGQUIT, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	sigaction(SIGXCPU, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* memfds count as files */
}

void cli_print_stops(FILE *out, const struct ip_stop_record *stops, size_t n, size_t more, uint64_t more_ns)
{
	size_t shown = n + more > STOPS_SHOWN ? STOPS_SHOWN : n;
	char length[16];

	for (size_t i = 0; i < shown; i++)
		fprintf(out, "%s %s", i ? "," : "", ip_format_ns(stops[i].ns, length));
	for (size_t i = shown; i < n; i++)
		more_ns = stops[i].ns > more_ns ? stops[i].ns : more_ns;
	if (n + more > shown)
		fprintf(out, " and %zu times more, at most %s", n + more - shown,
			ip_format_ns(more_ns, length));
}

static void print_json(const struct cli_record_options *options, const struct ip_session_summary *s)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_int(&j, "pid", s->pid);
	ip_json_uint(&j, "sites", s->sites);
	ip_json_uint(&j, "functions", s->functions);
	ip_json_uint(&j, "threads", s->threads);
	ip_json_uint(&j, "pages", s->pages);
	ip_json_uint(&j, "foreign", s->foreign);
	ip_json_uint(&j, "disturbed", s->disturbed);
	if (options->session.no_stop)
		ip_json_uint(&j, "unswitched", s->unswitched);
	ip_json_array(&j, "stop_us");
	for (size_t i = 0; i < s->nstops; i++)
		ip_json_double(&j, NULL, s->stops[i].ns / 1e3);
	ip_json_end_array(&j);
	ip_json_uint(&j, "more_stops", s->more_stops);
	ip_json_double(&j, "more_stops_max_us", s->more_ns / 1e3);
	ip_json_array(&j, "stops");
	for (size_t i = 0; i < s->nstops; i++) {
		ip_json_object(&j, NULL);
		ip_json_double(&j, "stop_us", s->stops[i].ns / 1e3);
		ip_json_double(&j, "running_us", s->stops[i].running_ns / 1e3);
		ip_json_uint(&j, "threads", s->stops[i].threads);
		ip_json_uint(&j, "pages", s->stops[i].pages);
		ip_json_uint(&j, "sites", s->stops[i].sites);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_uint(&j, "renewed_calls", s->renewed);
	ip_json_uint(&j, "events", s->events);
	ip_json_uint(&j, "lost", s->lost);
	ip_json_uint(&j, "filtered", s->filtered);
	if (s->counting)
		ip_json_uint(&j, "counted", s->calls);
	if (options->session.drop_hot)
		ip_json_uint(&j, "dropped", s->dropped);
	if (options->session.overwrite)
		ip_json_uint(&j, "overwritten", s->overwritten);
	if (s->rotates) {
		ip_json_uint(&j, "rotated", s->rotated.events);
		ip_json_uint(&j, "rotated_pieces", s->rotated.pieces);
		ip_json_uint(&j, "rotated_packets", s->rotated.packets);
		ip_json_uint(&j, "rotated_bytes", s->rotated.bytes);
		ip_json_uint(&j, "kept_from_ns", s->kept_from_ns);
	}
	ip_json_uint(&j, "bytes", s->written);
	if (options->session.compress)
		ip_json_uint(&j, "uncompressed_packets", s->plain);
	ip_json_string(&j, "dir", options->session.dir);
	ip_json_uint(&j, "processes", s->processes);
	ip_json_uint(&j, "children_restored", s->children_restored);
	if (options->session.follow_exec) {
		ip_json_uint(&j, "execs", s->execs);
		ip_json_double(&j, "exec_gap_us", s->exec_gap_ns / 1e3);
	}
	ip_json_uint(&j, "duration_ns", s->length_ns);
	ip_json_string(&j, "end", s->end);
	if (options->session.values.args || options->session.values.retval) {
		ip_json_uint(&j, "without_values",
			     s->value_gaps.no_debug_info + s->value_gaps.other_placement +
				     s->value_gaps.too_many);
		ip_json_bool(&j, "strings_read", !s->value_gaps.no_reading);
	}
	ip_json_end_object(&j);
}

static void print_value_gaps(const struct ip_value_gaps *gaps)
{
	if (gaps->no_debug_info)
		fprintf(stderr,
			"iprobe: %zu functions recorded without values: no debug information tells of them "
			"(build with -g, or "
			"install it)\n",
			gaps->no_debug_info);
	if (gaps->other_placement)
		fprintf(stderr,
			"iprobe: %zu functions or scopes recorded without values: only placement fentry has "
			"them\n",
			gaps->other_placement);
	if (gaps->too_many)
		fprintf(stderr,
			"iprobe: %zu functions and results recorded without values: there are too many "
			"(select fewer)\n",
			gaps->too_many);
	if (gaps->no_reading)
		fputs("iprobe: strings were not read: the process is under seccomp, or may be soon "
		      "(libseccomp), and might be ended for that\n",
		      stderr);
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

void cli_record_summary(const struct cli_record_options *options, const struct ip_session_summary *s)
{
	char counted[32], events[32], lost[32], filtered[32], overwritten[64] = "", count[32], sites[32], functions[32], length[16];

	if (!s->recorded)
		return;
	if (s->left_out)
		fprintf(stderr,
			"iprobe: %zu sites cross a page in a way that cannot be patched safely: left out\n",
			s->left_out);
	if (s->renewed)
		fprintf(stderr,
			"iprobe: %zu system call%s of the process waited for longer: the time limit began "
			"anew after a stop (last: %s)\n",
			s->renewed, plural(s->renewed), s->renewed_last);
	if (s->disturbed)
		fprintf(stderr,
			"iprobe: calls of %zu function%s are missing for a while, since somebody else "
			"changed live sites: iprobe "
			"report says when\n",
			s->disturbed, s->disturbed == 1 ? "" : "s");
	if (s->unswitched)
		fprintf(stderr, "iprobe: %zu sites stay idle, since --no-stop cannot switch them (%s)\n",
			s->unswitched, s->unswitched_why);
	print_value_gaps(&s->value_gaps);
	if (s->invalid)
		fprintf(stderr, "iprobe: pid %d scribbled over its rings: %lu words were no records\n",
			s->pid, s->invalid);
	if (s->end && !strcmp(s->end, IP_END_SIZE_LIMIT))
		fprintf(stderr,
			"iprobe: recording stopped at the size limit (--max-size); %s events recorded until "
			"then were "
			"dropped\n",
			ip_format_count(s->lost, lost));
	else if (s->end && !strcmp(s->end, IP_END_NO_SPACE))
		fprintf(stderr,
			"iprobe: recording stopped: there is no space left for %s; %s events recorded until then were "
			"dropped\n",
			options->session.dir, ip_format_count(s->lost, lost));
	else if (s->lost)
		fprintf(stderr,
			"iprobe: %s events lost (the rings were full: select fewer functions, or give more "
			"--memory)\n",
			ip_format_count(s->lost, lost));
	if (s->plain)
		fprintf(stderr, "iprobe: %s packet%s left uncompressed: compressing fell behind\n", ip_format_count(s->plain, count),
			plural(s->plain));
	if (options->json) {
		print_json(options, s);
		return;
	}
	if (options->quiet)
		return;
	if (s->children_restored)
		fprintf(stderr,
			"iprobe: %zu forked process%s got the NOPs back (--follow-fork records them)\n",
			s->children_restored, s->children_restored == 1 ? "" : "es");
	if (ip_filters_any(&options->session.filters))
		fprintf(stderr, "iprobe: %s event%s filtered\n", ip_format_count(s->filtered, filtered), plural(s->filtered));
	if (options->session.payloads.object && !s->change.done)
		fprintf(stderr, "iprobe: what the payload has counted is in %s/" IP_TRACE_PAYLOAD "\n", options->session.dir);
	if (s->dropped)
		fprintf(stderr, "iprobe: %zu function%s dropped (--drop-hot): %s\n", s->dropped, plural(s->dropped),
			s->dropped_names ? s->dropped_names : "");
	if (s->counting && (s->calls || !options->session.payloads.object))
		fprintf(stderr, "iprobe: %s call%s counted\n", ip_format_count(s->calls, counted), plural(s->calls));
	if (options->session.overwrite)
		snprintf(overwritten, sizeof(overwritten), ", %s before them overwritten",
			 ip_format_count(s->overwritten, count));
	if (s->rotates)
		snprintf(overwritten, sizeof(overwritten), ", %s before them rotated away", ip_format_count(s->rotated.events, count));
	fprintf(stderr, "iprobe: %s event%s of %s function%s (%s site%s, %zu thread%s) in %s%s, %s lost; %s",
		ip_format_count(s->events, events), plural(s->events),
		ip_format_count(s->functions, functions), plural(s->functions),
		ip_format_count(s->sites, sites), plural(s->sites), s->threads, plural(s->threads),
		ip_format_ns(s->length_ns, length), overwritten, s->lost ? ip_format_count(s->lost, lost) : "none",
		options->session.no_stop ? "never stopped; one thread held for" : "stopped for");
	cli_print_stops(stderr, s->stops, s->nstops, s->more_stops, s->more_ns);
	fprintf(stderr, "; trace in %s\n", options->session.dir);
}

const char *cli_runtime_path(void)
{
	static char path[PATH_MAX + 64];
	static const char *const places[] = {"../runtime/libiprobe-rt.so", IP_RT_FROM_BIN "/libiprobe-rt.so"};
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n > 0) {
		exe[n] = '\0';
		*strrchr(exe, '/') = '\0';
		for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
			char candidate[2 * PATH_MAX];

			snprintf(candidate, sizeof(candidate), "%s/%s", exe, places[i]);
			if (access(candidate, R_OK) == 0 && realpath(candidate, path))
				return path;
		}
	}
	ip_error("libiprobe-rt.so is neither in %s nor in a build folder beside iprobe: install iprobe whole",
		 IP_RT_FROM_BIN);
	return NULL;
}
