/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording a service: all processes of a choice (processes.h), each by a worker of its own
 * (workers.h), into one directory (trace_writer/member_dirs.h).
 *
 *   1. Find the processes. None: an error. Hold what the user asks for against one process of each
 *      program: if it fits none of them, that is one error, and no process is touched. Start a
 *      worker for each process.
 *   2. While workers live: take their reports; look for new processes where the kernel has given a
 *      pid since the last look. A process that has come only just is left alone for a moment: most
 *      children execute another program at once, or end. A process that could not be recorded is
 *      tried again when it has executed another program or got other users.
 *   3. Where sessions follow forks, a child that a session records already is left to it: the
 *      worker finds that out without touching the child. A child that has become another user is
 *      tried again: its parent's session lets it go when it sees that, and its worker tells us
 *      (ip_service_worker_say_let_go()). It gets a session of its own, or is told at the end.
 *   4. A worker that was killed may have left live sites: they are put back at once, by the
 *      caller's `restore` in another worker, in its process and in the children that its session
 *      has followed. These children get sessions of their own then, and also where a session that
 *      followed forks has ended with an error.
 *   5. The end: the time is over, a signal, a condition in one of the sessions, or no session has
 *      been left for a while: all processes have ended, or iprobe detach has ended their sessions.
 * All workers end their sessions; the last one's end is ours.
 */
#ifndef IP_SERVICE_H
#define IP_SERVICE_H

#include "common/trace/trace_members.h"
#include "kernel_trace/recorder.h"
#include "service/kernel_events.h"
#include "service/processes.h"
#include "service/workers.h"

/* What a worker is to do. */
struct ip_service_task {
	pid_t pid;
	uint64_t started;  /* the time at which the process was started: its pid may be another's */
	const char *name;  /* of the member's sub-directory; NULL: there is no directory */
	int dir;	   /* the directory of all members; -1: none */
	uint64_t *written; /* bytes of all traces, for a limit of their sum; in shared memory */
	uint64_t left_ns;  /* of the recording's duration; 0: it has none */
	size_t n;	   /* how many processes there are now */
	bool named;	   /* by its pid */
	bool late;	   /* it came after the recording had begun */
	bool last;	   /* it is not tried again if it cannot be recorded */
	const char *comm;  /* its name, for people */
};

struct ip_service_sum {
	struct ip_service_worker_progress progress;
	size_t processes; /* that were recorded so far, or are */
	size_t live;	  /* that are recorded now */
	bool has_duration;
	uint64_t left_ns;
	struct ip_kernel_stats kernel; /* at the end */
	bool kernel_failed;	       /* not all events of the kernel were written */
};

struct ip_process_set;

struct ip_service_options {
	struct ip_service_choice choice;
	/* step 1: returns 0: what the user asks for fits the process, which is left as it is; 1:
	 * that is not known; -1 with an error: it does not. NULL: not called */
	int (*check)(void *context, const struct ip_service_process *process);
	const char *dir; /* of the traces; NULL: none is made */
	/* events of the kernel, of all processes (kernel_events.h); NULL: none. With dir only */
	const struct ip_kernel_options *kernel;
	struct ip_service_kernel_quota kernel_quota;
	/* where another process may read them for this one: opens the socket to it (reader of
	 * kernel), for a process and all others of the choice. *ret: 0: this process reads them.
	 * Returns 0, or -1 with an error. NULL: not called */
	int (*open_reader)(void *context, pid_t pid, int *ret);
	/* gets those that ended before anything could be recorded of what they executed, which is
	 * recorded of others; NULL: none */
	struct ip_process_set *missed;
	uint64_t duration_ns;
	/* begins, runs and ends the session of one process, in the worker */
	int (*work)(void *context, const struct ip_service_task *task, int socket,
		    struct ip_service_worker_result *result);
	/* a worker has ended; NULL: not called. name: of its sub-directory, or NULL */
	void (*on_end)(void *context, const struct ip_service_worker *worker, const char *name);
	/* called some times a second; NULL: not called */
	void (*on_progress)(void *context, const struct ip_service_sum *sum);
	/* step 4: puts back what a killed worker has left live in the process; in a worker of its
	 * own where one can be started. NULL: the user is told what to do */
	void (*restore)(void *context, pid_t pid);
	void *context;
};

/* Records until the end. Returns 0; 1: a process that was named by its pid could not be recorded,
 * and that has been told by its worker, or kernel_failed, which has been told, unless the disk is
 * full (kernel.no_space); -1 with an error: nothing was recorded. ret: the sum at the end. */
int ip_service_record(const struct ip_service_options *options, struct ip_service_sum *ret);

/* Returns the ring memory of each of n processes, where the user has not said how much: a few have
 * the whole amount each, more of them share it. */
uint64_t ip_service_memory(uint64_t memory, size_t n);

#endif
