/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports traces for the viewers of other projects. Each function writes the whole of out and
 * does not close it. A write error is kept by the stream: the caller checks ferror(). Each
 * returns 0, or -1 with an error.
 */
#ifndef IP_EXPORT_H
#define IP_EXPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/callstack/trace.h"
#include "analysis/wait/trace_waits.h"

struct ip_export_options {
	const bool *selected; /* by function */
	uint32_t tid;	      /* this thread only; 0: all threads */
	/* folded, callgrind, pprof, html: threads are told apart, or processes */
	bool by_thread, by_process;
	bool full_names; /* folded, callgrind: whole names in the place of short ones */
	/* html: the trace to compare with, and what is selected in it; NULL: none */
	struct ip_trace_reader *other;
	const bool *other_selected;
	/* what the kernel's events tell; NULL: the trace has none, or the format does not use them
	 */
	struct ip_trace_waits *waits;
	/* is told of what is wrong with the kernel's events where waits is not used, a line each
	 */
	void (*damage)(const char *line);
	bool idle;	      /* html, pprof, off-CPU stacks: idle waits are not set aside */
	bool off_wake;	      /* off-CPU stacks: with who ended each wait */
	uint64_t interval_ns; /* html: columns of heat maps; 0: equal parts of the time */
	uint64_t details;     /* html: bytes that short calls may take, one by one */
	/* gets the number of events that were read where none of them is in the file, else 0 */
	uint64_t *unchosen;
	/* off-CPU stacks, pprof: gets for how long it is not known what the calls waited for, ns
	 */
	uint64_t *unknown;
	/* off-CPU stacks, pprof: gets for how long threads were idle, which is left out, ns */
	uint64_t *idle_ns;
};

/* Writes every event in the Trace Event Format of chrome://tracing, Perfetto's UI, Firefox
 * Profiler and speedscope ("Trace Event Format", Google, 2016). Frames are pairs of B and E,
 * points are instant events, values are arguments. */
int ip_export_chrome(struct ip_trace_reader *trace, const struct ip_export_options *options,
		     FILE *out);

/* Writes every event for Perfetto, in its own format (TrackEvent): smaller, and read faster. Events
 * of the kernel become those of Perfetto's own recorder. */
int ip_export_perfetto(struct ip_trace_reader *trace, const struct ip_export_options *options,
		       FILE *out);

/* Writes one line for each call path with its self time in nanoseconds: flamegraph.pl, inferno,
 * speedscope. Call paths begin at selected functions. */
int ip_export_folded(struct ip_trace_reader *trace, const struct ip_export_options *options,
		     FILE *out);

/* Writes one line for each call path and what it waited for with the time off the CPU in
 * microseconds: blocked on an object, or in the run queue. With off_wake the line goes on with what
 * ended the wait: "--", the calls of the waker, the innermost first, and its thread's name. Of the
 * run queue that is the name of the thread that had the CPU. waits must be there. */
int ip_export_off_cpu(struct ip_trace_reader *trace, const struct ip_export_options *options,
		      FILE *out);

/* Writes functions, their calls of each other, and what these cost: KCachegrind,
 * callgrind_annotate ("Callgrind Format Specification", Valgrind). */
int ip_export_callgrind(struct ip_trace_reader *trace, const struct ip_export_options *options,
			FILE *out);

/* Writes call paths with the number of their calls and their self time: pprof (profile.proto,
 * compressed). With waits also by how much of it was on a CPU and off it, and without what was
 * idle. */
int ip_export_pprof(struct ip_trace_reader *trace, const struct ip_export_options *options,
		    FILE *out);

/* Writes a page for browsers that needs no other file: timeline, flame graph, figures,
 * histograms (analysis/export/html/). */
int ip_export_html(struct ip_trace_reader *trace, const struct ip_export_options *options,
		   FILE *out);

#endif
