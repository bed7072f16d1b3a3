/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other members of a recording, of which a user has named one.
 *
 * iprobe attach --children records a service: a worker of that iprobe has the session of each
 * process (service/service.h). A command that is given the master's pid alone is about the session
 * of the master alone. The user is told which of the processes below it are recorded beside it.
 */
#ifndef IP_CLI_SERVICE_MEMBERS_H
#define IP_CLI_SERVICE_MEMBERS_H

#include <stddef.h>
#include <sys/types.h>

struct cli_service_members {
	pid_t iprobe;	/* which records them; 0: it is not known, or there are none */
	size_t n;	/* of them, without the process itself */
	char pids[128]; /* for people: "783, 784 and 3 more" */
};

/* Looks for the processes below pid that the same iprobe records. What this user may not look at is
 * left out, without an error. */
void cli_service_members_look(pid_t pid, struct cli_service_members *ret);

/* Prints a line on stderr where there are any. what: what becomes of them ("go on"). */
void cli_service_members_tell(const struct cli_service_members *members, pid_t pid,
			      const char *what);

#endif
