/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a trace directory from events, for trim.c. The order of calls: create; for each stream
 * its threads in turn, each with its events and losses, then the stream's end; finish or
 * discard.
 */
#ifndef IP_TRIM_WRITE_H
#define IP_TRIM_WRITE_H

#include "analysis/trim/trim.h"
#include "common/trace/trace_format.h"

struct ip_trim_writer;

/* Returns whether a record can be compact: its difference to the record before it in the packet
 * fits. */
static inline bool ip_trim_is_compact(const struct ip_event *e, uint64_t ts_before,
				      uint64_t sp_before)
{
	return e->ts >> IP_TIME_BITS == ts_before >> IP_TIME_BITS &&
	       e->sp - sp_before + IP_SP_WINDOW / 2 < IP_SP_WINDOW;
}

/* dir must not exist: the directory is made under another name and gets its own name at the end.
 * Returns 0, or -1 with an error. */
int ip_trim_writer_create(const struct ip_trace_reader *trace,
			  const struct ip_trim_options *options, const char *dir,
			  struct ip_trim_writer **ret);

int ip_trim_writer_thread(struct ip_trim_writer *w, uint32_t stream, uint32_t pid, uint32_t tid);
/* payload: as ip_event_payload() returns it; NULL: none. */
int ip_trim_writer_event(struct ip_trim_writer *w, const struct ip_event *e,
			 const uint64_t *payload);
int ip_trim_writer_lost(struct ip_trim_writer *w, uint64_t n, uint64_t ts);
/* Tells that the thread lived at end and was gone at gone (0: its end was not seen). Writes
 * nothing where the part has no events of the thread. */
int ip_trim_writer_thread_end(struct ip_trim_writer *writer, uint64_t end, uint64_t gone);
int ip_trim_writer_end_stream(struct ip_trim_writer *w);

/* Both free the writer. ip_trim_writer_discard() also removes what was written. */
int ip_trim_writer_finish(struct ip_trim_writer *w, const struct ip_trim_options *options,
			  struct ip_trim_result *ret);
void ip_trim_writer_discard(struct ip_trim_writer *w);

#endif
