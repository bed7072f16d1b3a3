/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobe syscalls is asked for.
 */
#ifndef IP_CLI_SYSCALLS_OPTIONS_H
#define IP_CLI_SYSCALLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/syscalls/syscall_reader.h"
#include "analysis/syscalls/syscall_set.h"
#include "cli/filter_options.h"
#include "kernel_trace/record_source.h"

enum cli_syscalls_by {
	CLI_SYSCALLS_BY_CALL,
	CLI_SYSCALLS_BY_FUNCTION,
	CLI_SYSCALLS_BY_DESCRIPTOR,
	CLI_SYSCALLS_BY_PROCESS,
};

struct cli_syscalls_options {
	struct cli_filter filter; /* -f, -n, --tid, --full-names */
	struct ip_syscall_set set;
	enum cli_syscalls_by by;
	size_t slowest;	      /* calls; 0: not asked for */
	uint64_t duration_ns; /* of processes; 0: until they end */
	enum ip_kernel_source source;
	const char *live; /* the first option that goes with processes only; NULL: none */
	bool chosen;	  /* set is valid; else all calls are meant */
	bool list, failed, json;
};

/* Whether a call is one of those that are asked for, as far as its function does not matter. */
bool cli_syscalls_wants(const struct cli_syscalls_options *o, const struct ip_syscall_call *call);

#endif
