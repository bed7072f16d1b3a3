/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows what a target does to its own image while a session lasts: dlopen, dlclose, exec. (New
 * threads need nothing. They execute the same text, and the runtime gives each of them a ring at
 * its first hook. For forks see follow_fork.h.)
 *
 *   1. Each step of the session checks whether the loader's list has changed (link_map.h). The
 *      check is one system call and does not involve the target.
 *   2. If the list has changed, it is noted as it is now, and the maps are read after that. A
 *      change that comes after the note is found by the next step of the session.
 *   3. Modules that are still mapped keep their open files. New modules are opened. A library that
 *      has been unloaded is forgotten: there is nothing to put back in it.
 *   4. What the selections ask for in the new modules goes live in a stop of its own (update.h),
 *      which is listed as "dlopen". Until that stop the library may be unloaded at any moment, and
 *      another library may take its place. So nothing at all is written there before the stop, the
 *      stubs lie in the runtime's own pool, and in the stop every byte of the pages in question
 *      must be as planned. While all threads are stopped, no thread can unload the library.
 *   5. If that fails, it is tried again a little later: the next check of the list tells the
 *      reason. If it goes on failing for ten seconds (no real-time priority on a busy machine, a
 *      thread that cannot stop), the failure is reported, once, and the tries come once a second.
 *      They end with the session.
 *
 * Unloading a library whose sites are live: a thread that is in a stub or hook of such a site still
 * has to execute an instruction of the library; or (exit of a tail call) it is there in the place
 * of a return instruction of the library. So the library is in use, and unloading it then breaks
 * the program with or without us.
 *
 * How soon: the check is made at every step of the session. That is about once a millisecond for a
 * while after a change, and else at least once in ten milliseconds. An exception is a change that
 * took longer: then the next check comes after a pause of four times the length of that change.
 *
 * exec: the image is gone, with its sites, stubs and area. Under `iprobe run` the runtime in the
 * new image waits for us (run.c). Under `iprobe attach`, --follow-exec continues in the new image
 * (follow_exec.h). Without that option the session has nothing left to record: it ends, unless it
 * follows forked processes that are alive.
 */
#ifndef IP_FOLLOW_DLOPEN_H
#define IP_FOLLOW_DLOPEN_H

#include <stdbool.h>

struct ip_session;
struct ip_follow_dlopen;
struct ip_link_map;

/* To be called after the session has gone live in an image. 0, or -1 with an error. */
int ip_follow_dlopen_begin(struct ip_session *s);
void ip_follow_dlopen_destroy(struct ip_follow_dlopen *follow);

/* Does one step. IP_END_NONE: the session goes on; else the reason why it ends. */
enum ip_end_reason ip_follow_dlopen_step(struct ip_session *s);

/* Copies what was noted of the loader last; the caller destroys the copy. *ret_behind: some of what
 * was noted is not live yet. NULL if nothing was noted, or if there is no list. follow may be
 * NULL. */
struct ip_link_map *ip_follow_dlopen_link_map(const struct ip_follow_dlopen *follow,
					      bool *ret_behind);

/* The site monitor has found idle sites: from the next step on everything is compared with the text
 * once more, even if the list has not changed. follow may be NULL. */
void ip_follow_dlopen_want(struct ip_follow_dlopen *follow);

/* Whether more changes are to be expected soon: programs load libraries in bursts. follow may be
 * NULL. */
bool ip_follow_dlopen_expects(const struct ip_follow_dlopen *follow);

/* Whether the last look at the list has not worked, and comes again. follow may be NULL. */
bool ip_follow_dlopen_retries(const struct ip_follow_dlopen *follow);

/* Whether a step has anything to do now: the list has changed, or the process executes another
 * program. It only looks. */
bool ip_follow_dlopen_is_due(const struct ip_session *s);

/* Reads the maps as they are now into s->target, and the modules into s->modules, for a caller that
 * is about to put all sites back. 0, or -1 with an error. */
int ip_follow_dlopen_refresh(struct ip_session *s);

#endif
