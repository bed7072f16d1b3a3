/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions made system calls: the innermost recorded call of a function that was open when
 * the system call began.
 */
#ifndef IP_SYSCALL_CALLERS_H
#define IP_SYSCALL_CALLERS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/syscalls/syscall_reader.h"
#include "analysis/wait/function_index.h"

/* Reads the functions of the trace once. ret: n functions, by call: indices into
 * session->functions, or IP_NO_FUNCTION_AT. Of calls that are not timed none is known. Returns 0,
 * or -1 with an error. */
int ip_syscall_callers_find(struct ip_trace_reader *trace, const struct ip_syscall_call *calls,
			    size_t n, uint32_t *ret);

#endif
