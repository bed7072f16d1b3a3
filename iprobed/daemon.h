/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed: lets people trace what they may trace, where they cannot do so by themselves.
 *
 *   fronts (receiver.h)  one a connection, receives what is sent; no privilege, seccomp
 *   this process      accepts, and decides: who asks is what the kernel says of the connection
 *                     (credentials.h), whether he may is the kernel's own rule (ptrace_access.h)
 *                     or, for members of a group, a policy (policy.h). It opens nothing that it is
 *                     told to open, and receives no descriptor, since it would have to close it.
 *   rules (rules.h)   carries out what probes.d asks for, by sessions of its own
 *   workers           one a session, with the ids of who asked (worker.h); they check again, in
 *                     every stop (delegation.h)
 *
 * A request, step by step:
 *   1. The target is held by a pidfd. Everything that is read of it counts only if that pidfd says
 *      afterwards that it lives.
 *   2. The decision. It is logged with who asked for what, and so is how the session ended.
 *   3. A note of the session is written to the state directory. If all of us are killed at once (a
 *      whole cgroup), the next iprobed finds it and has what is live put back.
 *   4. A worker is started, and gets the pidfd.
 *   5. When a worker was killed, or stopped, another one puts back what it left live. When we end,
 *      or are killed, workers are told and put everything back by themselves. A tracer that dies
 *      leaves no target stopped: the kernel lets them go.
 */
#ifndef IP_DAEMON_H
#define IP_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "iprobed/rules/rules.h"

struct ip_iprobed_options {
	const char *socket;		      /* path; not used where systemd listens */
	const char *state;		      /* directory */
	const char *policy;		      /* file */
	gid_t group;			      /* of members; (gid_t)-1: none */
	const char *program;		      /* iprobe */
	const char *fperf;		      /* likewise; NULL: none */
	unsigned sessions, sessions_per_user; /* at most */
	uint64_t memory_per_user;	      /* bytes at most; 0: by what there is */
	const struct ip_rules_options *rules; /* NULL: none are carried out */
};

/* Serves until SIGTERM or SIGINT. 0, or -1 with an error. */
int ip_iprobed_run(const struct ip_iprobed_options *options);

#endif
