/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of a trace, and what is known of their threads and descriptors.
 */
#ifndef IP_CLI_SYSCALLS_LOAD_H
#define IP_CLI_SYSCALLS_LOAD_H

#include "analysis/callstack/trace.h"
#include "analysis/read/names.h"
#include "analysis/syscalls/syscall_reader.h"
#include "analysis/syscalls/syscall_sums.h"
#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/machine_ids.h"
#include "analysis/wait/thread_states.h"
#include "cli/syscalls/own_calls.h"
#include "cli/syscalls/syscalls_options.h"

struct cli_syscalls_process {
	int32_t tid; /* 0: the place is free */
	uint32_t pid;
};

struct cli_syscalls_trace {
	const struct cli_syscalls_options *options;
	struct ip_trace_reader *trace;
	struct ip_names *names;
	bool *selected; /* functions of -f; NULL: all calls are meant */
	struct ip_syscall_reader *reader;
	struct ip_syscall_reader_sums read;
	/* the table needs sums alone; what needs more has the calls themselves, in the order of
	 * their returns, and by call the function that made it */
	bool keeps;
	struct ip_syscall_sums sums;
	struct cli_syscalls_own own; /* which are not among the others */
	struct ip_syscall_call *calls;
	uint32_t *functions;
	size_t ncalls;
	struct ip_descriptors descriptors;
	/* Private. */
	struct ip_closing *closings;
	size_t nclosings;
	/* whose a thread was at a time; NULL where the scheduler's events are missing, which tell
	 * of the births of threads */
	struct ip_states *states;
	struct ip_machine_ids *ids;
	/* without these: of threads that were there at the beginning, or are known by their clone;
	 * open addressing */
	struct cli_syscalls_process *processes;
	size_t processes_size;
	size_t nprocesses;
};

/* Reads a trace. The caller clears *ret in any case. Returns 0, or -1 with an error. */
int cli_syscalls_load(const char *dir, const struct cli_syscalls_options *o,
		      struct cli_syscalls_trace *ret);
void cli_syscalls_clear(struct cli_syscalls_trace *t);

/* The process of a thread at a time; 0: not known. */
uint32_t cli_syscalls_process_of(const struct cli_syscalls_trace *t, int32_t tid, uint64_t tsc);

/* What a descriptor was; NULL: not known. context: struct cli_syscalls_trace. */
const char *cli_syscalls_descriptor(void *context, int32_t tid, int32_t fd, uint64_t tsc);

/* The path that an argument of a call was; NULL: not known. context: struct cli_syscalls_trace. */
const char *cli_syscalls_path(void *context, const struct ip_syscall_call *call, unsigned argument);

#endif
