/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes what the descriptors of the target's processes are: DIR/iprobe/descriptors
 * (common/trace/trace_format.h). The kernel's events have numbers only.
 *
 * Protocol, for a descriptor that a system call has made:
 *
 *   1. The call's return is read from the kernel's buffer: the thread has descriptor N.
 *   2. What N is now is read from /proc/TID/fd/N.
 *   3. The buffers are read again. They hold all that has happened up to step 2. Where a thread has
 *      begun meanwhile to close N, or to put another file there, N may have been that other file in
 *      step 2, and nothing is noted.
 *   4. It is noted, from the time of step 1 on.
 *
 * So what is noted is right, until the number is closed or given to something else: readers see
 * that in the kernel's events. What is missing is told as unknown. Where more calls than
 * IP_DESCRIPTORS_MOST return in one turn of the reader, the rest is not looked at. Where events
 * were lost, nothing is noted of what came before.
 */
#ifndef IP_DESCRIPTOR_LOG_H
#define IP_DESCRIPTOR_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_DESCRIPTORS_MOST 256u

struct ip_call_path;
struct ip_descriptor_log;

struct ip_kernel_segments;

/* dir: of the trace. in_segments: it has a file for each segment, from that segment on; kept: which
 * are in memory; NULL: they are written. Both are borrowed. Returns NULL with an error. */
struct ip_descriptor_log *ip_descriptor_log_open(int dir, bool in_segments, uint32_t segment,
						 struct ip_kernel_segments *kept);
void ip_descriptor_log_close(struct ip_descriptor_log *log);

/* Begins another segment. Returns 0, or -1 with an error. */
int ip_descriptor_log_cut(struct ip_descriptor_log *log, uint32_t segment);

/* How much was written, in bytes. */
uint64_t ip_descriptor_log_bytes(const struct ip_descriptor_log *log);

/* Whether the calling thread may look at a process' descriptors; of one that has ended: yes. */
bool ip_descriptor_log_may_look(pid_t pid);

/* Notes the descriptors that a process has, as what they were from tsc on. Returns 0, or -1 with an
 * error: it cannot be written. */
int ip_descriptor_log_scan(struct ip_descriptor_log *log, pid_t pid, uint64_t tsc);

/* Steps 1 and 3: looks at an event (common/trace/kernel_format.h). */
void ip_descriptor_log_event(struct ip_descriptor_log *log, const uint8_t *event);

/* Step 2. Returns whether there was something to look at: then step 3 and ip_descriptor_log_write()
 * follow. */
bool ip_descriptor_log_look(struct ip_descriptor_log *log);
/* When the first one was made that has still to come to step 4; UINT64_MAX: there is none. */
uint64_t ip_descriptor_log_oldest(const struct ip_descriptor_log *log);
/* In place of step 4: step 3 cannot be finished, or events were lost. */
void ip_descriptor_log_give_up(struct ip_descriptor_log *log);
/* Step 4. Returns 0, or -1 with an error. */
int ip_descriptor_log_write(struct ip_descriptor_log *log);

/* Notes a path that a system call was given, as the file has them: a line of its own kind. Of a
 * segment, and of a trace without, so much is noted that readers can take all of it; what comes
 * then is a gap. */
void ip_descriptor_log_path(struct ip_descriptor_log *log, const struct ip_call_path *path);
/* Behind the last of some paths. Returns 0, or -1 with an error. */
int ip_descriptor_log_paths_end(struct ip_descriptor_log *log);

#endif
