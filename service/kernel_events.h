/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --kernel for a service: events of the kernel are recorded once for all processes, into the
 * directory above theirs (kernel_trace/recorder.h), by the process that starts the workers.
 *
 *   1. Recording begins before any process is touched.
 *   2. A process joins before its worker is started: what its threads do is known from before its
 *      probes go live.
 *   3. It ends when all workers have ended. What was kept in memory is written then.
 */
#ifndef IP_SERVICE_KERNEL_EVENTS_H
#define IP_SERVICE_KERNEL_EVENTS_H

#include "kernel_trace/recorder.h"
#include "service/processes.h"
#include "trace_writer/member_dirs.h"

struct ip_service_kernel;

/* What of them is kept. Each process keeps what is newest of it by itself. */
struct ip_service_kernel_quota {
	/* the newest ones, on disk, in so many segments (common/trace/kernel_format.h); 0: all */
	unsigned segments;
	/* bytes: of the segments; of all traces, for what is written at the end (options.keep).
	 * 0: the usual size of a trace */
	uint64_t most;
};

/* Step 1. dirs: of the trace; borrowed, and written: bytes of all traces, too. Returns 0, or -1
 * with an error. Where the events are optional and cannot be had, *ret stays as it is, and stats
 * says why. */
int ip_service_kernel_begin(const struct ip_kernel_options *options,
			    const struct ip_service_kernel_quota *quota,
			    struct ip_member_dirs *dirs, uint64_t *written,
			    struct ip_kernel_stats *stats, struct ip_service_kernel **ret);

/* Step 2. kernel NULL: does nothing. Returns 0, also where the process has ended; -1 with an error.
 */
int ip_service_kernel_add(struct ip_service_kernel *kernel,
			  const struct ip_service_process *process);

/* Counts what was written. Returns 0, or -1 with an error, once: nothing more is recorded;
 * ip_service_kernel_no_space() tells whether that is since the disk is full. kernel NULL: does
 * nothing. */
int ip_service_kernel_step(struct ip_service_kernel *kernel);

bool ip_service_kernel_no_space(const struct ip_service_kernel *kernel);

/* In a worker: gives up what belongs to the process that has started it. NULL is allowed. */
void ip_service_kernel_leave(const struct ip_service_kernel *kernel);

/* Step 3. Frees it. kernel NULL: does nothing. Returns 0, also where ip_service_kernel_step() has
 * failed; -1 with an error; *ret is filled in even then. */
int ip_service_kernel_end(struct ip_service_kernel *kernel, struct ip_kernel_stats *ret);

#endif
