/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads events of the kernel for a user who may not read them: a process of its own, with the right
 * to use tracefs, at one end of a socket (event_protocol.h). At the other end is the worker that
 * records them with the user's rights (worker_recorder.h). This process opens no file but tracefs'
 * and /proc's, and receives no descriptor. What it hands over is what the user may know
 * (event_filter.h), and nothing else comes to memory of the worker.
 *
 *   1. The worker asks for groups of events: instances are made (recorder.h).
 *   2. It asks for the one process that the reader was started for, or for some, one after the
 *      other. Whether the user may trace it is checked before anything is recorded of it, and again
 *      when execs are recorded. Its threads are listed by number: it is refused if it has ended
 *      meanwhile.
 *   3. In each round the buffers are read first. Then each process that is shown is checked: its
 *      identity now is that of all its events that were read, unless it has executed a program
 *      since the last check, which is among the events. Only then the events are filtered, in the
 *      order of time, and sent. A process that is not what the user may trace any more is not shown
 *      from then on. If it is the one process of step 2, the recording is over.
 *   4. The instances are removed when the worker asks for it, or is gone. Where this process is
 *      killed the next one that records events of the kernel removes them (instance.h).
 */
#ifndef IP_EVENT_READER_H
#define IP_EVENT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_EVENT_TARGETS_MOST 4096u /* processes of step 2 */

enum ip_event_access {
	IP_EVENT_FORBIDDEN = -1, /* the error says why */
	IP_EVENT_GONE,		 /* there is no such process */
	IP_EVENT_ALLOWED,
};

struct ip_event_reader_options {
	int socket;
	pid_t pid; /* the one process; 0: the worker asks for some; step 2 */
	/* that is asked for now: by its number no other one is meant later. Returns 0, or -1 with
	 * an error. NULL: not called */
	int (*hold)(void *context, pid_t pid);
	/* asks whether a process, a child of that one perhaps, may be shown to the user now */
	enum ip_event_access (*access)(void *context, pid_t pid);
	/* whether the process that was asked for is still there: then the number is its own. NULL:
	 * it is always there */
	bool (*lives)(void *context, pid_t pid);
	void *context;
	uint64_t buffer_most; /* bytes for each CPU and instance */
};

/* Serves until the worker is gone, or has asked for the end. To be called once in a process;
 * SIGTERM ends it. Returns 0; -1: something remains in tracefs. */
int ip_event_reader_serve(const struct ip_event_reader_options *options);

#endif
