/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All events of a trace in order of time over all threads, for formats of beginnings and ends.
 * Within a thread these nest, also where a coroutine's frames are left and come back: each time
 * that such a frame is on the stack is a pair of its own.
 */
#ifndef IP_EXPORT_EVENTS_H
#define IP_EXPORT_EVENTS_H

#include "analysis/export/export.h"

enum ip_export_kind { IP_EXPORT_BEGIN, IP_EXPORT_END, IP_EXPORT_INSTANT };

struct ip_export_event {
	enum ip_export_kind kind;
	uint32_t function;
	uint64_t ts; /* TSC */
	/* values that came with the event: arguments, or the result of an end; NULL: none */
	const uint64_t *payload;
	/* The end is that of a tail call. It is not known when the call returned. */
	bool until_tail;
};

struct ip_export_writer {
	/* The events that follow belong to this thread. */
	void (*run)(void *context, const struct ip_thread_packets *run);
	/* Writes an event. Returns false where it could not, because memory ran out or the
	 * stream had a write error. */
	bool (*event)(void *context, const struct ip_export_event *event);
};

/* Passes all events that the options choose to the writer. Returns 0, or -1 with an error. The
 * caller checks out for write errors. */
int ip_export_events(struct ip_trace_reader *trace, const struct ip_export_options *options,
		     const struct ip_export_writer *writer, void *context, FILE *out);

#endif
