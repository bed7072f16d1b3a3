/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of the reader of traces share.
 */
#ifndef IP_TRACE_PRIVATE_H
#define IP_TRACE_PRIVATE_H

#include "analysis/callstack/trace.h"

/* trace.c. Opens the trace of one recording. */
int ip_trace_reader_open_one(const char *dir, struct ip_trace_reader **ret);

/* trace_processes.c. Lists the processes of one recording, and gives each run its own. told: the
 * losses that packets tell. Returns 0, or -1 with an error. */
int ip_trace_reader_list_processes(struct ip_trace_reader *trace, uint64_t told);

/* Adds up what the chosen processes have: threads, processes, losses. */
void ip_trace_reader_add_up(struct ip_trace_reader *trace);

/* What a visit of some runs has found besides the events. The damages are malloc'ed. */
struct ip_trace_result {
	uint64_t events, silent;
	char **damages;
	size_t ndamages;
};

/* trace.c. Visits the runs from from up to to, which begin and end with a stream, by a machine that
 * has seen no run yet. visitor and frames NULL: counts the events only. *ret is valid even where it
 * fails. Returns 0, or -1 with an error. Threads may visit different runs of a trace at once. */
int ip_trace_reader_visit_runs(struct ip_trace_reader *trace, size_t from, size_t to,
			       const struct ip_trace_visitor *visitor, struct ip_frames *frames,
			       struct ip_trace_result *ret);

/* Moves what was found to the trace, and the events to *ret_events. Returns 0, or -1 with an
 * error; visit is empty then, too. */
int ip_trace_result_take(struct ip_trace_result *visit, struct ip_trace_reader *trace,
			 uint64_t *ret_events);

#endif
