/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows a reader's result while the trace is being read. The reader asks its caller from time to
 * time, on the caller's thread: shall it read on, show what it has, or end?
 *
 * What is shown is what the result would be if the trace ended where its threads have been read up
 * to. The threads that read copy their sums for it between two packets, one after the other. A
 * reader without such copies tells only how far it is.
 */
#ifndef IP_TRACE_PROGRESS_H
#define IP_TRACE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* The caller is asked so often. */
#define IP_PROGRESS_NS 20000000ull

enum ip_progress_request {
	IP_PROGRESS_NONE,
	IP_PROGRESS_SHOW,
	/* The reading ends early, as if the trace ended there. It succeeds. */
	IP_PROGRESS_STOP,
};

struct ip_trace_progress {
	enum ip_progress_request (*look)(void *context, const struct ip_trace_progress *progress);
	/* result: of the kind that the reader returns, valid during the call; NULL: there is no
	 * copy. */
	void (*show)(void *context, const struct ip_trace_progress *progress, void *result);
	void *context;
	/* Set by the reader. Bytes are those of records (struct ip_thread_packets). */
	uint64_t read_bytes, all_bytes;
	bool stopped;	  /* the reading has ended early */
	uint64_t next_ns; /* private: when the caller is asked next (CLOCK_MONOTONIC) */
};

#endif
