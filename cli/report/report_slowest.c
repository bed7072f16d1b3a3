/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe report --slowest: single calls with their values, for people, as JSON and as CSV.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/elide.h"
#include "cli/filter/filter_check.h"
#include "cli/report/report.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/csv.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define TEXT_MIN 24u

struct slowest {
	const struct cli_report_options *options;
	struct ip_trace_reader *trace;
	struct ip_names *names;
	struct ip_symbolizer *places;
	struct ip_slowest *found;
};

static int by_time(const void *a, const void *b)
{
	const struct ip_slow_call *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	/* of calls that began at the same time the outer one ends later */
	return x->ordinal < y->ordinal ? 1 : -1;
}

/* What is known of the caller. */
struct caller {
	const char *name, *module;
	const char *from; /* "call site", "frame"; NULL: there is no caller */
	char *text;	  /* owned; NULL: name tells it */
};

static int find_caller(const struct slowest *s, const struct ip_slow_call *call, struct caller *ret)
{
	const struct ip_recording *session = s->trace->session;
	uint64_t address = ip_recording_call_site(call->args);
	const struct ip_place *place;

	*ret = (struct caller){0};
	if (address) {
		place = ip_symbolizer_get(s->places, call->member,
					  session->functions[call->function].module, address);
		ret->text = place ? ip_place_text(place) : NULL;
		if (!ret->text)
			return ip_error("out of memory");
		ret->name = place->name ? place->name : ret->text;
		ret->module = place->module;
		ret->from = "call site";
	} else if (call->around != IP_NO_CALL_AROUND) {
		ret->name = ip_names_get(s->names, call->around);
		ret->module = ip_recording_module_name(session, &session->functions[call->around]);
		ret->from = "frame";
	}
	return 0;
}

static const char *end_of(const struct ip_slow_call *call)
{
	return call->how == IP_END_UNFINISHED ? "unfinished"
	       : call->how == IP_END_UNWOUND  ? "unwound"
					      : "exit";
}

/* Makes the values as people read them: fd=3, path="/etc/motd". "" where there are none. */
static char *values_text(const struct slowest *s, const uint64_t *payload)
{
	const struct ip_signature *signature = ip_recording_signature(s->trace->session, payload);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (out && signature)
		ip_values_print(out, signature, payload);
	return ip_print_end_text(out, &text);
}

/* Makes `handle(fd=3) = 0`. */
static char *call_text(const struct slowest *s, const struct ip_slow_call *call)
{
	const struct ip_recording *session = s->trace->session;
	_cleanup_free_ char *args = values_text(s, call->args);
	_cleanup_free_ char *result = values_text(s, call->result);
	bool has_args = ip_recording_signature(session, call->args);
	bool has_result = ip_recording_signature(session, call->result);
	char *text;

	if (!args || !result ||
	    asprintf(&text, "%s%s%s%s%s%s", ip_names_get(s->names, call->function),
		     has_args ? "(" : "", args, has_args ? ")" : "", has_result ? " = " : "",
		     result) < 0)
		return NULL;
	return text;
}

/* A thread may change its name: the one that it had when the call ended counts. */
static const char *thread_name(const struct slowest *s, const struct ip_slow_call *call)
{
	return ip_recording_thread_name_at(s->trace->session, call->member, call->tid,
					   call->start + call->ticks);
}

static char *thread_text(const struct slowest *s, const struct ip_slow_call *call)
{
	const char *name = thread_name(s, call);
	char *text, pid[16] = "";

	if (s->trace->processes > 1)
		snprintf(pid, sizeof(pid), "%u/", call->pid);
	if (asprintf(&text, "%s%u%s%s", pid, call->tid, name ? " " : "", name ? name : "") < 0)
		return NULL;
	ip_clean(text);
	return text;
}

static const char *mark_of(const struct ip_slow_call *call)
{
	if (call->how == IP_END_UNFINISHED)
		return "  (not finished)";
	if (call->how == IP_END_UNWOUND)
		return "  (unwound)";
	return call->flags & IP_FRAME_TAIL ? "  (until its tail call)" : "";
}

