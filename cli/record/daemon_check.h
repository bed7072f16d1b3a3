/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether iprobed would let this user trace a process.
 */
#ifndef IP_CLI_DAEMON_CHECK_H
#define IP_CLI_DAEMON_CHECK_H

#include <stddef.h>
#include <sys/types.h>

/* Has iprobed look at the process (iprobe status), where this user may not trace it and iprobed is
 * running. Returns 1: iprobed lets this user trace it; 0: it does not; -1: it was not asked. In the
 * first two cases ret_said has the first line of what was said. */
int cli_daemon_check(pid_t pid, char *ret_said, size_t size);

#endif
