/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the kernel of several processes by iprobed: a process of iprobed's reads them and sends
 * what this user may know of them, to this process, which records them
 * (kernel_trace/users/worker_recorder.h). The processes themselves are recorded by workers of
 * iprobed, each by its own.
 */
#ifndef IP_CLI_DAEMON_EVENTS_H
#define IP_CLI_DAEMON_EVENTS_H

#include "kernel_trace/recorder.h"

struct cli_daemon_events {
	int connection; /* to iprobed; -1: none */
	int reader;	/* to the process that reads; for struct ip_kernel_options; 0: none */
};

/* Asks iprobed where this user may not trace pid and iprobed is running. Returns 1: ret is filled
 * in; 0: iprobed is not needed, or not running; -1 with an error. */
int cli_daemon_events_open(pid_t pid, const struct ip_kernel_options *options,
			   struct cli_daemon_events *ret);
void cli_daemon_events_close(struct cli_daemon_events *events);

#endif
