/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what the processes of a session are called into the trace, and which process has forked
 * them. A forked child has the name and the command line of its parent, until it changes them.
 *
 *   1. The target, and each followed child when it is found (follow_fork.h): its parent, its name
 *      (/proc/PID/comm) and its command line are read from outside. Nothing is read of a child
 *      that shares another's memory: it is no process of its own in the trace.
 *   2. They are read again: often while the process is young, then less and less often, down to
 *      LONGEST_NS (process_names.c). What it is called is written when it has changed. The rest of
 *      the command line, which some servers change with each request, is written at the end only.
 *   3. The end of the process, or of the session before its sites are put back: what was read last
 *      is written.
 *
 * A process that executes another program, which is not recorded, keeps the name that it had. What
 * was read is thrown away if the process has not its image afterwards.
 *
 * What is missed: a child that has ended before 1, and what was changed after the last reading.
 *
 * All of it is text of the target's choice, and bounded: in length, in lines of a process, and in
 * lines of a session. Readings are bounded in each step, and in their share of the time.
 */
#ifndef IP_SESSION_PROCESS_NAMES_H
#define IP_SESSION_PROCESS_NAMES_H

#include "hotpatcher/process/target.h"
#include "session/follow/follow_fork.h"
#include "trace_writer/writer.h"

struct ip_process_names;

/* launched: iprobe has started the target itself, and knows its command: only children are named.
 * NULL: out of memory. The caller destroys it. */
struct ip_process_names *ip_process_names_create(bool launched);
void ip_process_names_destroy(struct ip_process_names *names);

/* Steps 1 and 2, or 3 if last. execed: the target executes a program that is not recorded. */
void ip_process_names_step(struct ip_process_names *names, const struct ip_target *target,
			   bool execed, struct ip_follow_fork *followed, struct ip_trace *trace,
			   bool last);

#endif