static int print_call(const struct slowest *s, const struct ip_slow_call *call, unsigned width)
{
	uint64_t ns = ip_recording_since_start(s->trace->session, call->start);
	_cleanup_free_ char *text = call_text(s, call);
	_cleanup_free_ char *thread = thread_text(s, call);
	_cleanup_free_ char *place = NULL;
	char duration[16], self[16];
	struct caller caller;
	size_t room, others = 15 + 2 * 9 + 2 + width + 2;

	if (!text || !thread)
		return ip_error("out of memory");
	if (find_caller(s, call, &caller) < 0)
		return -1;
	place = caller.text;
	others += strlen(mark_of(call));
	if (caller.from)
		others += 5 + cli_width_of(place ? place : caller.name);
	room = cli_name_width(others, TEXT_MIN);
	cli_cut_text(text, room);
	ip_print(stdout, "%5" PRIu64 ".%09" PRIu64 " %8s %8s  %s%*s  %s", ns / 1000000000,
		 ns % 1000000000,
		 ip_format_ns(ip_recording_ns(s->trace->session, call->ticks), duration),
		 ip_format_ns(ip_recording_ns(s->trace->session, call->self), self), thread,
		 (int)(width - cli_width_of(thread)), "", text);
	if (caller.from)
		ip_print(stdout, "  <- %s", place ? place : caller.name);
	ip_print(stdout, "%s\n", mark_of(call));
	return 0;
}

static int print_notes(const struct slowest *s)
{
	char count[32];

	if (s->found->suspect)
		ip_print(stdout,
			 "\n%s call%s may be several taken for one, since events were lost "
			 "meanwhile: not among these.\n",
			 ip_format_count(s->found->suspect, count),
			 s->found->suspect == 1 ? "" : "s");
	if (s->found->earlier)
		ip_print(stdout,
			 "\n%s call%s open already when the recording began: not among these.\n",
			 ip_format_count(s->found->earlier, count),
			 s->found->earlier == 1 ? " was" : "s were");
	if (s->found->unkept)
		ip_print(stdout,
			 "\nThe values of %s calls were not kept: too many calls with values were "
			 "open at once.\n",
			 ip_format_count(s->found->unkept, count));
	return 0;
}

static int print_table(const struct slowest *s)
{
	unsigned width = 6;

	for (size_t i = 0; i < s->found->n; i++) {
		_cleanup_free_ char *thread = thread_text(s, &s->found->calls[i]);

		if (!thread)
			return ip_error("out of memory");
		if (cli_width_of(thread) > width)
			width = cli_width_of(thread);
	}
	ip_print(stdout, "%15s %8s %8s  %-*s  %s\n", "when", "duration", "self", (int)width,
		 "thread", "call");
	for (size_t i = 0; i < s->found->n; i++)
		if (print_call(s, &s->found->calls[i], width) < 0)
			return -1;
	return print_notes(s);
}

static void write_values(struct ip_json *j, const struct slowest *s,
			 const struct ip_slow_call *call)
{
	const struct ip_signature *args = ip_recording_signature(s->trace->session, call->args),
				  *result = ip_recording_signature(s->trace->session, call->result);

	if (args) {
		ip_json_object(j, "args");
		ip_values_json(j, args, call->args);
		ip_json_end_object(j);
	}
	if (result)
		ip_value_json(j, "retval", result, call->result);
	if ((args && ip_values_cut(args, call->args)) ||
	    (result && ip_values_cut(result, call->result)))
		ip_json_bool(j, "cut", true);
}

static int write_call(struct ip_json *j, const struct slowest *s, const struct ip_slow_call *call)
{
	const struct ip_recording *session = s->trace->session;
	const struct ip_recording_function *f = &session->functions[call->function];
	_cleanup_free_ char *text = NULL;
	struct caller caller;

	if (find_caller(s, call, &caller) < 0)
		return -1;
	text = caller.text;
	ip_json_object(j, NULL);
	ip_json_uint(j, "ts", ip_recording_since_start(session, call->start));
	ip_json_uint(j, "duration_ns", ip_recording_ns(session, call->ticks));
	ip_json_uint(j, "self_ns", ip_recording_ns(session, call->self));
	ip_json_uint(j, "pid", call->pid);
	ip_json_uint(j, "tid", call->tid);
	ip_json_string(j, "thread", thread_name(s, call));
	ip_json_string(j, "function", ip_names_get(s->names, call->function));
	ip_json_string(j, "linker_name", f->linker_name);
	ip_json_string(j, "module", ip_recording_module_name(session, f));
	ip_json_string(j, "file", f->file);
	if (f->file)
		ip_json_uint(j, "line", f->line);
	ip_json_uint(j, "depth", call->depth);
	write_values(j, s, call);
	ip_json_string(j, "caller", caller.name);
	ip_json_string(j, "caller_module", caller.module);
	ip_json_string(j, "caller_from", caller.from);
	ip_json_string(j, "end", end_of(call));
	if (call->flags & (IP_FRAME_TAIL | IP_FRAME_JUMPED))
		ip_json_bool(j, "tail", true);
	if (call->flags & IP_FRAME_TAIL)
		ip_json_bool(j, "until_tail_call", true);
	ip_json_end_object(j);
	return 0;
}

