/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker: a process that does what was requested (iprobe attach and the like, or fperf), on
 * behalf of the requesting user.
 *
 *   1. It has the ids and groups of the user. So the kernel judges each file that it makes or opens
 *      as if the user did it himself: by no path and no symbolic link can the user make it write
 *      where he may not write, and what it writes is his. Its user ids are root's until its
 *      image has begun (delegation.h, step 5).
 *   2. In addition to the user's rights it has CAP_SYS_PTRACE, and CAP_SYS_NICE, which makes stops
 *      short. If the target is another user's (members of the group, root), it also has
 *      CAP_DAC_OVERRIDE, which is dropped from the effective set except for opening what /proc
 *      shows to that user only. Its delegation (delegation.h) restricts it to what the user may
 *      trace. The user cannot take these capabilities from it: the kernel does not let him ptrace a
 *      process that has more capabilities than he has. A member of the group cannot send it signals
 *      either: only its effective ids are the member's (delegation.h, step 5).
 *   3. It starts in the directory that the user has opened, with the user's standard output and
 *      error, an environment made by iprobed, and no other descriptor but the target's pidfd. It
 *      never gains privileges by an exec (no_new_privs).
 *   4. It is not under seccomp, unless iprobed itself is: a tracer under seccomp cannot suspend the
 *      target's filters.
 *   5. It receives what the client has sent by itself, with the user's ids: a descriptor whose
 *      closing takes for ever blocks no other process (receiver.h).
 *   6. The client's resource limits are its own (file size, memory, processes). Its memory has
 *      further limits.
 *   7. What keeps a worker from starting is reported through a pipe (report), which ends when the
 *      image begins: iprobed tells the client. A worker that the client leaves keeps the pipe, and
 *      another one to iprobed's log (access/worker_client.h).
 *   8. When iprobed ends, however it ends, the worker gets SIGTERM and restores every byte.
 */
#ifndef IP_WORKER_H
#define IP_WORKER_H

#include "access/credentials.h"
#include "access/policy.h"
#include "access/protocol.h"

struct ip_worker {
	const struct ip_peer *who;
	const struct ip_request *request;
	const struct ip_policy_entry *entry; /* NULL: the user traces what he may trace himself */
	int target;			     /* pidfd */
	/* A socket over which the next three come (fd_passing.h), or the last two of them; -1: the
	 * members below are used. */
	int channel;
	int directory, out, err; /* -1: / and iprobed's own */
	int report;		 /* a pipe: what keeps it from starting, and whether it is live */
	int log;		 /* for output, once the client is left; -1: the client waits */
	int events;		 /* the socket to the reader of events of the kernel; -1: none */
	const char *no_events;	 /* why there is none (worker_client.h); NULL: "" */
	int program;		 /* open executable of iprobe or fperf */
};

/* Returns its process id, or -1 with an error. */
pid_t ip_worker_start(const struct ip_worker *worker);

/* Environment variables of all processes that work for iprobed, for any user. IPROBE_DAEMON: iprobe
 * must not ask iprobed if it has no permission. TMPDIR: a unit may make everything else
 * read-only. */
#define IP_WORKER_ENVIRONMENT                                                                      \
	(char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C.UTF-8", (char *)"IPROBE_DAEMON=never",     \
		(char *)"TMPDIR=/dev/shm"

/* Step 6, for the calling process. Returns 0 or -1. */
int ip_worker_set_limits(const struct ip_peer_limits *his);

/* For iprobed itself: gives up, for good, the capabilities that no worker needs. Returns 0 or
 * -1. */
int ip_worker_limit(void);

#endif
