/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe last: the last calls in a live log, and how much may be missing behind them.
 */
#include <ctype.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/names.h"
#include "analysis/stream_log/last_calls.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define CALLS	  10u /* of each thread, if the user does not say how many */
#define OPEN_MOST 40u /* innermost open calls that text shows */
#define INDENT	  40u /* deeper calls are not indented further */

static const char help[] =
	"usage: iprobe last [OPTIONS] FILE\n\n"
	"Shows the last calls of each thread in a live log, which iprobe run and attach write with "
	"their stream option: first\n"
	"the calls that were open when the log broke off, then those that had ended before; and "
	"what "
	"may be missing. The log\n"
	"may end at any byte. FILE is a file, or the block device that the log was written to.\n\n"
	"  -n, --calls N         calls that had ended, of each thread (default 10, at most 10000)\n"
	"      --full-names      names of functions in full\n"
	"      --json            the same as JSON\n"
	"  -h, --help\n";

struct shown {
	const char *path;
	struct ip_last_calls last;
	struct ip_names *names;
};

static uint64_t since(const struct shown *s, uint64_t tsc)
{
	return ip_recording_since_start(s->last.session, tsc);
}

/* How long a call has been open, at least. */
static uint64_t open_ns(const struct shown *s, const struct ip_last_call *call)
{
	const uint64_t complete = s->last.complete;

	return complete > call->start ? ip_recording_ns(s->last.session, complete - call->start)
				      : 0;
}

static const char *name_of(const struct shown *s, const struct ip_last_thread *thread)
{
	return ip_recording_thread_name_at(s->last.session, 0, thread->tid,
					   s->last.complete ? s->last.complete : thread->newest);
}

static void json_function(struct ip_json *j, const struct shown *s, uint32_t function)
{
	const struct ip_recording *session = s->last.session;
	const struct ip_recording_function *f = &session->functions[function];

	ip_json_string(j, "function", ip_names_get(s->names, function));
	ip_json_string(j, "module", ip_recording_module_name(session, f));
	ip_json_string(j, "linker_name", f->linker_name);
}

static const char *end_of(const struct ip_last_call *call)
{
	return call->how == IP_END_EXIT	     ? "exit"
	       : call->how == IP_END_UNWOUND ? "unwound"
	       : call->how == IP_END_UNKNOWN ? "unknown"
					     : "unfinished";
}

