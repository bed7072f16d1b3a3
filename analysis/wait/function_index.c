/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds functions by an index of each thread that is asked for.
 */
#include "analysis/wait/function_index.h"

#include <stdlib.h>

#include "analysis/callstack/run_index.h"
#include "common/error.h"

struct ip_function_index {
	struct ip_trace_reader *trace;
	struct ip_run_index **indexes; /* by run; NULL: not made yet */
	uint64_t calls;		       /* the visitors want a counter */
	uint32_t found;
};

struct ip_function_index *ip_function_index_create(struct ip_trace_reader *trace)
{
	struct ip_function_index *f = calloc(1, sizeof(*f));

	if (f) {
		f->trace = trace;
		f->indexes = calloc(trace->nruns + 1, sizeof(struct ip_run_index *));
	}
	if (f && f->indexes)
		return f;
	ip_error("out of memory");
	free(f);
	return NULL;
}

void ip_function_index_destroy(struct ip_function_index *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->trace->nruns; i++)
		ip_run_index_destroy(f->indexes[i]);
	free(f->indexes);
	free(f);
}

static void on_open(void *context, const struct ip_frame *frames, size_t n, uint64_t now, bool end)
{
	struct ip_function_index *f = context;

	if (end && n)
		f->found = frames[n - 1].function;
}

int ip_function_index_find(struct ip_function_index *f, uint32_t tid, uint64_t tsc, uint32_t *ret)
{
	static const struct ip_frames_ops ops = {0};
	const struct ip_slice_visitor make = {.ops = &ops, .context = f, .calls = &f->calls},
				      look = {.ops = &ops,
					      .context = f,
					      .calls = &f->calls,
					      .open = on_open};

	*ret = IP_NO_FUNCTION_AT;
	for (size_t i = 0; i < f->trace->nruns; i++) {
		const struct ip_thread_packets *run = &f->trace->runs[i];

		if (run->machine_tid != tid || tsc < run->begin || (run->end && tsc > run->end))
			continue;
		if (!f->indexes[i] &&
		    ip_run_index_make(f->trace, run, &make, 0, &f->indexes[i]) < 0)
			return -1;
		f->found = IP_NO_FUNCTION_AT;
		if (ip_run_index_visit(f->indexes[i], tsc, tsc, &look) < 0)
			return -1;
		*ret = f->found;
		return 0;
	}
	return 0;
}
