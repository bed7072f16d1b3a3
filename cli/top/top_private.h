/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source of the figures of iprobe top (top_session.c) has for several processes
 * (top_service.c).
 */
#ifndef IP_CLI_TOP_PRIVATE_H
#define IP_CLI_TOP_PRIVATE_H

#include "cli/live_counts.h"
#include "cli/top/top.h"
#include "service/service.h"
#include "session/session.h"

struct cli_top_service {
	struct ip_service_choice choice;
	struct cli_top_seen *seen; /* processes that were asked for a session */
	size_t nseen;
};

/* In the child: measures the processes of the choice that have no session until the end. dir is
 * made here. live: a byte is written there whenever a session is live. Returns the exit code. */
int cli_top_service_run(const struct cli_top_options *options, const char *dir, int live);

/* Has a session measure calls and, where events of the kernel are asked for, log them too. pid: the
 * target; 0: not known. Returns 0, or -1 with an error. */
int cli_top_choose_payload(struct ip_session_options *options, pid_t pid);

/* In a worker: has iprobed measure one process, where this user may not trace it. dir: of its
 * trace. is_live: called when it is measured. Returns -1 where iprobed is not needed or not
 * running; else the exit code. */
int cli_top_via_daemon(const struct cli_top_options *options, const struct ip_service_task *task,
		       const char *dir, void (*is_live)(void *context), void *context,
		       struct ip_service_worker_result *result);

/* Joins the sessions that there are, and reads of the other processes what they have had of CPUs.
 * Returns 1 where there are others to measure, or none at all; 0 where each process has a session;
 * -1 with an error. */
int cli_top_service_begin(struct cli_top_service *service, struct cli_live_counts *counts,
			  struct cli_top_cpu *cpu);

/* Adds processes that have come. dir: of the service of iprobe top's own; NULL: there is none.
 * Returns 0, or -1 with an error. */
int cli_top_service_look(struct cli_top_service *service, struct cli_live_counts *counts,
			 const char *dir);

void cli_top_service_clear(struct cli_top_service *service);

#endif
