/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a process still executes the image that was looked at.
 *
 * All that we know of a target (addresses of sites, of the runtime) holds for one image. An exec
 * replaces the image, perhaps by a program that we may not touch. The process id stays the same,
 * and the thread that executes the program gets the leader's thread id. Three facts tell:
 *
 *   1. The memory that we have open (/proc/PID/mem) dies with the last process that uses it.
 *   2. A thread that we trace tells of its exec (PTRACE_O_TRACEEXEC).
 *   3. An exec from before we traced the thread is not told of, and if another process shares the
 *      memory (vfork), the memory lives on. So the random bytes that the kernel gives each exec
 *      (AT_RANDOM) are compared: what the stopped thread has in its memory, and what the memory
 *      that we have open holds at the same place.
 *
 * The answer holds as long as every thread that could execute a program is stopped.
 */
#ifndef IP_IMAGE_H
#define IP_IMAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "hotpatcher/process/target.h"

/* Notes where the image has its random bytes. To be called when the memory of the image has been
 * opened. */
void ip_image_remember(struct ip_target *target);

/* Whether the thread, a stopped tracee of ours, has the memory that we have open. False also if
 * that cannot be known. */
bool ip_image_is_same(const struct ip_target *target, pid_t tid);

#endif
