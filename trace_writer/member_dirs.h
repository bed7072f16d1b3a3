/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a recording of several processes, for the iprobe that writes it: it keeps the
 * list of members (common/trace/trace_members.h). Each member's trace is written by another
 * process, which makes the sub-directory itself.
 */
#ifndef IP_MEMBER_DIRS_H
#define IP_MEMBER_DIRS_H

#include <sys/types.h>

#include "common/trace/trace_members.h"

struct ip_member_dirs;

/* Makes the directory by the rules of ip_trace_create(): one that exists is kept as DIR.old.
 * service: how the processes were chosen, for people. Returns 0, or -1 with an error. */
int ip_member_dirs_create(const char *dir, const char *service, struct ip_member_dirs **ret);

/* Announces a member, before its trace is made. ret: receives the name of its sub-directory.
 * Returns 0, or -1 with an error. */
int ip_member_dirs_add(struct ip_member_dirs *dirs, pid_t pid, const char *comm,
		       char ret[IP_TRACE_MEMBER_NAME]);

/* A member that was announced has come to nothing. Returns 0, or -1 with an error. */
int ip_member_dirs_remove(struct ip_member_dirs *dirs, const char *name);

/* Events of the kernel are recorded for all members: which groups (bits of enum ip_kernel_group),
 * how many so far, how many the kernel had no room for, and where they come from; NULL: not known.
 * Returns 0, or -1 with an error. */
int ip_member_dirs_set_kernel(struct ip_member_dirs *dirs, unsigned groups, uint64_t events,
			      uint64_t lost, const char *source);

/* Removes the members whose directories do not exist. Does nothing where dirs is NULL. */
void ip_member_dirs_keep_made(struct ip_member_dirs *dirs);

/* The directory, open; of dirs. */
int ip_member_dirs_fd(const struct ip_member_dirs *dirs);
/* The number of members. */
size_t ip_member_dirs_n(const struct ip_member_dirs *dirs);

/* Ends the recording. A directory without members is removed, and what was kept as DIR.old for it
 * comes back. dirs may be NULL. */
void ip_member_dirs_close(struct ip_member_dirs *dirs);

#endif
