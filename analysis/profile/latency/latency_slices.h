/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices of time in which calls are counted: equal parts of a trace, or intervals of a length.
 */
#ifndef IP_LATENCY_SLICES_H
#define IP_LATENCY_SLICES_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"

/* Slices of time. All zero: nothing is counted over time. */
struct ip_latency_slices {
	size_t n;
	uint64_t ns;	/* of each */
	uint64_t begin; /* TSC; they are counted from there */
	uint64_t first; /* number of the first one: it begins first * ns after begin */
};

/* Returns n slices of equal length, from the trace's begin to its end. */
struct ip_latency_slices ip_latency_slices_equal(const struct ip_trace_reader *trace, size_t n);
/* Returns slices of ns each, counted from the recording's start, as far as there may be events. */
struct ip_latency_slices ip_latency_slices_every(const struct ip_trace_reader *trace, uint64_t ns);
/* Returns the slice that has a time (TSC): the first or the last one where none does. */
size_t ip_latency_slice_of(const struct ip_latency_slices *slices,
			   const struct ip_recording *session, uint64_t ts);
/* Returns when a slice begins, in ns since begin. */
uint64_t ip_latency_slice_begin(const struct ip_latency_slices *slices, size_t slice);

#endif
