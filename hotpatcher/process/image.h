/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process still executes the image that was looked at.
 *
 * All that we know of a target (addresses of sites, of the runtime) holds for one image. An exec
 * replaces it, maybe by a program that none of us may touch, under the same process id and, for the
 * thread that executes it, under the leader's thread id. Three things tell:
 *
 *   1. The memory that we have open (/proc/PID/mem) dies with the last process that uses it.
 *   2. A thread that we trace tells of its exec (PTRACE_O_TRACEEXEC).
 *   3. An exec from before we traced it is not told of, and where another process shares the memory
 *      (vfork) that lives on. So what the stopped thread itself has in its memory is compared with
 *      what ours holds at the same place: the random bytes that the kernel gives each exec
 *      (AT_RANDOM).
 *
 * The answer holds as long as every thread that could execute a program stands.
 */
#ifndef IP_IMAGE_H
#define IP_IMAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "hotpatcher/process/target.h"

/* Notes where the image has its random bytes. To be called when its memory has been opened. */
void ip_image_remember(struct ip_target *target);

/* Whether the thread, a tracee of ours that stands, has the memory that we have open. False also
 * where that cannot be known. */
bool ip_image_is_same(const struct ip_target *target, pid_t tid);

#endif
