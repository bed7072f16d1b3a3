/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records events of the kernel beside a session (--kernel), into DIR/kernel
 * (common/trace/kernel_format.h).
 *
 * There are two parts: one records what happens in any process, by which it is known who had a CPU
 * and who woke whom; the other one records what happens while a thread of the targets runs. Each is
 * an instance of tracefs, or perf events where none can be made (record_source.h). A thread of ours
 * reads their buffers, when they are a quarter full or five times a second, more often while
 * descriptors are made, and writes packets.
 *
 * There may be several targets, which join one after the other. A target joins so:
 *
 *   1. Its threads are put on the list of the second part, which is switched on then: without a
 *      list it would record all threads of the machine.
 *   2. What its threads do is read from /proc, and so are its descriptors. What changes meanwhile
 *      is among the events.
 *
 * A trace that keeps its newest part has the events in segments (common/trace/kernel_format.h):
 *
 *   1. All that is in the buffers is read. Files of another segment are begun.
 *   2. What the threads do that are on the list now is read from /proc, and so are descriptors, as
 *      when a target joins. Each segment can be read without those before it.
 *   3. The oldest segments are removed.
 *
 * Functions of the kernel (kernel_probes.h) are recorded by the second part, too, if it is an
 * instance of tracefs.
 *
 * The kernel puts what the target's threads make on the list, and takes from it who ends: an id
 * that is given again to a thread of another process is not recorded.
 */
#ifndef IP_RECORDER_H
#define IP_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/trace/ctf_metadata.h"
#include "kernel_trace/record_source.h"

struct ip_kernel_recorder;
struct ip_kernel_sink;

struct ip_kernel_options {
	unsigned groups; /* bits 1 << enum ip_kernel_group; 0: no kernel events */
	size_t buffer;	 /* bytes for each CPU and part */
	enum ip_kernel_source source;
	/* the trace keeps its newest part: the events are in segments, and
	 * ip_kernel_recorder_keep() tells which there are to be */
	bool in_segments;
	/* an iprobe that was killed has begun the trace: its events, if there are some, are
	 * followed by a gap. The next segment has at least this number */
	bool resumes;
	uint32_t segment;
	/* bytes: so much of the newest events is kept in memory, and written at the end; 0: all are
	 * written at once */
	uint64_t keep;
	/* functions of the kernel, by patterns (kernel_probes.h), whose calls by the targets'
	 * threads are recorded, which the source perf cannot; NULL: none. Borrowed */
	const char *functions;
	bool optional; /* where they cannot be had, the recording goes on without them */
	/* takes the events of the target's threads, whose switches and wakings are among them
	 * (kernel_stream.h); nothing of other processes is recorded, and no file is written. Those
	 * of a `reader` come as kinds of all processes and of the target, each in its order. NULL:
	 * a trace is written. Borrowed */
	const struct ip_kernel_sink *sink;
	/* in a worker of iprobed, or its client: the socket of the process that reads the events
	 * for it (worker_recorder.h); 0: this process reads them. Borrowed */
	int reader;
	/* with a reader: a process with a 32-bit program is refused, whose system calls cannot be
	 * told from others. By itself the caller looks at what may join */
	bool only_64_bit;
};

struct ip_kernel_stats {
	uint64_t events, lost, bytes; /* without what was dropped */
	uint64_t dropped;	      /* events that were recorded, for newer ones */
	uint64_t functions, missed;   /* of the kernel: how many; returns that were missed */
	const char *source;	      /* as --kernel-source has it; NULL: none yet. Static */
	bool no_space;		      /* recording has failed, since the disk is full */
	/* why there are none, where they were optional; "": they were recorded */
	char missing[256];
};

/* Makes the buffers, which record nothing yet, and the directory. dir: of the trace, where there
 * is no sink. Returns 0, or -1 with an error. */
int ip_kernel_recorder_create(const struct ip_kernel_options *options, int dir,
			      struct ip_kernel_recorder **ret);

/* Where events are optional and cannot be had: a notice tells why, which is the current error, and
 * so does missing. Returns 0. */
int ip_kernel_go_without(struct ip_kernel_stats *stats);

/* Recording begins: what happens in any process. Returns 0, or -1 with an error. */
int ip_kernel_recorder_start(struct ip_kernel_recorder *recorder);

/* A process becomes a target, or once more: it executes another program. Returns 0 when it is
 * recorded; -1 with an error, also where it has not let itself be looked at for 5 s. */
int ip_kernel_recorder_add(struct ip_kernel_recorder *recorder, pid_t pid);

/* The segments that there are to be, from first to newest. Neither becomes less. */
void ip_kernel_recorder_keep(struct ip_kernel_recorder *recorder, uint32_t first, uint32_t newest);

/* What is in memory has that many bytes of room when it is written at the end: what is older does
 * not come into the trace. */
void ip_kernel_recorder_set_room(struct ip_kernel_recorder *recorder, uint64_t bytes);

/* Writes what is in memory up to now into another trace, with its metadata. dir: of that trace; m:
 * uuid is filled in. Recording goes on. *ret: what was written. Returns 0, or -1 with an error. */
int ip_kernel_recorder_snapshot(struct ip_kernel_recorder *recorder, int dir,
				struct ip_ctf_metadata *m, struct ip_kernel_stats *ret);

/* Reads what is in the buffers now: the sink has been told of it when this returns. */
int ip_kernel_recorder_tell_now(struct ip_kernel_recorder *recorder);

/* In a process that was forked meanwhile: gives up what would keep the buffers in being when the
 * process that has made them removes them. Changes nothing for that one. NULL is allowed. */
void ip_kernel_recorder_leave(const struct ip_kernel_recorder *recorder);

/* What was recorded up to now. Returns -1 with an error if recording has failed. */
int ip_kernel_recorder_stats(struct ip_kernel_recorder *recorder, struct ip_kernel_stats *ret);

/* Recording ends: the last events are written, and the buffers removed. Returns 0, or -1 with an
 * error. */
int ip_kernel_recorder_stop(struct ip_kernel_recorder *recorder);

/* Writes the metadata, which readers need. m: uuid is filled in. Returns 0, or -1 with an error. */
int ip_kernel_recorder_describe(const struct ip_kernel_recorder *recorder,
				struct ip_ctf_metadata *m);

/* Stops without writing more. NULL is allowed. */
void ip_kernel_recorder_destroy(struct ip_kernel_recorder *recorder);

#endif
