/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a user may have events of the kernel of a process, in the process that reads them
 * (reader_process.c), again and again.
 *
 * One process is judged as iprobed has judged it for the request (authorize.c). Where the client
 * names some, one after the other, each is judged as iprobed would judge a request for it, by the
 * policy that was read before the process gave up its rights. A policy that has changed since is
 * not known here: then no more processes join. Each one that is named is logged, with what was
 * decided.
 */
#ifndef IP_EVENT_JUDGE_H
#define IP_EVENT_JUDGE_H

#include <sys/stat.h>

#include "access/policy.h"
#include "iprobed/daemon_private.h"
#include "kernel_trace/users/event_reader.h"

/* A process that was named. */
struct ip_event_held {
	pid_t pid;
	int fd;
	bool told; /* the log has what was decided */
};

struct ip_event_judge {
	const struct ip_iprobed_session *session;
	int target;		 /* pidfd of the one process of the request */
	int log;		 /* where there are several: for lines about them */
	bool several;		 /* the client names processes */
	struct ip_policy policy; /* where there are several: for members of the group */
	/* likewise: its file, and what that was just before it was read; zeros: it was not there */
	const char *policy_path;
	struct stat policy_file;
	/* likewise: processes that were named; the newest of a number counts. nheld is atomic: one
	 * thread names them, another one judges */
	struct ip_event_held held[IP_EVENT_TARGETS_MOST];
	size_t nheld;
};

/* Reads the policy, for several processes. Returns 0, or -1 where it cannot be read, or does not
 * give the user such events any more. */
int ip_event_judge_read_policy(struct ip_event_judge *judge, const struct ip_iprobed *d);

/* The operations of the reader (event_reader.h). context: the judge. */
enum ip_event_access ip_event_judge_access(void *context, pid_t pid);
bool ip_event_judge_lives(void *context, pid_t pid);
int ip_event_judge_hold(void *context, pid_t pid);

#endif
