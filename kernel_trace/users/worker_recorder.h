/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of a worker of iprobed, or for several processes of its client: it writes the events
 * that another process reads and filters (event_reader.h), which come by a socket, or hands them to
 * a sink. recorder.h has its operations, which call these where the options name that socket.
 *
 * The thread that writes gives up all capabilities first: it has the user's rights and no others.
 */
#ifndef IP_WORKER_RECORDER_H
#define IP_WORKER_RECORDER_H

#include "kernel_trace/recorder.h"

struct ip_recorded_segments;
struct ip_worker_recorder;

/* Asks the reader to begin. trace: the directory of the trace, dir: that of its kernel events;
 * uuid: 16 bytes of it; segments: which it has; all borrowed. The socket is not closed. Returns 0,
 * or -1 with an error: the reader's, or that it does not answer. */
int ip_worker_recorder_create(const struct ip_kernel_options *options, int trace, int dir,
			      const uint8_t *uuid, struct ip_recorded_segments *segments,
			      struct ip_worker_recorder **ret);
/* As ip_kernel_missing(), before anything else is asked of the reader. */
int ip_worker_recorder_missing(const struct ip_kernel_options *options, char **ret);
/* As those of recorder.h. */
int ip_worker_recorder_start(struct ip_worker_recorder *recorder);
int ip_worker_recorder_add(struct ip_worker_recorder *recorder, pid_t pid);
int ip_worker_recorder_stats(struct ip_worker_recorder *recorder, struct ip_kernel_stats *ret);
int ip_worker_recorder_stop(struct ip_worker_recorder *recorder);
/* All that has happened up to now becomes part of the segments, and so do names of descriptors that
 * were made, as far as they come within 2 s. Returns 0, or -1 with an error. */
int ip_worker_recorder_write_out(struct ip_worker_recorder *recorder);
/* In a process that was forked meanwhile: closes the socket. */
void ip_worker_recorder_leave(const struct ip_worker_recorder *recorder);
void ip_worker_recorder_destroy(struct ip_worker_recorder *recorder);

#endif
