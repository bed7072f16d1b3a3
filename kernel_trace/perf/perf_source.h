/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records from perf_event_open(2): for where no instance of tracefs can be made, but its files can
 * be read, which have the numbers and layouts of tracepoints.
 *
 * Each part has a ring for each CPU (perf_ring.h). Tracepoints that threads come by in what they do
 * themselves (system calls, faults, signals) are recorded of the target's threads alone
 * (thread_filter.h). Others are recorded of all, and wants() chooses: a program of BPF would not
 * know in which interrupt it runs, and would miss those that interrupt another program.
 *
 * perf events do not come where another tool's program of BPF at the same tracepoint returns 0, nor
 * from CPUs that come online later. Nothing counts them. Sources with such a tool are refused;
 * where one comes later, or a CPU does, misses() tells.
 */
#ifndef IP_PERF_SOURCE_H
#define IP_PERF_SOURCE_H

#include "kernel_trace/record_source.h"

struct ip_event_layout;

/* layout: borrowed. Returns NULL with an error. */
struct ip_record_source *ip_perf_source_create(const struct ip_event_layout *layout);

/* Whether this process may record so. Records nothing. Returns 0, or -1 with an error. */
int ip_perf_source_check(const struct ip_event_layout *layout);

#endif
