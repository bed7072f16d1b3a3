/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of one process that several recordings of a service have. A child is followed by the
 * session of its parent at first, and gets a session of its own when it executes a program or
 * becomes another user's. For people it is one process all the time.
 */
#ifndef IP_PROCESS_PARTS_H
#define IP_PROCESS_PARTS_H

#include "analysis/callstack/trace.h"

/* Finds the parts among the processes, and sets *later* of each to the process that it goes on in.
 * Numbers of parents must be those that the recordings tell. Returns 0, or -1 with an error. */
int ip_process_parts_find(struct ip_trace_reader *trace);

/* Puts each part together with the process that it goes on in: one entry of the list has the runs
 * of all, and members' lists lead to it (*joined*). Calls that were open when a part ended last
 * until the next one begins. Returns 0, or -1 with an error. */
int ip_process_parts_join(struct ip_trace_reader *trace);

#endif
