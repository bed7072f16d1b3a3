/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of the reader of traces share.
 */
#ifndef IP_TRACE_PRIVATE_H
#define IP_TRACE_PRIVATE_H

#include "analysis/callstack/trace.h"

/* trace.c. Opens the trace of one recording. progress: who is told how far that is; NULL: nobody.
 */
int ip_trace_reader_open_one(const char *dir, struct ip_trace_progress *progress,
			     struct ip_trace_reader **ret);

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

/* Called after each packet of a visit: of what run it is, and how many bytes of records it has.
 * Returns 0; 1: the visit ends there, as if the trace did; -1 with an error. */
struct ip_trace_pause {
	int (*at)(void *context, struct ip_frames *frames, const struct ip_thread_packets *run,
		  uint64_t bytes);
	void *context;
};

/* trace.c. Visits the runs from from up to to, which begin and end with a stream, by a machine that
 * has seen no run yet. visitor and frames NULL: counts the events only. pause NULL: none. *ret is
 * valid even where it fails. Returns 0, or -1 with an error. Threads may visit different runs of a
 * trace at once. */
int ip_trace_reader_visit_runs(struct ip_trace_reader *trace, size_t from, size_t to,
			       const struct ip_trace_visitor *visitor, struct ip_frames *frames,
			       const struct ip_trace_pause *pause, struct ip_trace_result *ret);

/* trace_progress.c. ip_trace_progress_begin() begins to count anew. ip_trace_progress_ask() is for
 * ip_trace_pause of a visit by the caller's own thread: context is the struct
 * ip_trace_progress. */
void ip_trace_progress_begin(struct ip_trace_progress *progress,
			     const struct ip_trace_reader *trace);
int ip_trace_progress_ask(void *context, struct ip_frames *frames,
			  const struct ip_thread_packets *run, uint64_t bytes);

/* Moves what was found to the trace, and the events to *ret_events. Returns 0, or -1 with an
 * error; visit is empty then, too. */
int ip_trace_result_take(struct ip_trace_result *visit, struct ip_trace_reader *trace,
			 uint64_t *ret_events);

#endif
