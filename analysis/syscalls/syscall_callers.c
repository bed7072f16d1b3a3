/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays the system calls of threads over the calls of their functions.
 */
#include "analysis/syscalls/syscall_callers.h"

#include <stdlib.h>

#include "analysis/wait/function_index.h"
#include "analysis/wait/function_search.h"
#include "common/error.h"

int ip_syscall_callers_find(struct ip_trace_reader *trace, const struct ip_syscall_call *calls,
			    size_t n, uint32_t *ret)
{
	struct ip_function_search *searches = n ? calloc(n, sizeof(*searches)) : NULL;
	uint64_t events;
	int done;

	if (!n)
		return 0;
	if (!searches)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++)
		searches[i] =
			(struct ip_function_search){.tsc = calls[i].begin, .tid = calls[i].tid};
	done = ip_function_search_all(trace, searches, n, &events);
	for (size_t i = 0; done == 0 && i < n; i++)
		ret[i] = calls[i].timed ? ip_function_search_answer(searches, n, calls[i].tid,
								    calls[i].begin)
					: IP_NO_FUNCTION_AT;
	free(searches);
	return done < 0 ? -1 : 0;
}
