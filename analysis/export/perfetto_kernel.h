/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's events in Perfetto's format, as its own recorder has them: who runs, who wakes whom,
 * interrupts. Perfetto's views of threads and its critical paths are made of these.
 */
#ifndef IP_PERFETTO_KERNEL_H
#define IP_PERFETTO_KERNEL_H

#include <stdio.h>

#include "analysis/callstack/trace.h"

/* Writes packets of the events of a trace, if it has any, with times as ip_recording_since_start()
 * has them. sequence: the number of the packets' sequence. damage is told of what is wrong with the
 * events, a line each. Returns 0, or -1 with an error; a write error is kept by the stream. */
int ip_perfetto_kernel_put(const struct ip_trace_reader *trace, uint64_t sequence,
			   void (*damage)(const char *line), FILE *out);

#endif
