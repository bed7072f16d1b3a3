/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the calls by their threads and begins.
 */
#include "analysis/darc/values/operation_values.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/trace/trace_format.h"

struct reader {
	struct ip_trace_reader *trace;
	const struct ip_darc_operation *const *operations;
	struct ip_operation_values *values;
	size_t n, run;
	uint32_t function;
	const uint64_t *payload; /* that came with the current event */
	bool failed;
};

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	r->run = run - r->trace->runs;
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct reader *)context)->payload = payload;
}

/* Returns n where the frame is none of the operations. */
static size_t find(const struct reader *r, const struct ip_frame *frame)
{
	size_t i = 0;

	if (frame->function != r->function)
		return r->n;
	while (i < r->n &&
	       (r->operations[i]->run != r->run || r->operations[i]->start != frame->start))
		i++;
	return i;
}

static void keep(struct reader *r, uint64_t **words)
{
	const size_t size = (1 + (size_t)IP_PAYLOAD_N(r->payload[0])) * sizeof(**words);

	free(*words);
	*words = malloc(size);
	if (*words)
		memcpy(*words, r->payload, size);
	else
		r->failed = true;
}

/* A call within may begin at the same time: the outermost one opens first, and closes last. */
static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct reader *r = context;
	const size_t i = r->payload ? find(r, frame) : r->n;

	(void)depth;
	if (i < r->n && !r->values[i].args)
		keep(r, &r->values[i].args);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct reader *r = context;
	const size_t i = r->payload && ip_frame_has_result(frame, how) ? find(r, frame) : r->n;

	(void)depth;
	(void)end;
	if (i < r->n)
		keep(r, &r->values[i].result);
}

int ip_operation_values_read(struct ip_trace_reader *trace, uint32_t function,
			     const struct ip_darc_operation *const *operations, size_t n,
			     struct ip_operation_values *ret)
{
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .closed = on_closed, .values = on_values};
	struct reader r = {.trace = trace,
			   .operations = operations,
			   .values = ret,
			   .n = n,
			   .function = function};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &r, .run = on_run};
	uint64_t events;

	memset(ret, 0, n * sizeof(*ret));
	if (ip_trace_reader_visit(trace, &visitor, &events) < 0)
		return -1;
	return r.failed ? ip_error("out of memory") : 0;
}

void ip_operation_values_clear(struct ip_operation_values *values, size_t n)
{
	for (size_t i = 0; values && i < n; i++) {
		free(values[i].args);
		free(values[i].result);
	}
}
