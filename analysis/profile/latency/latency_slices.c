/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the time of a trace.
 */
#include "analysis/profile/latency/latency_slices.h"

struct ip_latency_slices ip_latency_slices_equal(const struct ip_trace_reader *trace, size_t n)
{
	return (struct ip_latency_slices){
		.n = n,
		.ns = ip_recording_ns(trace->session, trace->end - trace->begin) / n + 1,
		.begin = trace->begin};
}

struct ip_latency_slices ip_latency_slices_every(const struct ip_trace_reader *trace, uint64_t ns)
{
	const struct ip_recording *s = trace->session;
	const uint64_t first = ip_recording_since_start(s, ip_trace_reader_first_event(trace)) / ns,
		       last = ip_recording_since_start(s, ip_trace_reader_last_moment(trace)) / ns;

	return (struct ip_latency_slices){.n = last >= first ? last - first + 1 : 1,
					  .ns = ns,
					  .begin = s->tsc_start,
					  .first = first};
}

uint64_t ip_latency_slice_begin(const struct ip_latency_slices *slices, size_t slice)
{
	return (slices->first + slice) * slices->ns;
}

size_t ip_latency_slice_of(const struct ip_latency_slices *s, const struct ip_recording *session,
			   uint64_t ts)
{
	const uint64_t ns = ts > s->begin ? ip_recording_ns(session, ts - s->begin) : 0,
		       number = ns / s->ns;

	if (number < s->first)
		return 0;
	return number - s->first < s->n ? number - s->first : s->n - 1;
}
