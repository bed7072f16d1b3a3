/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining rings in a thread of its own, while the session's thread is busy with a plan or a stop:
 * a plan for many functions may take longer than the rings last.
 *
 * In between the session's own thread leaves the collector, and the trace's streams, alone.
 * Everything else of the trace is its own, and so is ptrace, which knows threads and not processes.
 */
#ifndef IP_DRAIN_THREAD_H
#define IP_DRAIN_THREAD_H

#include "collector/collector.h"

struct ip_drain_thread;

/* collector is borrowed. NULL where no thread can be had: then nothing is drained, and
 * ip_drain_thread_stop(NULL) is fine. */
struct ip_drain_thread *ip_drain_thread_start(struct ip_collector *collector);

/* Ends it. -1 with an error where the trace could not be written. */
int ip_drain_thread_stop(struct ip_drain_thread *drain_thread);

#endif
