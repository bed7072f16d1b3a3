/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobed tells a worker of its client, in a variable of the environment, and how a worker
 * whose client does not wait for its end (iprobe attach --leave) lets go of the client:
 *
 *   1. Until its session is live, the worker has the client's standard output and error: the client
 *      reads there what failed.
 *   2. When the session is live, the worker puts a pipe of iprobed in the place of both. What it
 *      says from then on stands in iprobed's log, and nobody who reads the client's output waits
 *      for the session's end.
 *   3. Only then it reports to iprobed, through another pipe, that the session is live. iprobed
 *      tells the client, which ends.
 *
 * A worker that cannot be started reports the reason through the pipe of step 3, before its image
 * has begun. iprobed takes nothing else from that pipe than these two.
 */
#ifndef IP_WORKER_CLIENT_H
#define IP_WORKER_CLIENT_H

#include <stdbool.h>

#define IP_WORKER_CLIENT_VARIABLE "IPROBE_CLIENT"
#define IP_WORKER_CLIENT_LIVE	  "live"

/* Returns the variable's value, malloc'ed; NULL with an error. report, log: the descriptors of
 * steps 3 and 2 in the worker; -1: the client waits for the end. events: the socket of the process
 * that reads events of the kernel for it; -1: none. member: the process is one of several that the
 * client records. shown: what the client calls the directory of the trace; "": as the worker does.
 * no_events: why the client is given no events of the kernel, for which it has asked where they can
 * be had; "": it is, or has not. Both are one line. */
char *ip_worker_client_text(int report, int log, int events, bool member, const char *shown,
			    const char *no_events);

/* Takes the variable from the environment, and the descriptors from children that execute others.
 * For main(), after ip_delegation_take(): a process that is no worker ignores it. Returns 0, or -1
 * with an error. */
int ip_worker_client_take(void);

/* What was taken. NULL: the worker's own name of the directory. */
bool ip_worker_client_leaves(void);
bool ip_worker_client_is_member(void);
const char *ip_worker_client_shown(void);
/* 0: there is no socket of events. */
int ip_worker_client_events(void);
/* Why there is none. NULL: there is one, or this process is no such worker. */
const char *ip_worker_client_no_events(void);

/* Steps 2 and 3, where the client does not wait for the end; else nothing. Nothing of the standard
 * output may be buffered. */
void ip_worker_client_live(void);

#endif
