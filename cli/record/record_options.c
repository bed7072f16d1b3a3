/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that run and attach share.
 */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args/operands.h"
#include "cli/args/processes.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/record/live_line.h"
#include "cli/record/stream_log.h"
#include "cli/record/value_words.h"
#include "cli/record/via_daemon.h"
#include "collector/hot_functions.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/print.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_segments.h"
#include "common/trace/values.h"
#include "common/units.h"
#include "hotpatcher/process/probe_list_search.h"

#define KERNEL_BUFFER_LEAST (64u << 10)
#define KERNEL_BUFFER_MOST  (1u << 30)
#define SAVE_COUNTS_LEAST   50000000ull
#define SAVE_COUNTS_MOST    60000000000ull

enum {
	OPT_DURATION = 256,
	OPT_MEMORY,
	OPT_MAX_SIZE,
	OPT_MAX_STOP,
	OPT_NO_STOP,
	OPT_STOP,
	OPT_JSON,
	OPT_DRY_RUN,
	OPT_ARGS,
	OPT_WHEN,
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
	OPT_WITHIN,
	OPT_TID,
	OPT_THREAD,
	OPT_CALLSITE,
	OPT_FOLLOW_EXEC,
	OPT_PLT,
	OPT_PAYLOAD,
	OPT_DROP_HOT,
	OPT_OVERWRITE,
	OPT_COMPRESS,
	OPT_CLOCK,
	OPT_ROTATE,
	OPT_LEAVE,
	OPT_YIELD,
	OPT_UNTIL,
	OPT_LINGER,
	OPT_SAVE_COUNTS,
	OPT_FAIL_WITH,
	OPT_KERNEL,
	OPT_KERNEL_BUFFER,
	OPT_KERNEL_FUNCTIONS,
	OPT_KERNEL_SOURCE,
	OPT_STREAM,
	OPT_STREAM_INTERVAL
};

static const struct option long_options[] = {
	{"functions", required_argument, NULL, 'f'},
	{"output", required_argument, NULL, 'o'},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"max-size", required_argument, NULL, OPT_MAX_SIZE},
	{"max-stop", required_argument, NULL, OPT_MAX_STOP},
	{"no-stop", no_argument, NULL, OPT_NO_STOP},
	{"stop", no_argument, NULL, OPT_STOP},
	{"list", required_argument, NULL, OPT_LIST},
	{"json", no_argument, NULL, OPT_JSON},
	{"dry-run", no_argument, NULL, OPT_DRY_RUN},
	{"args", optional_argument, NULL, OPT_ARGS},
	{"retval", optional_argument, NULL, OPT_RETVAL},
	{"when", required_argument, NULL, OPT_WHEN},
	{"string-limit", required_argument, NULL, OPT_STRING_LIMIT},
	{"follow-fork", no_argument, NULL, OPT_FOLLOW_FORK},
	{"resume", no_argument, NULL, OPT_RESUME},
	{"time", required_argument, NULL, OPT_TIME},
	{"depth", required_argument, NULL, OPT_DEPTH},
	{"min-duration", required_argument, NULL, OPT_MIN_DURATION},
	{"sample", required_argument, NULL, OPT_SAMPLE},
	{"start-on", required_argument, NULL, OPT_START_ON},
	{"stop-on", required_argument, NULL, OPT_STOP_ON},
	{"within", required_argument, NULL, OPT_WITHIN},
	{"tid", required_argument, NULL, OPT_TID},
	{"thread", required_argument, NULL, OPT_THREAD},
	{"callsite", no_argument, NULL, OPT_CALLSITE},
	{"follow-exec", no_argument, NULL, OPT_FOLLOW_EXEC},
	{"plt", no_argument, NULL, OPT_PLT},
	{"payload", required_argument, NULL, OPT_PAYLOAD},
	{"drop-hot", optional_argument, NULL, OPT_DROP_HOT},
	{"overwrite", no_argument, NULL, OPT_OVERWRITE},
	{"compress", no_argument, NULL, OPT_COMPRESS},
	{"clock", required_argument, NULL, OPT_CLOCK},
	{"rotate", required_argument, NULL, OPT_ROTATE},
	{"leave", no_argument, NULL, OPT_LEAVE},
	{"yield", no_argument, NULL, OPT_YIELD},
	{"until", required_argument, NULL, OPT_UNTIL},
	{"linger", required_argument, NULL, OPT_LINGER},
	{"save-counts", required_argument, NULL, OPT_SAVE_COUNTS},
	{"fail-with", required_argument, NULL, OPT_FAIL_WITH},
	{"kernel", optional_argument, NULL, OPT_KERNEL},
	{"kernel-buffer", required_argument, NULL, OPT_KERNEL_BUFFER},
	{"kernel-functions", required_argument, NULL, OPT_KERNEL_FUNCTIONS},
	{"kernel-source", required_argument, NULL, OPT_KERNEL_SOURCE},
	{"stream", required_argument, NULL, OPT_STREAM},
	{"stream-interval", required_argument, NULL, OPT_STREAM_INTERVAL},
	{"quiet", no_argument, NULL, 'q'},
	CLI_PROCESS_OPTIONS,
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int parse_value(int option, const char *text, struct ip_session_options *session)
{
	switch (option) {
	case OPT_DURATION:
		if (ip_parse_duration(text, &session->duration_ns) < 0)
			return -1;
		return session->duration_ns ? 0
					    : ip_error("--duration 0 records nothing; leave it out "
						       "to record until Ctrl-C");
	case OPT_MEMORY:
		return ip_parse_size(text, &session->memory);
	case OPT_MAX_SIZE:
		return ip_parse_size(text, &session->max_size);
	case OPT_LINGER:
		return ip_parse_duration(text, &session->linger_ns);
	case OPT_SAVE_COUNTS:
		if (ip_parse_duration(text, &session->save_counts_ns) < 0)
			return -1;
		return session->save_counts_ns >= SAVE_COUNTS_LEAST &&
				       session->save_counts_ns <= SAVE_COUNTS_MOST
			       ? 0
			       : ip_error("--save-counts %s: from 50ms to 1m", text);
	default:
		return ip_parse_duration(text, &session->max_stop_ns);
	}
}

