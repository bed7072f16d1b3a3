/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going on in the program that a target has become (--follow-exec), in the same trace. Nothing can
 * wait for us in the new image, as it does under iprobe run: what it calls before we are there is
 * not recorded, and how long that was is told.
 *
 *   1. follow_dlopen.c has seen that the image is gone and has taken what it had recorded out of
 *      the rings. When it saw the old image for the last time, a turn before, the gap begins, at
 *      the latest.
 *   2. Wait until the loader has all libraries in place: it says so itself (link_map.h). A text
 *      that is being mapped must not be taken for one that somebody else has changed.
 *   3. Does the selection mean any probe of the image? Where not (a shell, env, a wrapper), nothing
 *      of it is touched, and we look again: libraries come late, and it may become yet another
 *      program, which begins at 1. Ever more seldom, but until the session ends.
 *   4. Put the runtime there or wake it, as in any attach (inject.h, runtime_wake.h). The new image
 *      has an area of its own: the old one went with its memory.
 *   5. Move the session to the new area: its lock; an entry in its list of modules that stands for
 *      all numbers given so far, so that every number of the trace means one thing; the number that
 *      the session will have there, in the journal beside the one that it has; a new pool. The
 *      collector goes on with the same streams: a slot's losses only grow. Family, watch and
 *      control are made anew. Children that were forked before and are silent are put back through
 *      the old area, which is then given up.
 *   6. Go live as in any attach. The gap ends.
 *
 * Where 4 to 6 fail they are tried again for some seconds; then the session ends, with the reason.
 * Killed at any point: the lock is the kernel's to release, and the next attach or detach finds the
 * runtime asleep or idle, as after any attach. From 5 on attach --resume knows the session by
 * either number: nothing is live before 6, so it ends the recording properly.
 *
 * A session that records forked children too cannot move while one lives that shares the old area:
 * then the new program is not recorded, which is said, and the session goes on for them. Programs
 * that a child executes are not followed.
 */
#ifndef IP_FOLLOW_EXEC_H
#define IP_FOLLOW_EXEC_H

#include <stdint.h>

struct ip_session;
struct ip_follow_exec;

/* Step 1: the image is gone. seen_ns, seen_tsc: when it was there for the last time. -1 with an
 * error. */
int ip_follow_exec_begin(struct ip_session *s, uint64_t seen_ns, uint64_t seen_tsc);
void ip_follow_exec_destroy(struct ip_follow_exec *follow_exec);

/* One turn of steps 2 to 6. NULL: go on; else why to end. Does nothing where nothing has begun. */
enum ip_end_reason ip_follow_exec_step(struct ip_session *s);

#endif
