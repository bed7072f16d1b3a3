/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which functions threads were at many times, by one reading of the trace. function_index.h is
 * for few.
 */
#ifndef IP_FUNCTION_SEARCH_H
#define IP_FUNCTION_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"

struct ip_function_search {
	uint64_t tsc;
	uint32_t tid;
	/* the answer; IP_NO_FUNCTION_AT (function_index.h): none that is known */
	uint32_t function;
};

/* Answers all: with the innermost recorded call of the thread that was open at the time. The array
 * is in order of tid and tsc then. *ret_events: how many events the trace has. Returns 0, or -1
 * with an error. */
int ip_function_search_all(struct ip_trace_reader *trace, struct ip_function_search *searches,
			   size_t n, uint64_t *ret_events);
/* The answer of a search in an array that was answered. */
uint32_t ip_function_search_answer(const struct ip_function_search *searches, size_t n,
				   uint32_t tid, uint64_t tsc);

#endif
