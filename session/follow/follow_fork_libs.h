/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the libraries that followed children (follow_fork.h) load after the fork. The libraries
 * go live in the child, as they do in the target (follow_dlopen.h).
 *
 *   1. A child begins with the libraries that its parent had. So what is first noted of a child is
 *      a copy of what was last noted of the target. As long as the child's list of the loader, and
 *      one live site of each library that can be unloaded, are as noted, nothing else of the child
 *      is looked at. That costs one system call for each look and child (process_vm_readv), and at
 *      most one part in twenty of our time for all children.
 *   2. If the list or a site differs, the child is opened. Its memory is that of one program for
 *      good (target.h: one_image). Only after that it is checked that the child has the session's
 *      area mapped and that it has not executed another program meanwhile. So nothing is ever
 *      written to the memory of another program, should the child exec at any later step.
 *   3. The list is noted as it is now. Then the maps are read and the modules are opened. A change
 *      that comes after the note is found by the next look.
 *   4. The session's selections are compared with the child's text, and what is missing is made
 *      live in a stop of the child (update.h). What follow_dlopen.h says about text that may be
 *      unloaded at any moment is true here as well: the stubs lie in the runtime's pool, nothing is
 *      written to the library before the stop, and in the stop each byte must be as planned.
 *      Nothing is made idle: that would be a change of the session, which is refused while children
 *      live.
 *   5. The live sites are noted, and all the rest is forgotten: between two loads of a child only
 *      what is watched is kept. What fails is tried again (common/retry.h). dlclose therefore needs
 *      nothing from us: it shows at step 1, and what is gone is not found at step 3.
 *
 * Stubs and numbers. The session's list of modules (ip_area_module) belongs to the target and all
 * its children. Places of stubs are given once, for all of them. The bytes of the stubs are each
 * process's own, since pools are private memory. A library may lie at another address in another of
 * these processes. Then its entry is not taken over (stubs.c), so that numbers stay what they are.
 *
 * A change of the session's selection (a second iprobe attach) reaches the children in the same
 * way: each child is looked at once more.
 *
 * If iprobe is killed at any step, the child's text tells what is live, as the target's text does
 * (follow_fork.h, step 4).
 */
#ifndef IP_FOLLOW_FORK_LIBS_H
#define IP_FOLLOW_FORK_LIBS_H

struct ip_session;

/* Does one step: all followed children are looked at, and at most one is changed. Returns at once
 * if it is not time yet, or if children are not followed. The caller must look at s->write_failed
 * afterwards. */
void ip_follow_fork_libs_step(struct ip_session *s);

#endif
