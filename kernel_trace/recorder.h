/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records events of the kernel beside a session (--kernel), into DIR/kernel
 * (common/trace/kernel_format.h).
 *
 * There are two instances of tracefs (instance.h): one records what happens in any process, by
 * which it is known who had a CPU and who woke whom; the other one records what happens while a
 * thread of the targets runs. A thread of ours reads the pages of their buffers, when they are a
 * quarter full or five times a second, more often while descriptors are made, and writes packets.
 *
 * There may be several targets, which join one after the other. A target joins so:
 *
 *   1. Its threads are put on the list of the second instance (ip_instance_limit()), which is
 *      switched on then: without a list it would record all threads of the machine.
 *   2. What its threads do is read from /proc, and so are its descriptors. What changes meanwhile
 *      is among the events.
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

struct ip_kernel_recorder;
struct ip_kernel_sink;

struct ip_kernel_options {
	unsigned groups; /* bits 1 << enum ip_kernel_group; 0: no kernel events */
	size_t buffer;	 /* bytes for each CPU and instance */
	/* takes the events of the target's threads, whose switches and wakings are among them
	 * (kernel_stream.h); nothing of other processes is recorded, and no file is written. NULL:
	 * a trace is written. Borrowed */
	const struct ip_kernel_sink *sink;
};

struct ip_kernel_stats {
	uint64_t events, lost, bytes;
	bool no_space; /* recording has failed, since the disk is full */
};

/* Makes the instances, which record nothing yet, and the directory. dir: of the trace, where there
 * is no sink. Returns 0, or -1 with an error. */
int ip_kernel_recorder_create(const struct ip_kernel_options *options, int dir,
			      struct ip_kernel_recorder **ret);

/* Recording begins: what happens in any process. Returns 0, or -1 with an error. */
int ip_kernel_recorder_start(struct ip_kernel_recorder *recorder);

/* A process becomes a target, or once more: it executes another program. Returns 0 when it is
 * recorded; -1 with an error. */
int ip_kernel_recorder_add(struct ip_kernel_recorder *recorder, pid_t pid);

/* In a process that was forked meanwhile: gives up what would keep the instances in being when the
 * process that has made them removes them. Changes nothing for that one. NULL is allowed. */
void ip_kernel_recorder_leave(const struct ip_kernel_recorder *recorder);

/* What was recorded up to now. Returns -1 with an error if recording has failed. */
int ip_kernel_recorder_stats(struct ip_kernel_recorder *recorder, struct ip_kernel_stats *ret);

/* Recording ends: the last events are written, and the instances removed. Returns 0, or -1 with an
 * error. */
int ip_kernel_recorder_stop(struct ip_kernel_recorder *recorder);

/* Writes the metadata, which readers need. m: uuid is filled in. Returns 0, or -1 with an error. */
int ip_kernel_recorder_describe(const struct ip_kernel_recorder *recorder,
				struct ip_ctf_metadata *m);

/* Stops without writing more. NULL is allowed. */
void ip_kernel_recorder_destroy(struct ip_kernel_recorder *recorder);

/* Checks whether this process may record kernel events, without changing anything. Returns 0: *ret
 * names the tracepoints that the kernel lacks, "" if none, malloc'ed; -1 with an error that says
 * what is in the way. */
int ip_kernel_missing(unsigned groups, char **ret);

/* Removes the instances that iprobes have left which are gone. Whoever may not do that does
 * nothing. */
void ip_kernel_remove_left(void);

#endif
