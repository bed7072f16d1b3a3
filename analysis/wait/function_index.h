/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which function a thread was at a time.
 */
#ifndef IP_FUNCTION_INDEX_H
#define IP_FUNCTION_INDEX_H

#include <stdint.h>

#include "analysis/callstack/trace.h"

#define IP_NO_FUNCTION_AT UINT32_MAX

struct ip_function_index;

/* trace: borrowed. Returns NULL with an error where memory ran out. */
struct ip_function_index *ip_function_index_create(struct ip_trace_reader *trace);
void ip_function_index_destroy(struct ip_function_index *functions);

/* The innermost recorded call of a thread that was open at a time. *ret: the function, or
 * IP_NO_FUNCTION_AT: none was, or nothing of the thread is recorded. The first time a thread is
 * asked for its events are read. Returns 0, or -1 with an error. */
int ip_function_index_find(struct ip_function_index *functions, uint32_t tid, uint64_t tsc,
			   uint32_t *ret);

#endif
