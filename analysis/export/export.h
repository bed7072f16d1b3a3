/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces for other people's viewers. Each writes the whole of out and leaves it open; a write error
 * is the stream's, the caller looks at ferror(). 0, or -1 with an error.
 */
#ifndef IP_EXPORT_H
#define IP_EXPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/callstack/trace.h"

struct ip_export_options {
	const bool *selected; /* by function */
	uint32_t tid;	      /* of this thread alone; 0: of all */
	/* html: the trace that it is compared with, and what is selected there; NULL: none */
	struct ip_trace_reader *other;
	const bool *other_selected;
};

/* Every event: the Trace Event Format of chrome://tracing, Perfetto's UI, Firefox Profiler and
 * speedscope ("Trace Event Format", Google, 2016). Frames are pairs of B and E, points instant
 * events, values arguments. */
int ip_export_chrome(struct ip_trace_reader *trace, const struct ip_export_options *options,
		     FILE *out);

/* The same for Perfetto, in its own format: smaller, and read faster (TrackEvent). */
int ip_export_perfetto(struct ip_trace_reader *trace, const struct ip_export_options *options,
		       FILE *out);

/* One line for each way of calls with its own time in nanoseconds: flamegraph.pl, inferno,
 * speedscope. Selected functions are where ways begin. */
int ip_export_folded(struct ip_trace_reader *trace, const struct ip_export_options *options,
		     FILE *out);

/* Functions, who calls whom, and what it costs: KCachegrind, callgrind_annotate ("Callgrind Format
 * Specification", Valgrind). */
int ip_export_callgrind(struct ip_trace_reader *trace, const struct ip_export_options *options,
			FILE *out);

/* Ways of calls with their number and own time: pprof (profile.proto, compressed). */
int ip_export_pprof(struct ip_trace_reader *trace, const struct ip_export_options *options,
		    FILE *out);

/* A page for browsers that needs nothing else: timeline, flame graph, figures, histograms
 * (analysis/html/). */
int ip_export_html(struct ip_trace_reader *trace, const struct ip_export_options *options,
		   FILE *out);

#endif
