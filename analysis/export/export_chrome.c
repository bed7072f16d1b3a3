/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the Trace Event Format, one event a line.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/export/export_events.h"
#include "analysis/read/names.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

struct chrome {
	struct ip_trace_reader *trace;
	struct ip_names *names;
	FILE *out;
	char **names_json; /* by function: quoted names, each made when it is first needed */
	uint32_t pid, tid;
};

static const char *quoted(struct chrome *c, uint32_t function)
{
	struct ip_json j;
	size_t size;
	FILE *memory;

	if (c->names_json[function])
		return c->names_json[function];
	memory = open_memstream(&c->names_json[function], &size);
	if (memory) {
		ip_json_init(&j, memory);
		ip_json_string(&j, NULL, ip_names_get(c->names, function));
		if (fclose(memory) == 0 && c->names_json[function])
			c->names_json[function][strcspn(c->names_json[function], "\n")] = '\0';
	}
	return c->names_json[function];
}

/* ts is printed in microseconds, with nanoseconds after the point. */
static void print_head(struct chrome *c, char kind, uint64_t ts)
{
	uint64_t ns = ip_recording_since_start(c->trace->session, ts);

	fprintf(c->out, ",\n{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%03u", kind,
		c->pid, c->tid, ns / 1000, (unsigned)(ns % 1000));
}

/* Prints the arguments, or the only value of an end: the result. */
static void print_values(const struct chrome *c, const struct ip_export_event *e)
{
	const struct ip_signature *signature =
		ip_recording_signature(c->trace->session, e->payload);
	struct ip_json j;

	if (!signature && !e->until_tail)
		return;
	ip_json_init_inside(&j, c->out);
	ip_json_object(&j, "args");
	if (signature && e->kind == IP_EXPORT_END)
		ip_value_json(&j, "retval", signature, e->payload);
	else if (signature)
		ip_values_json(&j, signature, e->payload);
	if (e->until_tail)
		ip_json_bool(&j, "until_tail_call", true);
	ip_json_end_object(&j);
}

/* An end has its name, too: where several events have one time stamp, speedscope uses the name
 * to find out which comes first. */
static bool on_event(void *context, const struct ip_export_event *e)
{
	static const char kinds[] = {
		[IP_EXPORT_BEGIN] = 'B', [IP_EXPORT_END] = 'E', [IP_EXPORT_INSTANT] = 'i'};
	struct chrome *c = context;
	const struct ip_recording *s = c->trace->session;
	const char *name = quoted(c, e->function);

	if (!name)
		return false;
	print_head(c, kinds[e->kind], e->ts);
	fprintf(c->out, ",\"name\":%s", name);
	if (e->kind == IP_EXPORT_INSTANT)
		fputs(",\"s\":\"t\"", c->out);
	if (e->kind != IP_EXPORT_END && s->functions[e->function].module != IP_NO_MODULE) {
		struct ip_json j;

		ip_json_init_inside(&j, c->out);
		ip_json_string(&j, "cat", ip_recording_module_name(s, &s->functions[e->function]));
	}
	print_values(c, e);
	putc('}', c->out);
	return !ferror(c->out);
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct chrome *c = context;

	c->pid = run->pid;
	c->tid = run->tid;
}

static void print_metadata(struct chrome *c, const char *what, uint32_t pid, uint32_t tid,
			   const char *name)
{
	struct ip_json j;

	fprintf(c->out, ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\"", pid, tid, what);
	ip_json_init_inside(&j, c->out);
	ip_json_object(&j, "args");
	ip_json_string(&j, "name", name);
	ip_json_end_object(&j);
	putc('}', c->out);
}

static int by_tid(const void *a, const void *b)
{
	const struct ip_thread_packets *x = *(const struct ip_thread_packets *const *)a,
				       *y = *(const struct ip_thread_packets *const *)b;

	if (x->member != y->member)
		return x->member < y->member ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* Returns the first process of a member. */
static uint32_t pid_of_member(const struct ip_trace_reader *t, uint32_t member)
{
	for (size_t i = 0; i < t->nprocesses; i++)
		if (t->process_list[i].member == member)
			return t->process_list[i].pid;
	return (uint32_t)t->session->pid;
}

/* Prints the last name of each thread, since in this format a thread has one. A thread without
 * events is one of the recorded process. Names and runs are both in the order of the threads. */
static void print_threads(struct chrome *c, const struct ip_thread_packets **runs)
{
	const struct ip_recording *s = c->trace->session;
	size_t n = c->trace->nruns, k = 0;

	for (size_t i = 0; i < n; i++)
		runs[i] = &c->trace->runs[i];
	qsort(runs, n, sizeof(*runs), by_tid);
	for (size_t i = 0; i < s->nthreads; i++) {
		const uint32_t tid = s->threads[i].tid, member = s->threads[i].member;
		const char *name = ip_recording_thread_name(s, member, tid);
		bool any = false;

		if (!name ||
		    (i && s->threads[i - 1].tid == tid && s->threads[i - 1].member == member))
			continue;
		while (k < n && (runs[k]->member < member ||
				 (runs[k]->member == member && runs[k]->tid < tid)))
			k++;
		for (; k < n && runs[k]->member == member && runs[k]->tid == tid; k++) {
			if (!any || runs[k - 1]->pid != runs[k]->pid)
				print_metadata(c, "thread_name", runs[k]->pid, tid, name);
			any = true;
		}
		if (!any)
			print_metadata(c, "thread_name", pid_of_member(c->trace, member), tid,
				       name);
	}
}

static void print_processes(struct chrome *c)
{
	const struct ip_trace_reader *t = c->trace;

	for (size_t i = 0; i < t->nprocesses; i++) {
		const struct ip_trace_process *p = &t->process_list[i];

		if (!p->off)
			print_metadata(c, "process_name", p->pid, p->pid,
				       p->command ? p->command : "?");
	}
}

/* Prints what comes before the events. In otherData people look for the origin of a trace. */
static void print_top(struct chrome *c, const struct ip_thread_packets **runs)
{
	const struct ip_recording *s = c->trace->session;
	struct ip_json j;

	fputs("{\"displayTimeUnit\":\"ns\"", c->out);
	ip_json_init_inside(&j, c->out);
	ip_json_object(&j, "otherData");
	ip_json_string(&j, "tool", "iprobe");
	ip_json_string(&j, "command", s->command);
	ip_json_string(&j, "host", s->host);
	ip_json_uint(&j, "lost", c->trace->lost);
	ip_json_uint(&j, "invalid", s->invalid);
	ip_json_end_object(&j);
	fputs(",\n\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"trace\",\"args\":"
	      "{}}",
	      c->out);
	print_processes(c);
	print_threads(c, runs);
}

int ip_export_chrome(struct ip_trace_reader *trace, const struct ip_export_options *options,
		     FILE *out)
{
	static const struct ip_export_writer writer = {on_run, on_event};
	struct chrome c = {.trace = trace, .out = out, .names = ip_names_create(trace->session)};
	int ret = -1;

	_cleanup_free_ const struct ip_thread_packets **runs =
		calloc(trace->nruns + 1, sizeof(*runs));

	c.names_json = calloc(trace->session->nfunctions, sizeof(*c.names_json));
	if (!c.names || !c.names_json || !runs) {
		ip_error("out of memory");
	} else {
		print_top(&c, runs);
		ret = ip_export_events(trace, options, &writer, &c, out);
		fputs("\n]}\n", out);
	}
	for (size_t i = 0; c.names_json && i < trace->session->nfunctions; i++)
		free(c.names_json[i]);
	free(c.names_json);
	ip_names_destroy(c.names);
	return ret;
}
