/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a recording of several processes. Each process has a complete trace of its own in
 * a sub-directory. DIR/iprobe/members lists the sub-directories:
 *
 *   DIR/iprobe/members      text, see below
 *   DIR/NAME-PID/           the trace of one process (common/trace/trace_format.h)
 *
 * CTF readers look for traces in sub-directories, so they open DIR as it is.
 *
 * The file is UTF-8. It is replaced as a whole when a process joins. Control characters and
 * backslashes in TEXT are written as \xHH. Lines with another key belong to a newer version and are
 * skipped.
 *
 *   iprobe-members 1
 *            (first line)
 *   service TEXT
 *            (how the processes were chosen, for people; cut at 4096 bytes)
 *   member PID NAME
 *            (in the order in which they joined. PID: as the recording iprobe sees it. NAME: the
 *            sub-directory. It may not exist yet, or never)
 *   kernel_events N LOST GROUPS
 *            (events of the kernel, "sched,irq", of all members are in DIR/kernel:
 *            common/trace/kernel_format.h. N and LOST are 0 until the recording has ended)
 *   kernel_source WORD
 *            (where these came from: tracefs, perf)
 */
#ifndef IP_TRACE_MEMBERS_H
#define IP_TRACE_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_TRACE_MEMBERS      "iprobe/members"
#define IP_TRACE_MEMBERS_MAX  4096u
#define IP_TRACE_MEMBERS_SIZE (1u << 20) /* bytes of the file, at most */
#define IP_TRACE_MEMBER_NAME  64u	 /* bytes of a name, with its NUL */

struct ip_trace_member {
	char *name; /* of the sub-directory */
	pid_t pid;
};

/* All strings are owned by the struct; ip_trace_members_clear() frees them. All zero: no member. */
struct ip_trace_members {
	char *service; /* NULL: not told */
	struct ip_trace_member *items;
	size_t n;
	char *kernel_groups; /* NULL: no events of the kernel were recorded */
	uint64_t kernel_events, kernel_lost;
	char *kernel_source; /* NULL: not told */
};

/* Reads the list of the directory that is open on dirfd; path is for messages. Each name in *ret is
 * one that ip_trace_member_is_name() allows, and stands there once. Returns 0; 1 if there is no
 * list (*ret is empty): the directory is a trace of one process, or none; -1 with an error. */
int ip_trace_members_read(int dirfd, const char *path, struct ip_trace_members *ret);

/* Parses the text of a list. name is for messages. Returns 0, or -1 with an error. */
int ip_trace_members_parse(const char *name, const char *text, size_t size,
			   struct ip_trace_members *ret);

/* Copies the name. Returns 0, or -1 with an error: the name is not allowed or is there already, or
 * there are too many members. */
int ip_trace_members_add(struct ip_trace_members *members, const char *name, pid_t pid);

/* Replaces the list on disk: a reader sees the old one or the new one. Makes the sub-directory
 * iprobe if it is missing. Returns 0, or -1 with an error; the old list stays then. */
int ip_trace_members_write(int dirfd, const char *path, const struct ip_trace_members *members);

void ip_trace_members_clear(struct ip_trace_members *members);

/* Makes NAME-PID for a process: comm with everything but letters, digits, '.', '_' and '-'
 * replaced, at most 32 bytes of it. Returns 0, or -1 with an error where size is too small;
 * IP_TRACE_MEMBER_NAME is enough. */
int ip_trace_member_name(pid_t pid, const char *comm, char *ret, size_t size);

/* Whether a sub-directory of a member may have this name: letters, digits, '.', '_', '-', not '.'
 * or
 * '-' at the beginning, shorter than IP_TRACE_MEMBER_NAME, and no file of a trace. */
bool ip_trace_member_is_name(const char *name);

/* Opens the sub-directory of a member for reading. It must be a directory itself, no symbolic link.
 * Returns a descriptor of the caller's, or -1 with errno. */
int ip_trace_member_open(int dirfd, const char *name);

#endif
