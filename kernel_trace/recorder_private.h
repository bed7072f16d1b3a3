/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the recorder share: how it is made (recorder_begin.c), the thread that reads
 * (recorder_thread.c), segments (recorder_segments.c), and what others ask it for (recorder.c).
 */
#ifndef IP_RECORDER_PRIVATE_H
#define IP_RECORDER_PRIVATE_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>

#include "kernel_trace/descriptor_log.h"
#include "kernel_trace/kernel_probes.h"
#include "kernel_trace/kernel_stream.h"
#include "kernel_trace/perf/path_ring.h"
#include "kernel_trace/record_source.h"
#include "kernel_trace/recorder.h"
#include "kernel_trace/segments/recorded_segments.h"
#include "kernel_trace/tracefs_place.h"
#include "kernel_trace/users/worker_recorder.h"

/* The buffer of one CPU and part. */
struct buffer {
	struct ip_kernel_recorder *recorder;
	enum ip_record_part part;
	unsigned cpu;
	bool more; /* it was not read to its end */
	struct ip_kernel_stream stream;
};

/* What the thread that reads is asked to do: what it notes of a process belongs between the events
 * that it reads. */
enum asked { NOTHING, JOIN, WRITE_OUT };

struct request {
	enum asked what;
	pid_t pid;  /* JOIN: its events are to be recorded from now on */
	bool taken; /* the thread is about it */
	bool left;  /* nobody waits for the result any more */
	bool done;
	int result;
	char *why;
};

struct ip_kernel_recorder {
	unsigned groups;
	const struct ip_kernel_sink *sink; /* NULL: files are written */
	int trace;			   /* DIR; borrowed */
	int dir;			   /* DIR/kernel */
	bool resumes;
	struct ip_recorded_segments segments;
	uint64_t begun; /* bytes of files that were there: of a trace that is not in pieces */
	pid_t *targets; /* that have joined */
	size_t ntargets;
	uint8_t uuid[16];
	struct ip_worker_recorder *worker; /* has all but dir and uuid; NULL: there is none */
	struct ip_tracefs tracefs;
	struct ip_event_layout *layout;
	struct ip_record_source *source; /* NULL: nothing is recorded any more */
	bool needed[IP_RECORD_PARTS];
	struct ip_kernel_probes *probes;      /* NULL: no functions are recorded */
	struct ip_kernel_functions functions; /* those that are; by number */
	struct buffer *buffers;
	struct pollfd *polls;
	size_t nbuffers; /* polls has one more: wake */
	int wake;	 /* an eventfd: something is asked, or it is over */
	bool limited;	 /* the part of the target has threads, and is on */
	bool had_gaps;	 /* the source has missed something when it was last asked */
	bool dropping;	 /* so that what is in the buffers is lost */
	uint64_t told;	 /* the sink was: up to when all events have come */
	struct ip_kernel_stream state;
	struct ip_descriptor_log *descriptors; /* NULL: no system calls are recorded */
	struct ip_path_ring *paths;	       /* NULL: none are recorded */
	uint64_t flushed_ns;
	pthread_t thread;
	bool runs, stop; /* stop: atomic */
	pthread_mutex_t lock;
	pthread_cond_t answered;
	/* Under the lock: what is asked, the statistics, and what went wrong (NULL:
	 * nothing). */
	struct request request;
	struct ip_kernel_stats stats;
	char *why;
	int why_errno;
};

/* The thread that reads: context is the recorder. */
void *ip_kernel_recorder_run(void *context);
/* Takes what is in all buffers. 1: there is more; 0; -1 with an error. */
int ip_kernel_recorder_drain(struct ip_kernel_recorder *r);
/* Takes the paths that have come. Returns 0, or -1 with an error. */
int ip_kernel_recorder_drain_paths(struct ip_kernel_recorder *r);
/* What was recorded up to now becomes the statistics. */
void ip_kernel_recorder_count(struct ip_kernel_recorder *r);
/* Writes what is gathered. Returns 0, or -1 with an error. */
int ip_kernel_recorder_flush(struct ip_kernel_recorder *r);
/* Tells the sink that all events have come that happened before the buffers were read. Returns 0,
 * or what the sink says. */
int ip_kernel_recorder_tell(struct ip_kernel_recorder *r, uint64_t before);

/* By the thread that reads, when it has taken what was in the buffers: begins the next segment
 * where one is due. before: when it began to read them. Returns 0, or -1 with an error. */
int ip_kernel_recorder_cut(struct ip_kernel_recorder *r, uint64_t before);
/* With options that resume: looks at what there is, whose id the trace keeps, and chooses the
 * segment. Returns 0, or -1 with an error. */
int ip_kernel_recorder_find_begun(struct ip_kernel_recorder *r);
/* What is gathered becomes part of the segments. As ip_kernel_recorder_cut(). */
int ip_kernel_recorder_write_out(struct ip_kernel_recorder *r, uint64_t before);
/* Asks the thread that reads, and waits for the answer. Returns 0, or -1 with an error. */
int ip_kernel_recorder_ask(struct ip_kernel_recorder *r, enum asked what, pid_t pid);
/* Writes the metadata. dir: DIR/kernel. Returns 0, or -1 with an error. */
int ip_kernel_recorder_describe_in(const struct ip_kernel_recorder *r, int dir,
				   struct ip_ctf_metadata *m);

#endif
