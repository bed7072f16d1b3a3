/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the processes that a target has forked: they carry copies of its live sites.
 *
 * A child is silent if its gate is closed. Silent children are put back one by one while the
 * session goes on. With --follow-fork children open their gates by themselves (runtime/record.c).
 * So they record from their first call on, and the session goes on until the last of them has
 * ended. None of this makes us the tracer of a child for longer than a stop:
 *
 *   1. Children are found in two ways. A followed child holds a slot in the area. Also,
 *      /proc/PID/task/TID/children of the known processes is read if the kernel has given a number
 *      to a process since the last look, and from time to time.
 *   2. A process counts as a child as long as it has the image that the target had (its gate is the
 *      target's). A process that has executed another program does not count any more.
 *   3. A silent child that has lived for a while (most children exec at once, or end) is put back
 *      in a stop of its own.
 *   4. At the end children are forbidden to open gates. Then, for each process on the machine that
 *      has the image (a daemon has another parent, and no old descriptors): its gate is closed, and
 *      it is put back. Only mappings of processes that execute the target's file are read, since
 *      whoever holds the lock of its own memory keeps readers waiting. This is repeated until
 *      there was nothing to put back in any process: a child that was forked meanwhile by a
 *      process that was not yet put back is found by the next pass.
 *   5. A followed child has the area that all of them share. If the credentials of one of its
 *      threads differ from the target's (the child has given up privileges, or the target has), the
 *      child is followed no longer. Its gate is closed, its sites are put back in a stop, and a
 *      borrowed thread of the child unmaps the area (runtime/area.c). This is reported. Until then,
 *      which is milliseconds after the change of credentials, the child can write into the area
 *      into which the target and its other children record.
 *   6. A child may have the area although children are not followed: it was forked in the moment in
 *      which the target set the runtime up. It gives the area up in the same way.
 */
#ifndef IP_FOLLOW_FORK_H
#define IP_FOLLOW_FORK_H

#include <stdbool.h>

#include "collector/collector.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"
#include "trace_writer/writer.h"

struct ip_follow_fork;

/* area and target are borrowed. follow: the children record. deadline_ns: of each stop of a child.
 * 0, and the caller destroys *ret; -1 with an error. */
int ip_follow_fork_create(struct ip_area *area, struct ip_target *target, bool follow,
			  uint64_t deadline_ns, struct ip_follow_fork **ret);
void ip_follow_fork_destroy(struct ip_follow_fork *followed);

/* let_go is called for each child that is not followed any more, and returns whether the child is
 * to have a session of its own: its notice says so. */
void ip_follow_fork_leave_to_others(struct ip_follow_fork *followed,
				    bool (*let_go)(void *context, pid_t pid), void *context);

/* The permission of step 4: children that are forked from now on open their gates (allow), or do
 * not. */
void ip_follow_fork_allow(struct ip_follow_fork *followed, bool allow);

/* Steps 1 to 3; does nothing most of the time. -1 where the trace cannot be written. */
int ip_follow_fork_step(struct ip_follow_fork *followed, struct ip_collector *collector,
			struct ip_trace *trace);

/* Calls visit for each followed child that has a memory of its own, until visit returns a value
 * other than 0; that value is returned. *kept belongs to the caller and is NULL at first. forget
 * frees it when the child has gone; forget must be the same in all calls, or NULL. *kept itself
 * moves when the list of children grows, which may happen during visit. */
int ip_follow_fork_each(struct ip_follow_fork *followed,
			int (*visit)(void *data, pid_t pid, void **kept), void *data,
			void (*forget)(void *kept));

/* Calls visit for each of the same children: with our number of it, its own, and the own number of
 * the process of the session that has forked it (0: not known). followed may be NULL. */
void ip_follow_fork_each_child(struct ip_follow_fork *followed,
			       void (*visit)(void *data, pid_t pid, pid_t inner, pid_t parent),
			       void *data);

/* Whether the process has the target's image. A process that has executed another program does
 * not. */
bool ip_follow_fork_has(const struct ip_follow_fork *followed, pid_t pid);

/* Closes a target that is a child, perhaps later: a thread of the child that did not stop in time
 * must be let go first. */
void ip_follow_fork_close_target(struct ip_follow_fork *followed, struct ip_target *target);

/* Returns our id of the followed child that sees itself as pid; 0: there is none. */
pid_t ip_follow_fork_outer_pid(const struct ip_follow_fork *followed, pid_t pid);

/* Whether the session goes on without its target: a followed child is alive. */
bool ip_follow_fork_lives(struct ip_follow_fork *followed);

/* Whether the target has forked children that the session has to do with. */
bool ip_follow_fork_has_children(const struct ip_follow_fork *followed);

/* Whether a thread has ended, for ip_collector_set_followed(). data is a struct ip_follow_fork. */
bool ip_follow_fork_is_gone(void *data, pid_t pid, pid_t tid);

/* Step 4, without the target. Prints a line on stderr for each child that had live sites. A child
 * that may not be traced is named there, too; it is no failure. */
void ip_follow_fork_restore(struct ip_follow_fork *followed);

/* Does the same for a session that followed forks and whose iprobe was killed: the gates of its
 * children are still open. The session lock must be held. Does nothing if there was no such
 * session. 0, or -1 with an error. */
int ip_follow_fork_restore_dead(struct ip_area *area, struct ip_target *target,
				uint64_t deadline_ns);

/* How many silent children were put back so far. */
size_t ip_follow_fork_restored(const struct ip_follow_fork *followed);

#endif