static int parse_clock(const char *text, enum ip_clock_source *ret)
{
	static const char *const names[] = {[IP_CLOCK_AUTO] = "auto",
					    [IP_CLOCK_TSC] = "tsc",
					    [IP_CLOCK_MONOTONIC] = "monotonic"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(text, names[i])) {
			*ret = i;
			return 0;
		}
	return ip_error("--clock is auto, tsc or monotonic, not '%s'", text);
}

static int parse_fail_with(const char *text, int *ret)
{
	char *end;
	const long code = strtol(text, &end, 10);

	if (!isdigit((unsigned char)*text) || *end || code < 1 || code > 255)
		return ip_error("--fail-with %s: an exit code from 1 to 255", text);
	*ret = code;
	return 0;
}

int cli_parse_kernel_buffer(const char *text, size_t *ret)
{
	uint64_t size;

	if (ip_parse_size(text, &size) < 0)
		return -1;
	if (size < KERNEL_BUFFER_LEAST || size > KERNEL_BUFFER_MOST)
		return ip_error("--kernel-buffer %s: from 64K to 1G for each CPU", text);
	*ret = size;
	return 0;
}

/* Parses --kernel, --kernel-buffer, --kernel-functions and --kernel-source. Returns 0, or -1 with
 * an error. */
static int parse_kernel(int option, const char *text, struct ip_kernel_options *ret)
{
	if (option == OPT_KERNEL)
		return ip_kernel_choice_parse(text, &ret->groups, &ret->optional);
	if (option == OPT_KERNEL_BUFFER)
		return cli_parse_kernel_buffer(text, &ret->buffer);
	if (option == OPT_KERNEL_SOURCE)
		return ip_kernel_source_parse(text, &ret->source);
	if (!*text)
		return ip_error("--kernel-functions needs names or patterns, such as 'vfs_*'");
	ret->functions = text;
	/* by it is known when such a function did not run */
	ret->groups |= 1u << IP_KERNEL_GROUP_SCHED;
	return 0;
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

/* Parses --args and --retval, with or without FUNC(EXPRESSION, ...), and --when. Returns 0, or -1
 * with an error. */
static int parse_values(int option, int argc, char **argv, struct ip_session_options *session)
{
	static struct ip_value_requests requests; /* lives as long as the process */
	enum ip_value_request_kind kind = option == OPT_ARGS	 ? IP_REQUEST_ARGS
					  : option == OPT_RETVAL ? IP_REQUEST_RETVAL
								 : IP_REQUEST_WHEN;
	const char *text = cli_value_word(argc, argv);

	if (!text && !strcmp(argv[0], "attach") && optind < argc &&
	    ip_selection_is_name(argv[optind], strlen(argv[optind])) &&
	    !isdigit((unsigned char)*argv[optind]))
		return ip_error(
			"%s %s: of one function it is %s '%s(%s)'; of all that -f chooses "
			"%s alone, such as -f %s %s",
			ip_value_request_option(kind), argv[optind], ip_value_request_option(kind),
			argv[optind], kind == IP_REQUEST_ARGS ? "PARAMETER" : "retval",
			ip_value_request_option(kind), argv[optind], ip_value_request_option(kind));
	if (!text) {
		session->values.args |= kind == IP_REQUEST_ARGS;
		session->values.retval |= kind == IP_REQUEST_RETVAL;
		return 0;
	}
	if (ip_value_requests_add(&requests, kind, text) < 0)
		return -1;
	session->values.requests = &requests;
	session->filters.requests = &requests;
	session->own = kind == IP_REQUEST_WHEN	 ? "--when"
		       : kind == IP_REQUEST_ARGS ? "--args FUNC(...)"
						 : "--retval FUNC(...)";
	return 0;
}

/* Parses --depth and the other filters. Returns 0, or -1 with an error. */
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
	case OPT_WITHIN:
		session->own = "--within";
		return ip_filter_parse_within(text, &f->within);
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

	if (*text < '0' || *text > '9' || *end || n < 2 || n > IP_TRACE_SEGMENTS_MAX)
		return ip_error("--rotate %s: from 2 to %u pieces", text, IP_TRACE_SEGMENTS_MAX);
	session->rotate = n;
	session->own = "--rotate";
	return 0;
}

