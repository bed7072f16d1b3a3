/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was so when recording began: the threads of the target, and the system calls that they had
 * not returned from. Without it a thread that waits from before to behind the recording has no
 * event at all.
 */
#ifndef IP_BEGIN_STATES_H
#define IP_BEGIN_STATES_H

#include <stdbool.h>
#include <sys/types.h>

struct ip_kernel_stream;

/* Reads the state of the process' threads from /proc, and writes it into a stream of its own. The
 * instances must be switched on: what changes meanwhile they record. calls: also which system
 * calls; parent: also the id of its parent. Returns 0, or -1 with an error. */
int ip_begin_states_write(struct ip_kernel_stream *stream, pid_t pid, bool calls, bool parent);

#endif
