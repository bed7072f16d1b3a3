/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses events, both for writing a part and for adding up the size of its records.
 */
#ifndef IP_TRIM_PRIVATE_H
#define IP_TRIM_PRIVATE_H

#include "analysis/trim/trim.h"

/* The receiver of the chosen events. Each function returns 0, or -1 with an error. */
struct ip_trim_chosen {
	int (*event)(void *context, const struct ip_event *e, const uint64_t *payload);
	/* n events were lost, at about ts. */
	int (*lost)(void *context, uint64_t n, uint64_t ts);
	int (*run)(void *context, const struct ip_thread_packets *run);
	/* Called after the events of a run that ends before the trace does. */
	int (*run_end)(void *context, const struct ip_thread_packets *run);
	int (*stream_end)(void *context);
};

/* Returns whether the options choose events of the run. */
bool ip_trim_is_wanted(const struct ip_trim_options *options, const struct ip_thread_packets *run);

/* trim_members.c. Writes at most as many parts as one reading serves, of a trace of several
 * processes. *ret_done grows by the parts that exist. Returns 0, or -1 with an error. */
int ip_trim_write_members(struct ip_trace_reader *trace, const struct ip_trim_options *options,
			  struct ip_trim_part *parts, size_t n, size_t *ret_done);

/* Reads the whole trace once. Returns 0, or -1 with an error. */
int ip_trim_choose(struct ip_trace_reader *trace, const struct ip_trim_options *options,
		   const struct ip_trim_chosen *ops, void *context);

#endif
