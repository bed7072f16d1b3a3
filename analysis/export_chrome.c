/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace Event Format. Events are written in the order of time over all threads; within a thread B and E nest, also where a
 * coroutine's frames are left and come back: each stay is a pair of its own.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/export.h"
#include "analysis/merge.h"
#include "analysis/names.h"
#include "common/error.h"
#include "common/json.h"

struct chrome {
	const struct ip_export_options *options;
	struct ip_trace_reader *trace;
	struct ip_names *names;
	FILE *out;
	char **names_json; /* by function, quoted, made when first needed */
	const uint64_t *payload;
	uint32_t pid, tid;
	bool stop;
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
	c->stop |= !c->names_json[function];
	return c->names_json[function];
}

/* Microseconds with nanoseconds behind the point. */
static void print_head(struct chrome *c, char kind, uint64_t ts)
{
	uint64_t ns = ip_recording_since_start(c->trace->session, ts);

	fprintf(c->out, ",\n{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%03u", kind, c->pid,
		c->tid, ns / 1000, (unsigned)(ns % 1000));
	if (ferror(c->out))
		c->stop = true;
}

static void print_values(const struct chrome *c, const char *single)
{
	const struct ip_signature *signature = ip_recording_signature(c->trace->session, c->payload);
	struct ip_json j;

	if (!signature)
		return;
	ip_json_init_inside(&j, c->out);
	ip_json_object(&j, "args");
	if (single)
		ip_value_json(&j, single, signature, c->payload);
	else
		ip_values_json(&j, signature, c->payload);
	ip_json_end_object(&j);
}

static void begin(struct chrome *c, char kind, uint32_t function, uint64_t ts)
{
	const struct ip_recording *s = c->trace->session;
	const char *name;

	if (c->stop || !c->options->selected[function])
		return;
	name = quoted(c, function);
	if (!name)
		return;
	print_head(c, kind, ts);
	fprintf(c->out, ",\"name\":%s", name);
	if (kind == 'i')
		fputs(",\"s\":\"t\"", c->out);
	if (s->functions[function].module != IP_NO_MODULE) {
		struct ip_json j;

		ip_json_init_inside(&j, c->out);
		ip_json_string(&j, "cat", ip_recording_module_name(s, &s->functions[function]));
	}
	print_values(c, NULL);
	putc('}', c->out);
}

static void end(struct chrome *c, uint32_t function, uint64_t ts, bool values)
{
	if (c->stop || !c->options->selected[function])
		return;
	print_head(c, 'E', ts);
	if (values)
		print_values(c, "retval");
	putc('}', c->out);
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	begin(context, frame->flags & IP_FRAME_ENTRY_ONLY ? 'i' : 'B', frame->function, frame->start);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	end(context, frame->function, ts, false);
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct chrome *c = context;
	const uint64_t *payload = c->payload;

	c->payload = NULL; /* it belongs to the exit that follows */
	begin(c, 'B', frame->function, ts);
	c->payload = payload;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts,
		      enum ip_frame_end how)
{
	if (how == IP_END_EXIT || how == IP_END_UNFINISHED)
		end(context, frame->function, ts, how == IP_END_EXIT);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	begin(context, 'i', function, ts);
}

static void on_values(void *context, const uint64_t *payload)
{
	struct chrome *c = context;

	c->payload = payload;
}

static void on_run(void *context, const struct ip_run *run)
{
	struct chrome *c = context;

	c->pid = run->pid;
	c->tid = run->tid;
}

static void print_metadata(struct chrome *c, const char *what, uint32_t tid, const char *name)
{
	struct ip_json j;

	fprintf(c->out, ",\n{\"ph\":\"M\",\"pid\":%" PRIu64 ",\"tid\":%u,\"name\":\"%s\"",
		c->trace->session->pid, tid, what);
	ip_json_init_inside(&j, c->out);
	ip_json_object(&j, "args");
	ip_json_string(&j, "name", name);
	ip_json_end_object(&j);
	putc('}', c->out);
}

/* What stands around the events. otherData is where people look for where a trace comes from. */
static void print_top(struct chrome *c)
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
	ip_json_end_object(&j);
	fputs(",\n\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"trace\",\"args\":{}}",
	      c->out);
	print_metadata(c, "process_name", s->pid, s->command ? s->command : "?");
	for (size_t i = 0; i < s->nthreads; i++)
		print_metadata(c, "thread_name", s->threads[i].tid, s->threads[i].name);
}

int ip_export_chrome(struct ip_trace_reader *trace, const struct ip_export_options *options, FILE *out)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .resumed = on_resumed,
						 .closed = on_closed,
						 .point = on_point,
						 .values = on_values};
	struct chrome c = {
		.options = options, .trace = trace, .out = out, .names = ip_names_create(trace->session)};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &c, .run = on_run};
	uint64_t events;
	int ret = -1;

	c.names_json = calloc(trace->session->nfunctions, sizeof(*c.names_json));
	if (!c.names || !c.names_json) {
		ip_error("out of memory");
	} else {
		print_top(&c);
		ret = ip_merge(trace, options->tid, &visitor, &c.stop, &events);
		fputs("\n]}\n", out);
		if (ret == 0 && c.stop && !ferror(out))
			ret = ip_error("out of memory");
	}
	for (size_t i = 0; c.names_json && i < trace->session->nfunctions; i++)
		free(c.names_json[i]);
	free(c.names_json);
	ip_names_destroy(c.names);
	return ret;
}
