/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kind of thing a descriptor is that nobody could name, since it lived for a moment only: by
 * the system call that made it.
 *
 *   - Most such calls return the number: socket(2), accept(2), open(2), eventfd(2)...
 *   - pipe(2) and socketpair(2) write two numbers into the caller's memory, which is not recorded.
 * A number that the process has closed, that none of its calls has returned since, and that is used
 * all the same, was made by one of these. If all calls since then that make descriptors without a
 * word of their numbers were pipe(2), it is a pipe.
 *   - recvmsg(2) may bring any descriptor, and a copy (dup(2)) is what it is a copy of: of those
 *     the kind is not known.
 *   - Nothing is known of what was made before a program was executed, before many descriptors were
 *     closed at once, or before system calls were lost.
 */
#ifndef IP_DESCRIPTOR_BIRTHS_H
#define IP_DESCRIPTOR_BIRTHS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/thread_states.h"
#include "analysis/wait/wait_object.h"

struct ip_descriptor_births;

/* Orders what the calls of the trace have made and closed. pid_of: the process of a thread at a
 * time; 0: not known. Returns NULL with an error. */
struct ip_descriptor_births *
ip_descriptor_births_create(const struct ip_states *states,
			    uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc),
			    const void *context);
void ip_descriptor_births_destroy(struct ip_descriptor_births *births);

/* The kind of a process's descriptor at a time; IP_WAIT_OTHER: it is not known. */
enum ip_wait_kind ip_descriptor_births_kind(const struct ip_descriptor_births *births, uint32_t pid,
					    int32_t fd, uint64_t tsc);

/* Whether a system call makes descriptors, where it returns no error. */
enum ip_birth_kind {
	IP_BIRTH_NONE,
	IP_BIRTH_ONE,	/* its result is the number */
	IP_BIRTH_UNTOLD /* one or several; the result does not tell */
};
enum ip_birth_kind ip_descriptor_makes(const struct ip_thread_call *call);

#endif
