/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --kernel in a session: events of the kernel are recorded from before the probes go live until
 * after nothing is recorded any more (kernel_trace/recorder.h). Where the session is one of a
 * service, the service records them, for all of its processes (service/kernel_events.h).
 */
#ifndef IP_KERNEL_EVENTS_H
#define IP_KERNEL_EVENTS_H

#include "common/trace/end_reason.h"

struct ip_session;
struct ip_trace;

/* Begins to record, if the session's options ask for it. The trace must be made. Returns 0, or -1
 * with an error. */
int ip_session_kernel_begin(struct ip_session *s);

/* Counts what was written. Returns why the session has to end, or IP_END_NONE: the trace is as
 * large as it may be, or the kernel's events cannot be recorded any more, which a notice tells. */
enum ip_end_reason ip_session_kernel_step(struct ip_session *s);

/* Records no more, and fills in the summary. A notice tells what could not be recorded at the end.
 */
void ip_session_kernel_end(struct ip_session *s);

/* Writes the metadata for the last time; the trace is finished, and its clock known. Returns 0, or
 * -1 with an error. */
int ip_session_kernel_describe(struct ip_session *s);

/* Writes the events that are kept in memory into the trace of a snapshot. Returns 0, or -1 with an
 * error. */
int ip_session_kernel_snapshot(struct ip_session *s, struct ip_trace *trace);

#endif
