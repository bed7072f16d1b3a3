/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the calls of iprobe report --slowest for programs: as JSON and as CSV.
 */
#include "cli/call_values.h"
#include "cli/report/report_slowest.h"
#include "common/cleanup.h"
#include "common/csv.h"
#include "common/error.h"
#include "common/json.h"

static const char *end_of(const struct ip_slow_call *call)
{
	return call->how == IP_END_UNFINISHED ? "unfinished"
	       : call->how == IP_END_UNWOUND  ? "unwound"
					      : "exit";
}

static int write_call(struct ip_json *j, const struct cli_slowest *s,
		      const struct ip_slow_call *call)
{
	const struct ip_recording *session = s->trace->session;
	const struct ip_recording_function *f = &session->functions[call->function];
	_cleanup_free_ char *text = NULL;
	struct ip_value value;
	struct cli_slowest_caller caller;

	if (cli_slowest_caller(s, call, &caller) < 0)
		return -1;
	text = caller.text;
	ip_json_object(j, NULL);
	ip_json_uint(j, "ts", ip_recording_since_start(session, call->start));
	ip_json_uint(j, "duration_ns", ip_recording_ns(session, call->ticks));
	ip_json_uint(j, "self_ns", ip_recording_ns(session, call->self));
	ip_json_uint(j, "pid", call->pid);
	ip_json_uint(j, "tid", call->tid);
	ip_json_string(j, "thread", cli_slowest_thread(s, call));
	ip_json_string(j, "function", ip_names_get(s->names, call->function));
	ip_json_string(j, "linker_name", f->linker_name);
	ip_json_string(j, "module", ip_recording_module_name(session, f));
	ip_json_string(j, "file", f->file);
	if (f->file)
		ip_json_uint(j, "line", f->line);
	ip_json_uint(j, "depth", call->depth);
	if (s->value.text && ip_slow_call_value(call, &s->value, &value))
		ip_value_write(j, "value", &value);
	cli_call_values_json(j, session, call);
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

int cli_slowest_json(const struct cli_slowest *s)
{
	const struct ip_trace_reader *t = s->trace;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", s->found->events);
	ip_json_uint(&j, "lost", t->lost);
	ip_json_uint(&j, "invalid", t->session->invalid);
	ip_json_uint(&j, "threads", t->threads);
	ip_json_uint(&j, "duration_ns", ip_recording_ns(t->session, ip_trace_reader_recorded(t)));
	ip_json_bool(&j, "ended", t->session->ended);
	ip_json_bool(&j, "damaged", t->ndamages || t->missing);
	ip_json_uint(&j, "suspect", s->found->suspect);
	ip_json_uint(&j, "earlier", s->found->earlier);
	if (s->found->unkept)
		ip_json_uint(&j, "values_not_kept", s->found->unkept);
	if (s->value.text)
		ip_json_uint(&j, "without_value", s->found->numberless);
	if (s->options->innermost)
		ip_json_uint(&j, "outer", s->found->outer);
	ip_json_array(&j, "slowest");
	for (size_t i = 0; i < s->found->n; i++)
		if (write_call(&j, s, &s->found->calls[i]) < 0)
			return -1;
	ip_json_end_array(&j);
	ip_json_end_object(&j);
	return 0;
}

static int csv_call(struct ip_csv *csv, const struct cli_slowest *s,
		    const struct ip_slow_call *call)
{
	const struct ip_recording *session = s->trace->session;
	const struct ip_recording_function *f = &session->functions[call->function];
	_cleanup_free_ char *args = cli_call_values(session, call->args);
	_cleanup_free_ char *result = cli_call_values(session, call->result);
	_cleanup_free_ char *number = cli_slowest_number(s, call);
	_cleanup_free_ char *text = NULL;
	struct cli_slowest_caller caller;

	if (!args || !result || !number || cli_slowest_caller(s, call, &caller) < 0)
		return -1;
	text = caller.text;
	ip_csv_uint(csv, true, ip_recording_since_start(session, call->start));
	ip_csv_uint(csv, true, ip_recording_ns(session, call->ticks));
	ip_csv_uint(csv, true, ip_recording_ns(session, call->self));
	ip_csv_uint(csv, true, call->pid);
	ip_csv_uint(csv, true, call->tid);
	ip_csv_string(csv, cli_slowest_thread(s, call));
	ip_csv_string(csv, ip_names_get(s->names, call->function));
	ip_csv_string(csv, f->linker_name);
	ip_csv_string(csv, ip_recording_module_name(session, f));
	ip_csv_string(csv, args);
	ip_csv_string(csv, result);
	ip_csv_string(csv, caller.name);
	ip_csv_string(csv, caller.from);
	ip_csv_string(csv, end_of(call));
	if (s->value.text)
		ip_csv_string(csv, number);
	ip_csv_end(csv);
	return 0;
}

int cli_slowest_csv(const struct cli_slowest *s)
{
	static const char *const keys[] = {"ts",     "duration_ns", "self_ns",	   "pid",    "tid",
					   "thread", "function",    "linker_name", "module", "args",
					   "retval", "caller",	    "caller_from", "end"};
	struct ip_csv csv = {.out = stdout};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		ip_csv_string(&csv, keys[i]);
	if (s->value.text)
		ip_csv_string(&csv, "value");
	ip_csv_end(&csv);
	for (size_t i = 0; i < s->found->n; i++)
		if (csv_call(&csv, s, &s->found->calls[i]) < 0)
			return -1;
	return 0;
}
