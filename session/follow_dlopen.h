/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target does to its own image while a session lasts: dlopen, dlclose, exec. (New threads
 * need nothing: the text is theirs too, and the runtime gives them a ring at their first hook.
 * Forks: follow_fork.h.)
 *
 *   1. Each turn looks whether the loader's list has changed (link_map.h: one system call, nothing
 *      of the target's).
 *   2. If so: note the list as it is now, then read the maps: what comes after the note is found by
 *      the next turn.
 *   3. Modules that are mapped still keep their files; new ones are opened; a library that has been
 *      unloaded is forgotten, there is nothing of it to put back.
 *   4. What the selections mean of the new modules goes live in a stop of its own (update.h),
 *      listed as "dlopen". The library may be unloaded at any moment until then, and another one be
 *      in its place: so nothing at all is written there before the stop, its stubs lie in the
 *      runtime's own pool, and in the stop every byte of the pages in question must be as planned.
 *      While the threads are stopped nobody unloads it.
 *   5. Where that fails it is tried again a little later: the next look at the list tells why.
 *      Where it goes on failing for ten seconds (no real-time priority on a busy machine, a thread
 *      that cannot stop) that is said, once, and the tries come once a second; they end with the
 *      session.
 *
 * Unloading a library whose sites are live: whoever is in a stub or hook of one of its sites has
 * yet to execute an instruction of it, or (exit of a tail call) is there in the place of a return
 * instruction of it. So the library is in use, and unloading it then breaks the program with or
 * without us.
 *
 * How soon: the look is made every turn, about once a millisecond for a while after a change and
 * every ten at least else, unless the last change took longer: then we rest for four times as long
 * as that took.
 *
 * exec: the image is gone, with sites, stubs and area. Under `iprobe run` the runtime in the new
 * image waits for us (run.c). Under attach --follow-exec goes on in it (follow_exec.h). Without
 * that the session has nothing left to record: it ends, unless it follows forked processes that
 * live.
 */
#ifndef IP_FOLLOW_DLOPEN_H
#define IP_FOLLOW_DLOPEN_H

#include <stdbool.h>

struct ip_session;
struct ip_follow_dlopen;
struct ip_link_map;

/* After the session has gone live in an image. -1 with an error. */
int ip_follow_dlopen_begin(struct ip_session *s);
void ip_follow_dlopen_destroy(struct ip_follow_dlopen *follow);

/* One turn. NULL: go on; else why to end. */
enum ip_end_reason ip_follow_dlopen_step(struct ip_session *s);

/* A copy of what was noted of the loader last; *ret_behind: some of that is not live yet. NULL
 * where nothing was, or there is no list. follow may be NULL. */
struct ip_link_map *ip_follow_dlopen_link_map(const struct ip_follow_dlopen *follow,
					      bool *ret_behind);

/* From the next turn on all is held against the text once more, whatever the list says: the watch
 * has found sites idle. follow may be NULL. */
void ip_follow_dlopen_want(struct ip_follow_dlopen *follow);

/* Whether more is to be expected soon: programs load libraries in bursts. follow may be NULL. */
bool ip_follow_dlopen_expects(const struct ip_follow_dlopen *follow);

/* The maps as they are now into s->target, modules as well: for who is about to put all back. -1
 * with an error. */
int ip_follow_dlopen_refresh(struct ip_session *s);

#endif
