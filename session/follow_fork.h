/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that a target has forked: they carry copies of its live sites.
 *
 * Silent ones (their gate is closed) are put back one by one while the session goes on;
 * --follow-fork lets them open their gates by themselves (runtime/record.c), so that they record
 * from their first call on, and the session goes on until the last has ended. We are nobody's
 * tracer for it:
 *
 *   1. A child shows itself: a followed one holds a slot in the area. /proc/PID/task/TID/children
 *      of those that are known is read when the kernel has given a number to a process since, and
 *      now and then.
 *   2. It is one of the family while it has the image that the target had (its gate is the
 *      target's); one that has become another program is not, any more.
 *   3. A silent child that has lived for a while (most exec at once, or end) is put back in a stop
 *      of its own.
 *   4. At the end: forbid children to open gates; then, for each process on the machine that has
 *      the image (a daemon has another parent, and no descriptors of old): close its gate, put it
 *      back. Again, until nobody had anything to put back: a child that was forked meanwhile by one
 *      that was not yet put back is found by the next pass.
 *   5. A followed child has the area of all. One of whose threads the credentials differ from the
 *      target's (it has given up privileges, or the target has) is followed no longer: its gate is
 *      closed, its sites are put back in a stop, and a borrowed thread of it lays the area down
 *      (runtime/area.c). It is told. Until then, milliseconds after the change, it can write what
 *      its family records into.
 *   6. In the same way one that has the area though children are not followed gives it up: it was
 *      forked in the moment in which the target set the runtime up.
 */
#ifndef IP_FOLLOW_FORK_H
#define IP_FOLLOW_FORK_H

#include <stdbool.h>

#include "collector/collector.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"
#include "trace_writer/writer.h"

struct ip_follow_fork;

/* area and target are borrowed. follow: the children record. */
int ip_follow_fork_create(struct ip_area *area, struct ip_target *target, bool follow,
			  uint64_t deadline_ns, struct ip_follow_fork **ret);
void ip_follow_fork_destroy(struct ip_follow_fork *followed);

/* Step 4's permission: from now on (or no longer) children that are forked open their gates. */
void ip_follow_fork_allow(struct ip_follow_fork *followed, bool allow);

/* Steps 1 to 3; does nothing most of the time. -1 where the trace cannot be written. */
int ip_follow_fork_step(struct ip_follow_fork *followed, struct ip_collector *collector,
			struct ip_trace *trace);

/* Calls visit for each followed child that lives in a memory of its own, until it returns
 * something else than 0: that is returned. *kept is the caller's, NULL at first; forget (of all
 * calls the same, or NULL) frees it when the child has gone. *kept itself moves when the family
 * grows, which it may in visit. */
int ip_follow_fork_each(struct ip_follow_fork *followed,
			int (*visit)(void *data, pid_t pid, void **kept), void *data,
			void (*forget)(void *kept));

/* Whether the process has the target's image: not one that has become another program. */
bool ip_follow_fork_has(const struct ip_follow_fork *followed, pid_t pid);

/* Closes a target that is a child, maybe later: a thread of it that did not stop in time must be
 * let go first. */
void ip_follow_fork_close_target(struct ip_follow_fork *followed, struct ip_target *target);

/* Whether the session goes on without its target: a followed child lives. */
bool ip_follow_fork_lives(struct ip_follow_fork *followed);

/* Whether a thread has ended, for ip_collector_set_family(); data is the family. */
bool ip_follow_fork_is_gone(void *data, pid_t pid, pid_t tid);

/* Step 4, without the target. A line on stderr for each that had live sites; one that may not be
 * traced is named there too, it is no failure. */
void ip_follow_fork_restore(struct ip_follow_fork *followed);

/* The same for a session that followed forks and whose iprobe was killed: the gates of its
 * children are still open. The session lock must be held. Does nothing where there was no such
 * session. */
int ip_follow_fork_restore_dead(struct ip_area *area, struct ip_target *target,
				uint64_t deadline_ns);

/* Silent children that were put back so far. */
size_t ip_follow_fork_restored(const struct ip_follow_fork *followed);

#endif
