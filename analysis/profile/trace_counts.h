/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counts of a trace (counts.h): of one process, or of several added up.
 */
#ifndef IP_TRACE_COUNTS_H
#define IP_TRACE_COUNTS_H

#include "analysis/callstack/trace.h"
#include "analysis/profile/counts.h"

/* Loads the counts of a trace. They are empty where there is no such file. Those of several
 * processes are added up; processes that were not chosen (ip_trace_reader_choose()) do not count
 * where they have counts of their own. Returns 0, or -1 with an error. */
int ip_counts_of_trace(const struct ip_trace_reader *trace, struct ip_counts **ret);

#endif