static int parse_drop_hot(const char *text, struct ip_session_options *session)
{
	char *end;
	unsigned long percent = text ? strtoul(text, &end, 10) : IP_HOT_PERCENT;

	if (text &&
	    (*text < '0' || *text > '9' || (*end && strcmp(end, "%")) || !percent || percent > 99))
		return ip_error("--drop-hot=%s: from 1 to 99 per cent", text);
	session->drop_hot = percent;
	session->own = "--drop-hot";
	return 0;
}

/* A number without a unit is in seconds, as everywhere. Where a latency is compared with it, that
 * is hardly what was meant. */
static void tell_unit(const struct ip_conditions *conditions)
{
	const struct ip_condition *c = &conditions->items[conditions->n - 1];
	char limit[16];

	if (c->bare)
		ip_notice("--until %s: the limit is %s, since it has no unit (10ms, 20us)", c->text,
			  ip_format_ns(c->limit, limit));
}

/* Whether a condition before the i-th one is for the same functions: they are named once. */
static bool named_before(const struct ip_conditions *conditions, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(conditions->items[k].functions, conditions->items[i].functions))
			return true;
	return false;
}

/* Adds the functions of conditions to those that are measured. A flight recorder has no other
 * payloads and records them all the same. */
static int measure_conditions(struct ip_session_options *session)
{
	for (size_t i = 0; i < session->until.n; i++) {
		_cleanup_free_ char *payload = NULL;

		if (named_before(&session->until, i))
			continue;
		if (asprintf(&payload, "hist:%s", session->until.items[i].functions) < 0) {
			payload = NULL;
			return ip_error("out of memory");
		}
		if (ip_payload_rules_add(&session->payloads, payload) < 0 ||
		    ip_payload_rules_call(&session->payloads, "--until",
					  session->until.items[i].text) < 0)
			return -1;
	}
	if (session->overwrite)
		ip_payload_rules_log_too(&session->payloads);
	return 0;
}

