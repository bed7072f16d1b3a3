/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reports of iprobe wait are made from: a trace with kernel events, read.
 */
#ifndef IP_CLI_WAIT_LOAD_H
#define IP_CLI_WAIT_LOAD_H

#include "analysis/callstack/trace.h"
#include "analysis/read/names.h"
#include "analysis/wait/cpu_users.h"
#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/machine_ids.h"
#include "analysis/wait/object_name.h"
#include "analysis/wait/thread_states.h"
#include "analysis/wait/wait_profile.h"
#include "cli/wait/wait_report.h"

struct cli_wait_trace {
	const char *dir;
	const struct cli_wait_options *options;
	struct ip_trace_reader *trace;
	struct ip_states *states;
	struct ip_machine_ids *ids;
	struct ip_descriptors descriptors;
	struct ip_names *names;
	struct ip_object_names *object_names;
	bool *selected;			/* by function */
	struct ip_thread_owners owners; /* by ids and members */
	/* members of threads, by tid */
	struct cli_wait_member {
		uint32_t tid, member;
	} * members;
	size_t nmembers;
	struct ip_idle_waits idle; /* cli_wait_find_idle() */
	struct ip_cpu_users users; /* of the CPUs */
};

/* Reads a trace. Its threads and processes have the machine's ids then (machine_ids.h). The caller
 * clears *ret in any case. Returns 0, or -1 with an error. */
int cli_wait_load(const char *dir, const struct cli_wait_options *o, struct cli_wait_trace *ret);
void cli_wait_clear(struct cli_wait_trace *t);

/* Finds the idle waits, unless --idle puts them to the others. Returns 0, or -1 with an error. */
int cli_wait_find_idle(struct cli_wait_trace *t);
/* Those that are to be told apart; NULL: none. */
const struct ip_idle_waits *cli_wait_idle(const struct cli_wait_trace *t);

/* The name of a state of a thread, as the JSON has it. */
const char *cli_wait_state_name(uint8_t state);

double cli_wait_ns(const struct cli_wait_trace *t, uint64_t ticks);
/* Prints how much was recorded, and what of it was lost; idle: for how long threads were idle in
 * calls, which is set aside, in ticks. */
void cli_wait_print_head(const struct cli_wait_trace *t, uint64_t events, uint64_t idle);
/* Prints the heads of the columns of times, and what heads the last one. idle: there is a column
 * for it. */
void cli_wait_print_columns(const char *count, const char *name, bool idle);
/* Prints a number and the times of parts, without the end of the line. */
void cli_wait_print_parts(const struct cli_wait_trace *t, uint64_t count,
			  const struct ip_wait_parts *parts, bool idle);
/* Prints the idle ones of n waits as a line of its own, where there are some. indent: of what is
 * behind the columns; mark: what stands there. */
void cli_wait_print_idle(const struct cli_wait_trace *t, const struct ip_wait_profile *profile,
			 const struct ip_wait_sum *waits, size_t n, int indent, const char *mark);

/* " (3 times)": how often a thread was blocked. Where it was blocked before what is looked at
 * began, and not again, that is said. */
void cli_wait_print_times(uint64_t count);

#endif
