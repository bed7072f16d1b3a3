/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of the reader of traces share.
 */
#ifndef IP_TRACE_PRIVATE_H
#define IP_TRACE_PRIVATE_H

#include "analysis/callstack/trace.h"

/* trace.c. Opens the trace of one recording. */
int ip_trace_reader_open_one(const char *dir, struct ip_trace_reader **ret);

/* trace_processes.c. Lists the processes of one recording, and gives each run its own. told: the
 * losses that packets tell. Returns 0, or -1 with an error. */
int ip_trace_reader_list_processes(struct ip_trace_reader *trace, uint64_t told);

/* Adds up what the chosen processes have: threads, processes, losses. */
void ip_trace_reader_add_up(struct ip_trace_reader *trace);

#endif
