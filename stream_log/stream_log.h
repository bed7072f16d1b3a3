/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live log (--stream): an observer of a collector that has each record written as soon as it is
 * known, in order of time over all threads. common/trace/stream_log_format.h tells what is written,
 * log_place.h where to, log_writer.h how nobody waits for it.
 *
 * A record is held back until every record before it is known. That is at once, but for hooks that
 * are in flight while the rings are looked at: for these it waits IP_STREAM_LOG_HOLD_NS at most;
 * and for what fills rings faster than they are drained, IP_STREAM_LOG_FULL_NS at most. What comes
 * later than that is written all the same, and counted as late.
 */
#ifndef IP_STREAM_LOG_H
#define IP_STREAM_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/observer.h"

#define IP_STREAM_LOG_HOLD_NS	  2000000ull
#define IP_STREAM_LOG_FULL_NS	  20000000ull
#define IP_STREAM_LOG_LOOK_NS	  1000000ull /* between two looks at the rings, at most */
#define IP_STREAM_LOG_INTERVAL_NS 10000000ull
#define IP_STREAM_LOG_LEAST_NS	  1000000ull /* of the interval */
#define IP_STREAM_LOG_MOST_NS	  10000000000ull

struct ip_stream_log;

struct ip_stream_log_counts {
	uint64_t batches, records; /* that were put in */
	uint64_t dropped;	   /* records that found no room: */
	uint64_t unsorted;	   /* those of them that found none to be put in order */
	uint64_t late;
	uint64_t written, unwritten; /* bytes */
	uint64_t longest_gap_ns;     /* between two batches */
	uint64_t longest_sync_ns;
	bool syncs;
	bool hangs; /* a write or sync has not returned: it was left */
};

/* Opens the place. interval_ns: a batch is written at least so often. Returns 0, or -1 with an
 * error. */
int ip_stream_log_open(const char *place, uint64_t interval_ns, struct ip_stream_log **ret);

/* The log begins. hz: of the clock. lost: returns how many events have found no room in the rings;
 * it is called by the thread that polls the collector. */
void ip_stream_log_begin(struct ip_stream_log *log, uint64_t hz, uint64_t (*lost)(void *data),
			 void *data);
/* The observer that feeds the log; it is the log's. */
const struct ip_collector_observer *ip_stream_log_observer(struct ip_stream_log *log);

/* Offers more of the session's text. Returns how many bytes were taken: whole lines, as many as
 * there is room for. */
size_t ip_stream_log_text(struct ip_stream_log *log, const char *text, size_t size);

/* Why nothing is written any more, as one line; NULL: all is well. Valid until the end. */
const char *ip_stream_log_failure(struct ip_stream_log *log);

/* Writes what was held back, up to now (TSC), waits for limit_ns at most until all is written, and
 * ends the log, which has begun. ip_stream_log_destroy() ends one as it is: nothing more is asked,
 * and what waits is not written. */
void ip_stream_log_end(struct ip_stream_log *log, uint64_t now, uint64_t limit_ns,
		       struct ip_stream_log_counts *ret);
void ip_stream_log_destroy(struct ip_stream_log *log);

#endif
