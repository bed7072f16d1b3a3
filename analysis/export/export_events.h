/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All events of a trace in the order of time over all threads, as formats with beginnings and ends
 * want them: within a thread these nest, also where a coroutine's frames are left and come back:
 * each stay is a pair of its own.
 */
#ifndef IP_EXPORT_EVENTS_H
#define IP_EXPORT_EVENTS_H

#include "analysis/export/export.h"

enum ip_export_kind { IP_EXPORT_BEGIN, IP_EXPORT_END, IP_EXPORT_INSTANT };

struct ip_export_event {
	enum ip_export_kind kind;
	uint32_t function;
	uint64_t ts; /* TSC */
	/* that came with it: arguments, of an end the result; NULL: none */
	const uint64_t *payload;
	bool until_tail; /* of an end: that of a tail call. Nobody knows when the call returned */
};

struct ip_export_writer {
	/* The events that follow are this thread's. */
	void (*run)(void *context, const struct ip_run *run);
	/* false: it could not be written, for want of memory or because of a write error of the
	 * stream. */
	bool (*event)(void *context, const struct ip_export_event *event);
};

/* Tells the writer all events that the options choose. 0, or -1 with an error; a write error of out
 * is the caller's. */
int ip_export_events(struct ip_trace_reader *trace, const struct ip_export_options *options,
		     const struct ip_export_writer *writer, void *context, FILE *out);

#endif
