/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continues in the program that a target has executed (--follow-exec), in the same trace. Nothing
 * in the new image can wait for us, as the runtime does under `iprobe run`. Calls that the new
 * program makes before we are ready are not recorded. The length of that gap is reported.
 *
 *   1. follow_dlopen.c has found that the image is gone, and has taken what it had recorded out of
 *      the rings. The gap begins no later than the moment when follow_dlopen.c saw the old image
 *      for the last time, one step of the session before.
 *   2. Wait until the loader has all libraries in place; the loader itself tells when (link_map.h).
 *      A text that is still being mapped must not be mistaken for a text that another tool has
 *      changed.
 *   3. Does the selection match any probe of the image? If it does not (a shell, env, a wrapper),
 *      nothing of the image is touched, and we look again: libraries are loaded late, and the
 *      process may execute yet another program, which begins at step 1. The looks become less and
 *      less frequent, but go on until the session ends.
 *   4. Inject the runtime, or set it up if it sleeps, as in any attach (inject.h, runtime_wake.h).
 *      The new image has an area of its own: the old area went with the memory of the old image.
 *   5. Move the session to the new area. This takes: its lock; an entry in its list of modules that
 *      stands for all numbers given so far, so that every number of the trace has one meaning; the
 *      number that the session will have in the new area, written into the journal beside the
 *      present number; a new pool. The collector goes on with the same streams: the losses of a
 *      slot only grow. What follows forked processes, the site monitor and the control socket are
 *      made anew. Silent children that were forked before are put back through the old area. After
 *      that the old area is given up.
 *   6. Go live as in any attach. The gap ends.
 *
 * If a step from 4 to 6 fails, it is tried again for some seconds; then the session ends, with the
 * reason. If iprobe is killed at any point, the kernel releases the lock, and the next attach or
 * detach finds the runtime asleep or idle, as after any attach. From step 5 on attach --resume
 * knows the session by either number. Nothing is live before step 6, so attach --resume then ends
 * the recording properly.
 *
 * A session that also records forked children cannot move while a child lives that shares the old
 * area. Then the new program is not recorded, which is reported, and the session goes on for the
 * children. Programs that a child executes are not followed.
 */
#ifndef IP_FOLLOW_EXEC_H
#define IP_FOLLOW_EXEC_H

#include <stdint.h>

struct ip_session;
struct ip_follow_exec;

/* Step 1: the image is gone. seen_ns, seen_tsc: when the old image was seen for the last time. 0,
 * or -1 with an error. */
int ip_follow_exec_begin(struct ip_session *s, uint64_t seen_ns, uint64_t seen_tsc);
void ip_follow_exec_destroy(struct ip_follow_exec *follow_exec);

/* Tries steps 2 to 6 once. IP_END_NONE: the session goes on; else the reason why it ends. Does
 * nothing if no exec is being followed. */
enum ip_end_reason ip_follow_exec_step(struct ip_session *s);

#endif
