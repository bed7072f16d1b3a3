/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers searches while the calls of each thread are read.
 */
#include "analysis/wait/function_search.h"

#include <stdlib.h>

#include "analysis/callstack/open_calls.h"
#include "analysis/wait/function_index.h"
#include "analysis/wait/sort.h"

struct reader {
	struct ip_function_search *searches;
	size_t n;
	size_t next, end; /* those of the run that have no answer yet */
};

static int compare(const void *left, const void *right)
{
	const struct ip_function_search *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

/* The first search that is not before another one. */
static size_t find(const struct ip_function_search *searches, size_t n, uint32_t tid, uint64_t tsc)
{
	const struct ip_function_search key = {.tid = tid, .tsc = tsc};
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare(&searches[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What is open now has been so up to a time. */
static void pass(void *context, const uint32_t *innermost, uint64_t tsc)
{
	struct reader *r = context;

	for (; r->next < r->end && r->searches[r->next].tsc < tsc; r->next++)
		if (innermost)
			r->searches[r->next].function = *innermost;
}

static int on_opened(void *context, const struct ip_frame *frame, const uint32_t *above,
		     uint32_t *ret)
{
	(void)context;
	(void)above;
	*ret = frame->function;
	return 0;
}

static bool on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	r->next = find(r->searches, r->n, run->machine_tid, run->begin);
	r->end = find(r->searches, r->n, run->machine_tid, run->end ? run->end : UINT64_MAX);
	return true;
}

int ip_function_search_all(struct ip_trace_reader *trace, struct ip_function_search *searches,
			   size_t n, uint64_t *ret_events)
{
	static const struct ip_open_calls_ops ops = {on_run, pass, on_opened, NULL};
	struct reader r = {.searches = searches, .n = n};

	for (size_t i = 0; i < n; i++)
		searches[i].function = IP_NO_FUNCTION_AT;
	ip_sort(searches, n, sizeof(*searches), compare);
	return ip_open_calls_read(trace, &ops, &r, IP_NO_FUNCTION_AT, ret_events);
}

uint32_t ip_function_search_answer(const struct ip_function_search *searches, size_t n,
				   uint32_t tid, uint64_t tsc)
{
	const size_t i = find(searches, n, tid, tsc);

	return i < n && searches[i].tid == tid && searches[i].tsc == tsc ? searches[i].function
									 : IP_NO_FUNCTION_AT;
}
