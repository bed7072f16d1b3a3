/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the worker's recorder share: what it asks and takes (worker_recorder.c), and
 * its segments (worker_segments.c).
 */
#ifndef IP_WORKER_PRIVATE_H
#define IP_WORKER_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel_trace/kernel_stream.h"
#include "kernel_trace/recorder.h"
#include "kernel_trace/segments/recorded_segments.h"
#include "kernel_trace/users/event_protocol.h"

struct ip_descriptor_log;

/* The streams of what was so at the beginning: what the reader has read comes later than it was
 * read, and what this process has read meanwhile is in a stream of its own. */
enum {
	IP_WORKER_OWN,
	IP_WORKER_TOLD, /* by the reader */
	IP_WORKER_STATES,
};

/* The stream of a CPU and kind. */
struct source {
	bool all;
	uint32_t cpu;
	struct ip_kernel_stream stream;
};

struct ip_worker_recorder {
	int socket, trace, dir;
	const uint8_t *uuid;
	const struct ip_kernel_sink *sink; /* NULL: files are written */
	struct source *sources;
	size_t nsources;
	struct ip_kernel_stream states[IP_WORKER_STATES];
	struct ip_descriptor_log *descriptors; /* NULL: no system calls are recorded */
	uint64_t looked; /* when descriptors were looked at; 0: they were not */
	uint64_t until;	 /* all events before it have come */
	uint64_t flushed_ns;
	struct ip_recorded_segments *segments; /* borrowed */
	pid_t *joined;			       /* processes that have joined */
	size_t njoined;
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock: whether the answer to what was asked for has come, what it is, the
	 * statistics, and what went wrong (NULL: nothing). */
	bool asked;
	enum ip_event_word word; /* that was asked last */
	pid_t joins;		 /* the process that was asked for; 0: none */
	bool only_64_bit;	 /* processes that join have 64-bit programs */
	uint64_t unnamed;	 /* when the first descriptor was made that has no name yet */
	bool blind;		 /* the user may not look at its descriptors */
	int answer;
	char *answer_text;
	struct ip_kernel_stats stats;
	char *why;
	int why_errno;
	uint8_t packet[IP_EVENT_PACKET_MAX + 1]; /* a text ends with 0 */
};

/* By the thread that writes, when all events before `until` have come: begins the next segment
 * where one is due, as recorder.h has it. Returns 0, or -1 with an error. */
int ip_worker_cut(struct ip_worker_recorder *worker);
/* What a process' threads do, and its descriptors, as this user may know them: what changes
 * meanwhile is among the events. A state that the reader has told of is told once more. Returns 0,
 * or -1 with an error. */
int ip_worker_read_process(struct ip_worker_recorder *worker, pid_t pid);
/* Writes what is gathered of the states. Returns 0, or -1 with an error. */
int ip_worker_flush_states(struct ip_worker_recorder *worker);
/* What is gathered becomes part of the segments. Returns 0, or -1 with an error. */
int ip_worker_write_out(struct ip_worker_recorder *worker);

#endif
