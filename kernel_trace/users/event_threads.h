/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads whose events a user may see, and since when (event_filter.h has the rules). Events
 * are told in the order of time; processes are checked, and become targets, when events wait that
 * are older.
 */
#ifndef IP_EVENT_THREADS_H
#define IP_EVENT_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_EVENT_THREADS_BUCKETS 4096u

struct ip_event_check {
	uint64_t asked; /* when it began */
	uint64_t ended; /* the thread is shown from then on; 0: there was none */
};

/* A thread that is shown, or was until its exec. later: of a thread that is shown already, or of
 * another one that gets the same id before that. */
struct ip_event_thread {
	struct ip_event_thread *next; /* of the bucket */
	pid_t tid;
	pid_t pid;     /* 0: not known; -1: it has ended before it was asked for; or its process */
	char comm[16]; /* as an event has named it last */
	struct ip_event_check check, later;
	uint64_t exec; /* its last exec, or what counts as one */
	bool told[2];  /* that something of it is missing: in its own stream, in that of all */
};

struct ip_event_threads {
	struct ip_event_thread *buckets[IP_EVENT_THREADS_BUCKETS];
	size_t n;
};

void ip_event_threads_clear(struct ip_event_threads *threads);
/* NULL: it is not shown, nor was it. */
struct ip_event_thread *ip_event_threads_find(struct ip_event_threads *threads, pid_t tid);
/* Whether a thread is shown at that time. NULL: no. */
bool ip_event_thread_is_shown(const struct ip_event_thread *thread, uint64_t tsc);

/* What events tell, at that time: a thread that is shown has made another one, which is shown, too
 * (returns 0, or -1 with an error); it has ended, or another one gets its id; it gets a name, which
 * may begin an exec; it has executed a program, and has had the id `old` until then; some of that
 * may be missing. */
int ip_event_threads_born(struct ip_event_threads *threads, pid_t tid, uint64_t tsc);
void ip_event_threads_end(struct ip_event_threads *threads, pid_t tid, uint64_t tsc);
void ip_event_threads_rename(struct ip_event_threads *threads, pid_t tid, uint64_t tsc);
void ip_event_threads_exec(struct ip_event_threads *threads, pid_t tid, pid_t old, uint64_t tsc);
void ip_event_threads_lose(struct ip_event_threads *threads, uint64_t tsc);

/* As those of event_filter.h. */
int ip_event_threads_show(struct ip_event_threads *threads, pid_t tid, pid_t pid, const char *comm,
			  uint64_t asked, uint64_t tsc);
int ip_event_threads_each(struct ip_event_threads *threads, pid_t (*process_of)(pid_t tid),
			  int (*visit)(void *context, pid_t pid), void *context);
void ip_event_threads_allow(struct ip_event_threads *threads, pid_t pid, uint64_t asked,
			    uint64_t tsc);
void ip_event_threads_refuse(struct ip_event_threads *threads, pid_t pid);

#endif
