/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libraries that followed children (follow_fork.h) load after the fork: they go live in the
 * child, as they do in the target (follow_dlopen.h).
 *
 *   1. A child begins with what its parent had: so what is noted of it first is a copy of what was
 *      noted of the target last. While its loader's list, and one live site of each library that
 *      can go, are as noted nothing of it is looked at. That costs one system call a look and child
 *      (process_vm_readv), and one part in twenty of our time at most for all of them.
 *   2. Where they differ the child is opened. Its memory is that of one program for good (target.h:
 *      one_image), and only then is it made sure that it has the session's area mapped and that the
 *      program has not been left meanwhile: so nothing is ever written to another program's memory,
 *      should it exec at any later step.
 *   3. Note the list as it is now, then read the maps and open the modules: what comes after the
 *      note is found by the next look.
 *   4. Hold the session's selections against the child's text, and make what is missing live in a
 *      stop of the child (update.h). What follow_dlopen.h says of text that may be unloaded at any
 *      moment holds here as well: its stubs lie in the runtime's pool, nothing is written there
 *      before the stop, and in the stop each byte must be as planned. Nothing is made idle: that
 *      would be a change of the session, which is refused while children live.
 *   5. Note the live sites, and forget all the rest: nothing is kept of a child between its loads
 *      but what is watched. What fails is tried again (common/retry.h). dlclose therefore needs
 * nothing of us: it shows at 1, and what is gone is not found at 3.
 *
 * Stubs and numbers. The session's list of modules (ip_area_module) is the whole family's: places
 * of stubs are given once, for all of them; their bytes are each process's own, since pools are
 * private memory. A library that is elsewhere in another process of the family keeps its entry
 * there: it is not taken over (stubs.c), so that numbers stay what they are.
 *
 * A change of the session's selection (a second iprobe attach) reaches the children in the same
 * way: each is looked at once more.
 *
 * Killed at any step: the child's text tells, as the target's does (follow_fork.h, 4).
 */
#ifndef IP_FOLLOW_FORK_LIBS_H
#define IP_FOLLOW_FORK_LIBS_H

struct ip_session;

/* One turn: all followed children are looked at, at most one is changed. Returns at once where
 * it is not time yet, or no child is followed. Look at s->write_failed. */
void ip_follow_fork_libs_step(struct ip_session *s);

#endif
