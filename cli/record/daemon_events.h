/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the kernel by iprobed, without a session of its own: a process of iprobed's reads them
 * and sends what this user may know of them, to this process, which records or counts them
 * (kernel_trace/users/worker_recorder.h). Several processes themselves are recorded by workers of
 * iprobed, each by its own.
 */
#ifndef IP_CLI_DAEMON_EVENTS_H
#define IP_CLI_DAEMON_EVENTS_H

#include "kernel_trace/recorder.h"

struct cli_daemon_events {
	int connection; /* to iprobed; -1: none */
	int reader;	/* to the process that reads; for struct ip_kernel_options; 0: none */
};

/* Asks iprobed where this user may not have events of the kernel, or may not trace pid, and iprobed
 * is running. traces: the process is traced, too: if it is not, events are all that counts. Returns
 * 1: ret is filled in; 0: iprobed is not needed, or not running; -1 with an error. */
int cli_daemon_events_open(pid_t pid, const struct ip_kernel_options *options, bool traces,
			   struct cli_daemon_events *ret);

/* Why this user cannot have events of the kernel: the error that is there, and that iprobed could
 * give them, if that is so. Returns -1 with that error. */
int cli_daemon_events_missing(const struct ip_kernel_options *options);

void cli_daemon_events_close(struct cli_daemon_events *events);

#endif
