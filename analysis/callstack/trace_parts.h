/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a trace by several threads at once. The streams are divided into parts, in their order and
 * of about the same size. Each part has a receiver of its own; when all parts before it are done,
 * its result is put to theirs. So the result is the same as that of one thread.
 *
 * Where the caller wants to see the result grow (trace->progress), the caller's thread does not
 * read: it waits, and asks for copies. Each thread copies its receiver after a packet, and ends the
 * copy's calls there. The copies are put together as the parts are.
 */
#ifndef IP_TRACE_PARTS_H
#define IP_TRACE_PARTS_H

#include "analysis/callstack/trace.h"

struct ip_trace_parts {
	/* Returns the receiver of one part, for visitor.ops, .words and .run. NULL with an error.
	 * It is called by any thread. */
	void *(*create)(void *context);
	/* Ends a part, when all of its runs have been read. Returns 0, or -1 with an error. It is
	 * called by any thread, for one part at a time. */
	int (*end)(void *part);
	/* Puts the result of part to that of first, which lies before it in the trace. Returns as
	 * end does. One part is merged at a time. */
	int (*merge)(void *first, void *part);
	void (*destroy)(void *part);
	/* Returns a copy of a part, which has ended or is being read, for the thread that owns the
	 * part then; what the copy is given afterwards does not change the part. NULL: it would
	 * take too much memory. The function itself is NULL where parts have no copies. */
	void *(*copy)(void *part);
	/* Makes the result for the caller of the parts that have been put together: of copies, and
	 * of all parts. NULL: nothing is to be made. */
	void (*complete)(void *part, uint64_t events);
	struct ip_trace_visitor visitor; /* without a context */
	void *context;			 /* of create() */
	/* Bytes that a receiver takes, about: fewer threads read where all together would take too
	 * much. */
	size_t size;
};

/* Feeds all events to receivers, by at most trace->jobs threads, the caller's among them. *ret_part
 * is the receiver with the whole result; the caller destroys it. Returns 0, or -1 with an error. */
int ip_trace_reader_visit_parts(struct ip_trace_reader *trace, const struct ip_trace_parts *parts,
				void **ret_part, uint64_t *ret_events);

#endif
