/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed: lets users trace the processes that they may trace, if they cannot do so by themselves.
 *
 *   receivers (receiver.h)  one process for each connection. It receives what the client sends. It
 *                           has no privilege, and runs under seccomp.
 *   this process            accepts connections, and decides. The kernel tells who is at the other
 *                           end of a connection (credentials.h). The kernel's own rule
 *                           (ptrace_access.h), or for members of a group a policy (policy.h), tells
 *                           whether this user may trace the target. This process opens nothing that
 *                           a client names. It receives no descriptor, since it would have to close
 *                           it.
 *   rules (rules.h)         carries out what probes.d asks for, by sessions of its own.
 *   workers                 one process for each session, with the ids of the requesting user
 *                           (worker.h). A worker checks again, in every stop (delegation.h).
 *
 * A request, step by step:
 *   1. A pidfd holds the target. Everything that is read about the target counts only if the pidfd
 *      says afterwards that the target lives.
 *   2. The decision. It is logged with the user and the request, and so is how the session ended.
 *   3. A note of the session is written to the state directory. If all of iprobed's processes are
 *      killed at once (a whole cgroup), the next iprobed finds the note, and restores the sites
 *      that are live.
 *   4. A worker is started, and gets the pidfd.
 *   5. When a worker was killed, or stopped, another worker restores the sites that it left live.
 *      When iprobed ends, or is killed, the workers are told, and restore everything by themselves.
 *      A tracer that dies leaves no target stopped: the kernel lets the target's threads go.
 */
#ifndef IP_DAEMON_H
#define IP_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "iprobed/rules/rules.h"

struct ip_iprobed_options {
	const char *socket;		      /* path; not used if systemd listens */
	const char *state;		      /* a directory */
	const char *policy;		      /* a file */
	gid_t group;			      /* group of the members; (gid_t)-1: none */
	const char *program;		      /* path of iprobe */
	const char *fperf;		      /* path of fperf; NULL: none */
	unsigned sessions, sessions_per_user; /* at most so many */
	/* limit in bytes; 0: computed from the memory there is */
	uint64_t memory_per_user;
	const struct ip_rules_options *rules; /* NULL: no rules are carried out */
};

/* Serves until SIGTERM or SIGINT. Returns 0, or -1 with an error. */
int ip_iprobed_run(const struct ip_iprobed_options *options);

#endif
