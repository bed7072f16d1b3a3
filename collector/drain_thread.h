/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that drains the rings while the session's thread is busy with a plan or a stop. A plan
 * for many functions may take longer than the rings last.
 *
 * While the drain thread runs, the session's thread must not use the collector or the trace's
 * streams. It may use everything else of the trace. Only the session's thread may call ptrace,
 * since the kernel binds a tracee to a thread of the tracer and not to its process.
 */
#ifndef IP_DRAIN_THREAD_H
#define IP_DRAIN_THREAD_H

#include "collector/collector.h"

struct ip_drain_thread;

/* collector is borrowed. Returns NULL if no thread can be created: then nothing is drained, and
 * ip_drain_thread_stop(NULL) is allowed. */
struct ip_drain_thread *ip_drain_thread_start(struct ip_collector *collector);

/* Ends the thread. Returns -1 with an error if the trace could not be written. */
int ip_drain_thread_stop(struct ip_drain_thread *drain_thread);

#endif
