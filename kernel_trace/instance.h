/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances of tracefs: buffers of their own, in which the events that we ask for are recorded,
 * while other tools use theirs.
 *
 * The name of an instance tells which process has made it. Protocol:
 *
 *   1. Instances of processes that are gone are removed: an iprobe that was killed has left them.
 *      A process is known by its pid and the time at which it was started.
 *   2. The instance is made, switched off. Its clock, its buffers and its events are set.
 *   3. It is switched on.
 *   4. It is switched off, what it holds is read, and it is removed.
 *
 * Killed between 2 and 4 we leave an instance behind, which goes on recording; the next iprobe that
 * records kernel events does step 1, and so does each iprobe detach of root's.
 */
#ifndef IP_INSTANCE_H
#define IP_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tracefs_instance;

/* Step 1. Returns how many were removed. */
size_t ip_instance_remove_left(void);

/* Step 2. part: what tells this instance from others of this process. buffer: bytes for each CPU.
 * Returns NULL with an error. */
struct tracefs_instance *ip_instance_create(const char *part, size_t buffer);

/* Records nothing but what happens while a thread of the process runs, and while threads and
 * children run that these make. Returns 0, or -1 with an error. */
int ip_instance_limit(struct tracefs_instance *instance, pid_t pid);

/* Asks for the events of a tracepoint that the kernel has. Returns 0, or -1 with an error. */
int ip_instance_enable(struct tracefs_instance *instance, const char *system,
		       const char *tracepoint);

/* Steps 3 and 4. Returns 0, or -1 with an error. */
int ip_instance_switch(struct tracefs_instance *instance, bool on);

/* How many events the CPU's buffer had no room for. */
unsigned long ip_instance_lost(struct tracefs_instance *instance, unsigned cpu);

/* Opens the pages of a CPU's buffer, not to wait for them. Returns -1 with an error. */
int ip_instance_open_cpu(struct tracefs_instance *instance, unsigned cpu);

/* Step 4: removes and frees it. What was opened of it must be closed. NULL is allowed. */
void ip_instance_remove(struct tracefs_instance *instance);
/* Whether one could not be removed. */
bool ip_instance_remains(void);

#endif