/* Returns which options contradict each other; NULL: none do. */
static const char *contradiction(const struct ip_session_options *o)
{
	if (o->filters.min_duration_ns &&
	    (o->values.args ||
	     (o->values.requests && ip_value_requests_any(o->values.requests, IP_REQUEST_ARGS))))
		return "--min-duration holds entries back, and --args records values with them: "
		       "leave one out";
	if (o->drop_hot && (o->coarse || o->overwrite || o->no_stop || o->follow_fork ||
			    o->follow_exec || o->resume || ip_filters_any(&o->filters)))
		return "--drop-hot does not go with --time coarse, --overwrite, --no-stop, "
		       "--follow-fork, --follow-exec, --resume, nor with filters";
	if (o->clock == IP_CLOCK_MONOTONIC && (o->payloads.n || o->drop_hot))
		return "--payload and --drop-hot measure durations by the TSC: --clock monotonic "
		       "does not go with them";
	if (o->kernel.buffer && !o->kernel.groups)
		return "--kernel-buffer is the room for events of --kernel: add that option";
	if (o->kernel.source && !o->kernel.groups)
		return "--kernel-source tells where events of --kernel come from: add that option";
	if (o->kernel.functions && o->kernel.source == IP_KERNEL_SOURCE_PERF)
		return "--kernel-functions records by probes of tracefs: it does not go with "
		       "--kernel-source perf";
	if (o->kernel.functions && o->resume)
		return "--kernel-functions does not go with --resume: the functions of the trace "
		       "have their numbers already";
	if (o->kernel.groups && o->coarse)
		return "--kernel does not go with --time coarse";
	if (o->rotate && o->overwrite)
		return "--overwrite keeps the newest in memory and writes it once, --rotate keeps "
		       "it on disk: one of them";
	if (o->rotate && o->max_size && o->max_size / o->rotate < IP_TRACE_PIECE_LEAST)
		return "--rotate: a piece must hold 256K: give more --max-size, or fewer pieces";
	return cli_stream_contradiction(o);
}

/* Adds functions that start or stop the recording to the selection; also those of conditions
 * that a flight recorder waits for. */
static int add_trigger(struct ip_session_options *session, const char *name)
{
	static char *all;
	struct ip_selection *selection;
	_cleanup_free_ char *text = NULL;
	char *more;

	if (!name || !session->functions)
		return 0;
	if (ip_selection_parse(session->functions, &selection) < 0) /* it may be @FILE */
		return -1;
	if (ip_selection_only_takes_away(selection) ||
	    ip_selection_is_all(selection)) { /* it means all functions already */
		ip_selection_destroy(selection);
		return 0;
	}
	text = ip_selection_text(selection);
	ip_selection_destroy(selection);
	if (!text || asprintf(&more, "%s,%s", text, name) < 0)
		return ip_error("out of memory");
	free(all);
	session->functions = all = more;
	return 0;
}

int cli_record_parse(int argc, char **argv, const char *help, bool attach,
		     struct cli_record_options *ret, int *ret_next)
{
	const char *command = argv[0], *letters = attach ? ":f:o:p:qh" : "+:f:o:p:qh";
	int option, code;
	bool payloads, stop = false;

