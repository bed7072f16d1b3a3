/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace directory as its readers see it: the session, the streams, and the threads that wrote
 * them.
 */
#ifndef IP_TRACE_H
#define IP_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/frames.h"
#include "analysis/read/session.h"
#include "analysis/read/stream.h"

/* Consecutive packets of one thread in one stream. A thread has one run, unless its process
 * became another program. */
struct ip_run {
	uint32_t stream; /* index into first */
	uint32_t pid, tid;
	uint32_t packets;
	uint64_t events; /* once they have been counted or visited */
	uint64_t bytes;	 /* of records, as packet headers say: 8 an event, mostly */
	uint64_t begin;
	/* Up to when the calls that are open at its last event count: never longer than it lived.
	 *   The trace tells of its end: when it was seen last.
	 *   Else its last event, where another thread has the stream after it, or nobody looked
	 *   for ends (a trace of an older iprobe). Else the thread's next run, its process's
	 *   next exec, or the trace's end. */
	uint64_t end;
	uint64_t gone; /* by then it had ended; 0: nobody saw that */
};

struct ip_trace_reader {
	char *dir;
	struct ip_recording *session;
	char **names; /* of the stream files, with dir, by number */
	size_t nnames;
	/* by stream: its first file; those up to the next stream's first are its pieces, in
	 * order */
	size_t *first;
	size_t nstreams;
	struct ip_run *runs; /* by stream, in the order of the file */
	size_t nruns;
	uint64_t threads;   /* different threads */
	uint64_t processes; /* different processes */
	/* TSC: the session's, or of the first and last event where it has none */
	uint64_t begin, end;
	uint64_t lost;	       /* events, over all */
	uint64_t ended;	       /* runs whose end was seen */
	uint64_t ended_within; /* ticks from a run's end to when that was seen, at most */
	uint64_t missing;      /* packets that are not there */
	char **damages; /* a line for each stream that is damaged, as far as packet headers tell */
	size_t ndamages;
};

/* Opens a trace and looks at all packet headers. 0, or -1 with an error. */
int ip_trace_reader_open(const char *dir, struct ip_trace_reader **ret);
void ip_trace_reader_close(struct ip_trace_reader *trace);

/* Opens a stream, all of its pieces. The caller's. 0, or -1 with an error. */
int ip_trace_reader_stream(const struct ip_trace_reader *trace, uint32_t stream,
			   struct ip_stream **ret);
/* The same as ip_stream_open_small() opens it. */
int ip_trace_reader_stream_small(const struct ip_trace_reader *trace, uint32_t stream,
				 struct ip_unpack **unpack, struct ip_stream **ret);

/* Where the events of a trace go, one thread after the other: */
struct ip_trace_visitor {
	const struct ip_frames_ops *ops;
	void *context; /* of ops and run */
	/* the events that follow are this thread's */
	void (*run)(void *context, const struct ip_run *run);
};

/* Feeds all events to the visitor, thread by thread. *ret_events: how many. 0, or -1 with an
 * error. */
int ip_trace_reader_visit(struct ip_trace_reader *trace, const struct ip_trace_visitor *visitor,
			  uint64_t *ret_events);

/* Counts all events. 0, or -1 with an error. */
int ip_trace_reader_count(struct ip_trace_reader *trace, uint64_t *ret_events);

/* The next packet of a run, which was there when the trace was opened. 1, or -1 with an error. */
int ip_trace_reader_next_packet(struct ip_stream *stream, struct ip_packet *ret);

/* Notes a damage line, once. 0, or -1 with an error where memory ran out. */
int ip_trace_reader_damaged(struct ip_trace_reader *trace, const char *line);

#endif
