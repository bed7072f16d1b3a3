/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that does what was asked: iprobe attach and the like, or fperf, on behalf of who
 * asked.
 *
 *   1. It has the ids and groups of who asked, so every file that it makes or opens is judged by
 *      the kernel as if he did it himself: there is no path and no symbolic link by which he could
 *      have it write where he may not, and what it writes is his. Its user ids are root's until its
 *      image has begun (delegation.h, step 5).
 *   2. Beyond what he has it has CAP_SYS_PTRACE, and CAP_SYS_NICE, which makes stops short. Where
 *      the target is another user's (members of the group, root) also CAP_DAC_OVERRIDE, put down
 *      but for opening what /proc shows to that user alone. It has a permit (delegation.h) that
 *      keeps it to what he may trace. He cannot take these capabilities from it: a process that has
 *      more of them than he has is closed to him for ptrace. Nor can a member of the group send it
 *      signals: only its effective ids are the member's (delegation.h, step 5).
 *   3. It starts in the directory that he has opened, with his standard output and error, an
 *      environment of iprobed's making, and no descriptor besides but that which holds the target.
 *      It never gains anything by executing (no_new_privs).
 *   4. It is not under seccomp, unless iprobed itself is: a tracer under seccomp cannot suspend the
 *      target's filters.
 *   5. It gets what the caller has sent by itself, as the caller: what takes for ever when it is
 *      closed holds up nobody else (receiver.h).
 *   6. The caller's limits of resources are its own (file size, memory, processes), and its memory
 *      has others besides.
 *   7. When iprobed ends, however it ends, the worker is told (SIGTERM) and puts back every byte.
 */
#ifndef IP_WORKER_H
#define IP_WORKER_H

#include "access/credentials.h"
#include "access/policy.h"
#include "access/request.h"

struct ip_worker {
	const struct ip_peer *who;
	const struct ip_request *request;
	const struct ip_policy_entry *entry; /* NULL: what he may trace himself */
	int target;			     /* pidfd */
	/* a socket over which the next three come (fd_passing.h), or the last two; -1: they are
	 * these */
	int channel;
	int directory, out, err; /* -1: / and iprobed's own */
	int program;		 /* iprobe's executable, open */
};

/* Its process id, or -1 with an error. */
pid_t ip_worker_start(const struct ip_worker *worker);

/* Variables that all have who do our work, whoever asked. */
#define IP_WORKER_ENVIRONMENT                                                                      \
	(char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C.UTF-8",                                    \
		(char *)"IPROBE_DAEMON=never", /* where it may not either it would ask us */       \
		(char *)"TMPDIR=/dev/shm"      /* where a unit may make all else read-only */

/* Step 6, for this process. 0 or -1. */
int ip_worker_set_limits(const struct ip_peer_limits *his);

/* Gives up, for good, what no worker needs: for iprobed itself. 0 or -1. */
int ip_worker_limit(void);

#endif