static int print_json(const struct slowest *s)
{
	const struct ip_trace_reader *t = s->trace;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", s->found->events);
	ip_json_uint(&j, "lost", t->lost);
	ip_json_uint(&j, "invalid", t->session->invalid);
	ip_json_uint(&j, "threads", t->threads);
	ip_json_uint(&j, "duration_ns", ip_recording_ns(t->session, t->end - t->begin));
	ip_json_bool(&j, "ended", t->session->ended);
	ip_json_bool(&j, "damaged", t->ndamages || t->missing);
	ip_json_uint(&j, "suspect", s->found->suspect);
	ip_json_uint(&j, "earlier", s->found->earlier);
	if (s->found->unkept)
		ip_json_uint(&j, "values_not_kept", s->found->unkept);
	ip_json_array(&j, "slowest");
	for (size_t i = 0; i < s->found->n; i++)
		if (write_call(&j, s, &s->found->calls[i]) < 0)
			return -1;
	ip_json_end_array(&j);
	ip_json_end_object(&j);
	return 0;
}

static int csv_call(struct ip_csv *csv, const struct slowest *s, const struct ip_slow_call *call)
{
	const struct ip_recording *session = s->trace->session;
	const struct ip_recording_function *f = &session->functions[call->function];
	_cleanup_free_ char *args = values_text(s, call->args);
	_cleanup_free_ char *result = values_text(s, call->result);
	_cleanup_free_ char *text = NULL;
	struct caller caller;

	if (!args || !result || find_caller(s, call, &caller) < 0)
		return -1;
	text = caller.text;
	ip_csv_uint(csv, true, ip_recording_since_start(session, call->start));
	ip_csv_uint(csv, true, ip_recording_ns(session, call->ticks));
	ip_csv_uint(csv, true, ip_recording_ns(session, call->self));
	ip_csv_uint(csv, true, call->pid);
	ip_csv_uint(csv, true, call->tid);
	ip_csv_string(csv, thread_name(s, call));
	ip_csv_string(csv, ip_names_get(s->names, call->function));
	ip_csv_string(csv, f->linker_name);
	ip_csv_string(csv, ip_recording_module_name(session, f));
	ip_csv_string(csv, args);
	ip_csv_string(csv, result);
	ip_csv_string(csv, caller.name);
	ip_csv_string(csv, caller.from);
	ip_csv_string(csv, end_of(call));
	ip_csv_end(csv);
	return 0;
}

static int print_csv(const struct slowest *s)
{
	static const char *const keys[] = {"ts",     "duration_ns", "self_ns",	   "pid",    "tid",
					   "thread", "function",    "linker_name", "module", "args",
					   "retval", "caller",	    "caller_from", "end"};
	struct ip_csv csv = {.out = stdout};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		ip_csv_string(&csv, keys[i]);
	ip_csv_end(&csv);
	for (size_t i = 0; i < s->found->n; i++)
		if (csv_call(&csv, s, &s->found->calls[i]) < 0)
			return -1;
	return 0;
}

static int find(struct slowest *s, const char *dir, struct cli_report_options *o)
{
	_cleanup_free_ bool *selected = cli_reader_select(s->trace, o->filter.functions);
	struct ip_slowest_options wanted = {
		.n = o->slowest, .by = o->slowest_by, .selected = selected, .matches = &o->matches};

	if (!selected || ip_value_matches_find(&o->matches, s->trace->session, dir) < 0)
		return -1;
	s->names = ip_names_create(s->trace->session);
	s->places = ip_symbolizer_create(dir, s->trace->session);
	if (!s->names || !s->places || ip_slowest_find(s->trace, &wanted, &s->found) < 0)
		return -1;
	if (o->in_time && s->found->n)
		qsort(s->found->calls, s->found->n, sizeof(*s->found->calls), by_time);
	return 0;
}

int cli_report_slowest(const char *dir, struct cli_report_options *o)
{
	struct slowest s = {.options = o};
	int ret = cli_reader_open(dir, o->filter.process, &s.trace);

	if (ret == 0)
		ret = find(&s, dir, o);
	if (ret == 0) {
		cli_reader_warn(s.trace);
		cli_reader_warn_counted(s.trace);
		if (!s.found->n)
			cli_filter_warn_none(s.trace, &o->filter, s.found->events);
		ret = o->format == CLI_REPORT_JSON  ? print_json(&s)
		      : o->format == CLI_REPORT_CSV ? print_csv(&s)
						    : print_table(&s);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	ip_slowest_destroy(s.found);
	ip_symbolizer_destroy(s.places);
	ip_names_destroy(s.names);
	ip_trace_reader_close(s.trace);
	return ret;
}
