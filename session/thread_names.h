/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the names of recorded threads into the trace, as they change.
 *
 * The names are read from outside (/proc/PID/task/TID/comm): the target makes no system call for
 * them, and is not stopped.
 *
 *   1. A thread that records for the first time has a new slot in the area. Its name is read in the
 *      next step of the session, which comes after milliseconds, and holds from the claim of the
 *      slot on.
 *   2. Names are read again: often while a thread is young, since most threads get their names in
 *      their first moments, then less and less often, down to LONGEST_NS (thread_names.c). A name
 *      that has changed holds from that reading on.
 *   3. All names are read once more before the session's sites are put back.
 *
 * A name that is read after the process has executed another program is not written.
 *
 * What is missed: the name of a thread that ended before 1, names that lasted for less than the
 * time between two readings, and the exact moment of a change.
 *
 * Slots are memory that the target can write to. So a process is only looked at if it is the target
 * or a followed child, and the readings of a step are limited, and their share of the time.
 */
#ifndef IP_SESSION_THREAD_NAMES_H
#define IP_SESSION_THREAD_NAMES_H

#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"
#include "session/follow/follow_fork.h"
#include "trace_writer/writer.h"

struct ip_thread_names;

/* NULL: out of memory. The caller destroys it. */
struct ip_thread_names *ip_thread_names_create(void);
void ip_thread_names_destroy(struct ip_thread_names *names);

/* Steps 1 and 2, or 3 if last. followed: NULL: no children are followed. */
void ip_thread_names_step(struct ip_thread_names *names, const struct ip_area *area,
			  const struct ip_target *target, const struct ip_follow_fork *followed,
			  struct ip_trace *trace, bool last);

/* Whether the target's names are by now those of another program, which it has executed. */
bool ip_thread_names_are_others(const struct ip_target *target);

/* Whether a name of the thread was written; tid is its id in the target's namespace. names may be
 * NULL. */
bool ip_thread_names_has(const struct ip_thread_names *names, uint32_t tid);

#endif