	*ret = (struct cli_record_options){
		.attach = attach,
		.session = {.dir = "iprobe.data",
			    .memory = IP_DEFAULT_MEMORY,
			    .max_stop_ns = IP_DEFAULT_MAX_STOP,
			    .values = {.string_limit = IP_STRING_LIMIT},
			    .on_progress = isatty(STDERR_FILENO) ? cli_live_line_show : NULL},
	};
	opterr = 0;
	optind = 0;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) >= 0) {
		switch (option) {
		case 'f':
			if (cli_functions(command, optarg, &ret->session.functions))
				return 2;
			break;
		case 'o':
			if (!*optarg)
				return cli_usage(command, "-o needs the name of a directory");
			if (!strcmp(optarg, "-"))
				return cli_usage(command, "a trace is a directory, which stdout "
							  "cannot be (./- is one of that name)");
			ret->session.dir = optarg;
			ret->session.dir_given = true;
			ret->session.own = "-o";
			break;
		case 'p':
			if (!attach)
				return cli_usage(command,
						 "a process that runs already is recorded "
						 "by iprobe attach %s",
						 optarg);
			if (cli_pid_option(command, optarg))
				return 2;
			break;
		case OPT_LIST:
			if (ip_probe_list_search_add(optarg) < 0)
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
		case OPT_RETVAL:
		case OPT_WHEN:
			if (parse_values(option, argc, argv, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
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
				return cli_usage(command, "--time is precise or coarse, not '%s'",
						 optarg);
			ret->session.coarse = !strcmp(optarg, "coarse");
			ret->session.own = "--time";
			break;
		case OPT_DEPTH:
		case OPT_MIN_DURATION:
		case OPT_SAMPLE:
		case OPT_START_ON:
		case OPT_STOP_ON:
		case OPT_WITHIN:
		case OPT_TID:
		case OPT_THREAD:
		case OPT_CALLSITE:
			if (parse_filter(option, optarg, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
			break;
		case OPT_FOLLOW_EXEC: /* run does so by itself */
			ret->session.follow_exec = true;
			ret->session.own = "--follow-exec";
			break;
		case OPT_PLT:
			ret->session.plt = true;
			ret->session.own = "--plt";
			break;
		case OPT_PAYLOAD:
			if (ip_payload_rules_add(&ret->session.payloads, optarg) < 0)
				return cli_usage(command, "%s", ip_error_message());
			ret->session.own = "--payload";
			break;
		case OPT_UNTIL:
			if (ip_conditions_add(&ret->session.until, optarg) < 0)
				return cli_usage(command, "%s", ip_error_message());
			tell_unit(&ret->session.until);
			ret->session.own = "--until";
			break;
		case OPT_DROP_HOT:
			if (parse_drop_hot(optarg, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
			break;
		case OPT_OVERWRITE:
			ret->session.overwrite = true;
			ret->session.own = "--overwrite";
			break;
		case OPT_KERNEL:
		case OPT_KERNEL_BUFFER:
		case OPT_KERNEL_FUNCTIONS:
		case OPT_KERNEL_SOURCE:
			if (parse_kernel(option, optarg, &ret->session.kernel) < 0)
				return cli_usage(command, "%s", ip_error_message());
			ret->session.own = "--kernel";
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
		case OPT_STREAM:
			if (cli_stream_parse(optarg, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
			break;
		case OPT_STREAM_INTERVAL:
			if (cli_stream_parse_interval(optarg, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
			break;
		case OPT_COMPRESS:
			ret->session.compress = true;
			ret->session.own = "--compress";
			break;
		case OPT_NO_STOP:
			/* with run no thread could suffer from a stop before the first
			 * instruction */
			if (!attach)
				ip_print(stderr, "iprobe: --no-stop: a program that is just "
						 "starting is stopped all the same\n");
			ret->session.no_stop = attach;
			ret->session.own = "--no-stop";
			break;
		case OPT_STOP:
			if (!attach)
				return cli_usage(command, "--stop goes with attach");
			stop = true;
			ret->session.own = "--stop";
			break;
		case OPT_RESUME:
			if (!attach)
				return cli_usage(command, "--resume goes with attach");
			ret->session.resume = true;
			break;
		case OPT_YIELD:
			if (!attach)
				return cli_usage(command, "--yield goes with attach");
			ret->session.yields = true;
			ret->session.own = "--yield";
			break;
		case OPT_FAIL_WITH:
			if (attach)
				return cli_usage(command, "--fail-with goes with run: it tells "
							  "iprobe's failures from the command's");
			if (parse_fail_with(optarg, &ret->fail_with) < 0)
				return cli_usage(command, "%s", ip_error_message());
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
			ip_print_lines(stdout, help);
			return 0;
		case OPT_DURATION:
		case OPT_MEMORY:
		case OPT_MAX_SIZE:
		case OPT_MAX_STOP:
		case OPT_LINGER:
		case OPT_SAVE_COUNTS:
			if (parse_value(option, optarg, &ret->session) < 0)
				return cli_usage(command, "%s", ip_error_message());
			ret->memory_asked |= option == OPT_MEMORY;
			ret->session.memory_exact |= option == OPT_MEMORY;
			if (option != OPT_MAX_STOP)
				ret->session.own = option == OPT_DURATION      ? "--duration"
						   : option == OPT_MEMORY      ? "--memory"
						   : option == OPT_LINGER      ? "--linger"
						   : option == OPT_SAVE_COUNTS ? "--save-counts"
									       : "--max-size";
			break;
		default:
			code = attach ? cli_process_option(command, option, optarg) : -2;
			if (code == -2)
				return cli_bad_option(command, argc, argv, letters, long_options);
			if (code >= 0)
				return code;
			break;
		}
	}
	payloads = ret->session.payloads.n > 0;
	if (measure_conditions(&ret->session) < 0)
		return cli_usage(command, "%s", ip_error_message());
	if (ret->session.linger_ns && !ret->session.until.n)
		return cli_usage(command, "--linger tells how long to go on when a condition is "
					  "met: it needs --until");
	if (ret->session.save_counts_ns && !ip_payload_rules_matter(&ret->session.payloads))
		return cli_usage(command, "--save-counts is for what --payload count and hist "
					  "(and --until) keep: add one of them");
	if (ret->session.follow_exec && (ret->session.coarse || ret->session.payloads.n ||
					 ip_filters_any(&ret->session.filters)))
		return cli_usage(command, "--follow-exec does not go with --time coarse, "
					  "--payload, nor with filters");
	if (ip_payload_rules_matter(&ret->session.payloads) &&
	    ip_filters_any(&ret->session.filters))
		return cli_usage(command, "--payload count, hist and user do not go with filters, "
					  "nor with --callsite");
	if (ret->session.overwrite &&
	    (ret->session.coarse || payloads || ret->session.follow_exec ||
	     ip_filters_any(&ret->session.filters)))
		return cli_usage(command, "--overwrite does not go with --time coarse, --payload, "
					  "--follow-exec, nor with filters");
	if (ret->quiet)
		ret->session.on_progress = NULL;
	if (ret->session.resume &&
	    (ret->session.functions || ret->session.payloads.n || ret->dry_run ||
	     ret->session.overwrite || ret->session.compress || ret->session.rotate ||
	     ret->session.clock || ret->session.coarse || ip_filters_any(&ret->session.filters)))
		return cli_usage(
			command,
			"--resume goes on as it was begun: without -f, --payload, --overwrite, "
			"--compress, --rotate, --time, --clock, filters and --dry-run");
	if (contradiction(&ret->session))
		return cli_usage(command, "%s", contradiction(&ret->session));
	if (stop && ret->session.no_stop)
		return cli_usage(command, "--stop and --no-stop are opposites: leave one out");
	ret->session.may_switch = attach && !stop && !ret->session.no_stop;
	if (!ret->session.kernel.buffer)
		ret->session.kernel.buffer = CLI_KERNEL_BUFFER;
	if (add_trigger(&ret->session, ret->session.filters.start.name) < 0 ||
	    add_trigger(&ret->session, ret->session.filters.stop.name) < 0 ||
	    add_trigger(&ret->session, ret->session.filters.within.name) < 0)
		return cli_fail();
	for (size_t i = 0; ret->session.overwrite && i < ret->session.until.n; i++)
		if (!named_before(&ret->session.until, i) &&
		    add_trigger(&ret->session, ret->session.until.items[i].functions) < 0)
			return cli_fail();
	*ret_next = optind;
	return -1;
}

int cli_record_words(int argc, char **argv, struct ip_request *request, const char **ret_dir)
{
	return cli_via_daemon_options(argc, argv, ":f:o:p:qh", long_options, request, ret_dir);
}
