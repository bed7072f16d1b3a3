/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_event_open(2): events of tracepoints, and who may have them.
 */
#ifndef IP_PERF_EVENT_H
#define IP_PERF_EVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>

struct ip_thread_filter;
struct ip_tracepoint;

/* Opens an event of a CPU, off. size: of the ring in which its samples are to go, with which it
 * tells that it has filled up by a quarter. Returns its descriptor, or -1 with errno. */
int ip_perf_event_open_samples(unsigned type, unsigned config, unsigned cpu, size_t size);

/* Opens a tracepoint to attach programs of BPF to it. Returns its descriptor, or -1 with an error.
 */
int ip_perf_event_open_hook(const struct ip_tracepoint *tracepoint);

/* Whether programs of others than iprobe are attached to the tracepoint of an event. The kernel
 * gives its record to no perf event if one of them returns 0. filter: our own; may be NULL. */
bool ip_perf_event_has_others(int event, const struct ip_thread_filter *filter);

/* Records why an event could not be opened, by errno. Returns -1. */
int ip_perf_event_error(const char *what);

#endif
