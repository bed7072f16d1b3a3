/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: one child process for each target. A session is made for one target and one iprobe; so
 * each target of a service gets an iprobe of its own, and a session that fails takes no other with
 * it.
 *
 *   1. start: fork. The worker ends properly (SIGINT) when this process dies, however it dies.
 *   2. The worker writes whole lines to stderr, and calls work(), which reports by
 * ip_service_worker_say_live() and those behind it, and fills in the result. Its
 * stdout goes to a file of its own, which is read when it has ended.
 *   3. stop: SIGINT, the same as Ctrl-C, which a terminal sends to all of them at once.
 *   4. poll: takes the reports. A worker that was ended by a signal is told: its target may have
 *      live sites, and the caller puts them back. SIGCHLD gets its default action back, which our
 *      parent may have taken: the kernel would reap the workers.
 */
#ifndef IP_SERVICE_WORKERS_H
#define IP_SERVICE_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hotpatcher/plan/value_plan.h"

/* What a worker leaves. It lies in memory that both processes share; the worker is this program,
 * and no target can reach it. */
struct ip_service_worker_result {
	uint64_t events, lost, invalid, filtered, functions, sites, threads, pages, bytes,
		length_ns;
	uint64_t stops, stops_ns, longest_stop_ns;
	uint64_t looks, looks_ns, longest_look_ns; /* short holds of one thread, not in stops */
	uint64_t counted;			   /* calls, where they are counted */
	/* what the session could not do, for a sum of all of them: as in struct
	 * ip_session_summary */
	struct ip_service_gaps {
		uint64_t left_out, renewed, renewed_latest_ns, disturbed, unswitched, plain,
			children_restored;
		struct ip_value_gaps values;
		uint64_t limit; /* of the trace's size, where it has ended the recording */
		/* for how long, and of how long a time, the worker that lost events waited for a
		 * CPU */
		uint64_t queued_ns, queued_of_ns;
		bool no_space, prioritized;
		char renewed_last[192], unswitched_why[256], limit_by[64];
	} gaps;
	uint64_t joined_ns; /* when it went live, since the target was started; 0: it has not */
	bool recorded;	    /* its trace exists */
	bool untold;	    /* it has failed, or had nothing to do; the caller is to say why */
	bool changed;	    /* the target had a session, which was changed */
	bool followed;	    /* another worker's session records the target already */
	bool none;	/* nothing to do: no module of the target has probes, or none is selected */
	bool little;	/* fperf: it has few samples, for want of calls */
	bool execed;	/* the process executes another program now, which is not recorded */
	bool over;	/* what ended it ends the whole recording (--until, --stop-on) */
	char why[1024]; /* why there is no recording; empty: there is */
	char end[128];	/* why the recording ended */
};

struct ip_service_worker_progress {
	uint64_t events, lost, per_second, written;
};

struct ip_service_worker {
	pid_t target;
	pid_t pid; /* of the worker; 0: it has ended */
	int socket, out;
	int code;      /* when it has ended: its exit code; -1: by a signal, or not known */
	bool live;     /* it has said so */
	bool follows;  /* it has said that it follows forks */
	bool reported; /* of the caller: its end has been dealt with */
	/* processes that its session has followed, and follows no longer; the caller takes them
	 * away by setting nlet_go to 0 */
	pid_t *let_go;
	size_t nlet_go;
	struct ip_service_worker_progress progress;
	struct ip_service_worker_result *result; /* NULL: it was released */
};

/* What a worker does. Returns its exit code. socket: for the three functions below. */
typedef int (*ip_service_worker_work)(void *context, pid_t target, int socket,
				      struct ip_service_worker_result *result);

/* follows: the session follows forks. */
void ip_service_worker_say_live(int socket, bool follows);
void ip_service_worker_say_progress(int socket, const struct ip_service_worker_progress *progress);
/* The session follows this process no longer: it is another user by now. */
void ip_service_worker_say_let_go(int socket, pid_t pid);

/* Starts a worker. Each needs two descriptors: the soft limit of this process is raised to the hard
 * one. Returns 0, or -1 with an error. */
int ip_service_worker_start(struct ip_service_worker *worker, pid_t target,
			    ip_service_worker_work work, void *context);

/* Waits until a worker reports or ends, at most timeout_ms, and takes all reports. Returns how many
 * workers have ended during the call, or -1 with an error. */
int ip_service_workers_poll(struct ip_service_worker *const *workers, size_t n, int timeout_ms);

/* Asks a worker to end its session properly. */
void ip_service_worker_stop(const struct ip_service_worker *worker);

/* Returns what the worker has written to stdout, once it has ended; malloc'ed. NULL with an error.
 */
char *ip_service_worker_output(const struct ip_service_worker *worker);

/* Gives up what is held for a worker that has ended, or in a worker for another one: its socket,
 * its output and its result. What it has reported stays. */
void ip_service_worker_release(struct ip_service_worker *worker);

/* The worker must have ended. */
void ip_service_worker_clear(struct ip_service_worker *worker);

#endif