static void json_thread(struct ip_json *j, const struct shown *s,
			const struct ip_last_thread *thread)
{
	ip_json_object(j, NULL);
	ip_json_uint(j, "pid", thread->pid);
	ip_json_uint(j, "tid", thread->tid);
	ip_json_string(j, "thread", name_of(s, thread));
	ip_json_bool(j, "ended", thread->ended);
	ip_json_uint(j, "records", thread->records);
	if (thread->newest)
		ip_json_uint(j, "newest_ns", since(s, thread->newest));
	ip_json_uint(j, "behind_words", thread->behind);
	ip_json_array(j, "open");
	for (size_t i = 0; i < thread->nopen; i++) {
		const struct ip_last_call *call = &thread->open[i];

		ip_json_object(j, NULL);
		json_function(j, s, call->function);
		ip_json_uint(j, "start_ns", since(s, call->start));
		ip_json_uint(j, "open_ns", open_ns(s, call));
		if (call->flags & IP_FRAME_EARLIER)
			ip_json_bool(j, "earlier", true);
		if (call->flags & IP_FRAME_SUSPECT)
			ip_json_bool(j, "unsure", true);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_array(j, "calls");
	for (size_t i = 0; i < thread->ncalls; i++) {
		const struct ip_last_call *call = &thread->calls[i];

		ip_json_object(j, NULL);
		json_function(j, s, call->function);
		ip_json_uint(j, "depth", call->depth);
		ip_json_uint(j, "start_ns", since(s, call->start));
		ip_json_uint(j, "duration_ns",
			     ip_recording_ns(s->last.session, call->end - call->start));
		ip_json_string(j, "end", end_of(call));
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_end_object(j);
}

static void print_json(const struct shown *s)
{
	const struct ip_last_calls *last = &s->last;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_string(&j, "file", s->path);
	ip_json_uint(&j, "pid", last->session->pid);
	ip_json_string(&j, "command", last->session->command);
	ip_json_string(&j, "host", last->session->host);
	ip_json_string(&j, "end", last->session->end);
	ip_json_uint(&j, "complete_ns", since(s, last->complete));
	ip_json_uint(&j, "complete_tsc", last->complete);
	ip_json_uint(&j, "interval_ns", last->interval_ns);
	ip_json_uint(&j, "longest_gap_ns", ip_recording_ns(last->session, last->longest_ticks));
	ip_json_uint(&j, "records", last->records);
	ip_json_uint(&j, "dropped", last->dropped);
	ip_json_uint(&j, "unsorted", last->unsorted);
	ip_json_uint(&j, "lost", last->lost);
	ip_json_uint(&j, "late", last->late);
	ip_json_uint(&j, "unnamed_records", last->unnamed);
	ip_json_uint(&j, "unread_threads", last->unread);
	ip_json_uint(&j, "batches", last->batches);
	ip_json_uint(&j, "missing_batches", last->missing);
	ip_json_uint(&j, "damaged_bytes", last->damaged);
	ip_json_uint(&j, "tail_bytes", last->tail);
	ip_json_array(&j, "threads");
	for (size_t i = 0; i < last->nthreads; i++)
		json_thread(&j, s, &last->threads[i]);
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

/* What the last end mark says. */
static void print_end(const struct shown *s)
{
	const struct ip_last_calls *last = &s->last;
	const uint64_t complete = since(s, last->complete), slow = last->dropped - last->unsorted;
	char interval[16], gap[16], n[32];

	ip_print(stdout, "%s: ", s->path);
	ip_print(stdout, "pid %" PRIu64 " (%s)", last->session->pid,
		 last->session->command ? last->session->command : "?");
	if (last->session->end)
		ip_print(stdout, ", to the end of the recording: %s\n", last->session->end);
	else
		ip_print(stdout, ": the log breaks off\n");
	ip_print(stdout, "  all events before %" PRIu64 ".%09" PRIu64 " s are in it",
		 complete / 1000000000, complete % 1000000000);
	if (last->session->end)
		ip_print(stdout, "\n");
	else
		ip_print(stdout,
			 ", later ones may be missing\n"
			 "  it was written at least every %s (longest gap: %s)\n",
			 ip_format_ns(last->interval_ns, interval),
			 ip_format_ns(ip_recording_ns(last->session, last->longest_ticks), gap));
	if (slow)
		ip_print(stdout,
			 "  but for %s record%s that found no room on their way to it: it was not "
			 "taken fast enough\n",
			 ip_format_count(slow, n), ip_plural(slow));
	if (last->unsorted)
		ip_print(stdout, "  but for %s record%s that found no room to be put in order\n",
			 ip_format_count(last->unsorted, n), ip_plural(last->unsorted));
	if (last->lost)
		ip_print(stdout, "  but for %s event%s that found no room in the rings\n",
			 ip_format_count(last->lost, n), ip_plural(last->lost));
	if (last->unnamed)
		ip_print(stdout, "  but for %s record%s of threads that the log does not name\n",
			 ip_format_count(last->unnamed, n), ip_plural(last->unnamed));
	if (last->unread)
		ip_print(stdout, "  but for %s thread%s: there are too many to show\n",
			 ip_format_count(last->unread, n), ip_plural(last->unread));
	if (last->missing)
		ip_print(stdout, "  but for %s batch%s that are missing in it\n",
			 ip_format_count(last->missing, n), last->missing == 1 ? "" : "es");
	if (last->damaged)
		ip_print(stdout, "  %s bytes within it are damaged\n",
			 ip_format_count(last->damaged, n));
	if (last->tail)
		ip_print(stdout, "  %s bytes at its end are no whole batch\n",
			 ip_format_count(last->tail, n));
}

static void print_open(const struct shown *s, const struct ip_last_thread *thread)
{
	const size_t hidden = thread->nopen > OPEN_MOST ? thread->nopen - OPEN_MOST : 0;

	if (hidden)
		ip_print(stdout, "  open   %zu outer call%s\n", hidden, ip_plural(hidden));
	for (size_t i = hidden; i < thread->nopen; i++) {
		const struct ip_last_call *call = &thread->open[i];
		const size_t depth = i - hidden;
		char length[16];

		ip_print(stdout, "  open   %s%-10s %*s%s%s%s\n",
			 call->flags & IP_FRAME_EARLIER ? ">=" : "  ",
			 ip_format_ns(open_ns(s, call), length),
			 (int)(2 * (depth < INDENT ? depth : INDENT)), "",
			 ip_names_text(s->names, call->function),
			 call->flags & IP_FRAME_EARLIER ? "  (since before the recording)" : "",
			 call->flags & IP_FRAME_SUSPECT ? "  (events are missing since)" : "");
	}
}

static void print_calls(const struct shown *s, const struct ip_last_thread *thread)
{
	for (size_t i = thread->ncalls; i-- > 0;) {
		const struct ip_last_call *call = &thread->calls[i];
		const uint64_t at = since(s, call->end);
		char length[16];

		ip_print(stdout, "  ended    %-10s %s  (%s%" PRIu64 ".%09" PRIu64 " s)\n",
			 ip_format_ns(ip_recording_ns(s->last.session, call->end - call->start),
				      length),
			 ip_names_text(s->names, call->function),
			 call->how == IP_END_EXIT      ? "at "
			 : call->how == IP_END_UNWOUND ? "left before "
			 : call->how == IP_END_UNKNOWN ? "its end is not known; begun at "
						       : "open when its thread ended, at ",
			 at / 1000000000, at % 1000000000);
	}
}

static void print_thread(const struct shown *s, const struct ip_last_thread *thread)
{
	const char *name = name_of(s, thread);
	const uint64_t newest = since(s, thread->newest);

	ip_print(stdout, "\nthread %u", thread->tid);
	if (name)
		ip_print(stdout, " %s", name);
	if (thread->pid != s->last.session->pid)
		ip_print(stdout, " of pid %u", thread->pid);
	if (thread->ended)
		ip_print(stdout, ", which has ended");
	if (thread->newest)
		ip_print(stdout, ": last event at %" PRIu64 ".%09" PRIu64 " s", newest / 1000000000,
			 newest % 1000000000);
	else
		ip_print(stdout, ": no event");
	if (thread->behind)
		ip_print(stdout, "; it was recording: later events of it may be missing");
	ip_print(stdout, "\n");
	print_open(s, thread);
	print_calls(s, thread);
}

static int show(const char *path, size_t most, bool full, bool json)
{
	struct shown s = {.path = path};

	if (ip_last_calls_read(path, most, &s.last) < 0)
		return cli_fail();
	s.names = ip_names_create(s.last.session);
	if (!s.names) {
		ip_last_calls_clear(&s.last);
		ip_error("out of memory");
		return cli_fail();
	}
	if (full)
		ip_names_use_full(s.names);
	if (json) {
		print_json(&s);
	} else {
		print_end(&s);
		for (size_t i = 0; i < s.last.nthreads; i++)
			print_thread(&s, &s.last.threads[i]);
	}
	ip_names_destroy(s.names);
	ip_last_calls_clear(&s.last);
	return 0;
}

int cmd_last(int argc, char **argv)
{
	static const char letters[] = ":n:h";
	static const struct option long_options[] = {{"calls", required_argument, NULL, 'n'},
						     {"full-names", no_argument, NULL, 'F'},
						     {"json", no_argument, NULL, 'j'},
						     {"help", no_argument, NULL, 'h'},
						     {0}};
	bool json = false, full = false;
	unsigned long most = CALLS;
	char *end;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) >= 0) {
		switch (option) {
		case 'n':
			most = strtoul(optarg, &end, 10);
			if (!isdigit((unsigned char)*optarg) || *end || most > IP_LAST_CALLS_MOST)
				return cli_usage(argv[0], "-n %s: a number of at most %u", optarg,
						 IP_LAST_CALLS_MOST);
			break;
		case 'F':
			full = true;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			ip_print_lines(stdout, help);
			return 0;
		default:
			return cli_bad_option(argv[0], argc, argv, letters, long_options);
		}
	}
	if (optind != argc - 1)
		return cli_usage(argv[0], "which live log? (%s)",
				 optind == argc ? "name its FILE" : "one at a time");
	return show(argv[optind], most, full, json);
}
