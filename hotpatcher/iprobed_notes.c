/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of sessions, for an iprobed that comes after one that was killed with all of its workers.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/iprobed_internal.h"

/* When a process started, in the kernel's ticks: with its number it means this process and no other. 0: it is not there. */
static unsigned long long start_of(pid_t pid)
{
	unsigned long long start = 0;
	char name[64], text[1024], *p;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	_cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	if (!p ||
	    sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &start) != 1)
		return 0;
	return start;
}

static void name_of(const struct ip_iprobed_session *s, char name[32])
{
	snprintf(name, 32, "session-%d", s->request.pid);
}

int ip_iprobed_note(const struct ip_iprobed *d, const struct ip_iprobed_session *s)
{
	char name[32], text[128];
	int n = snprintf(text, sizeof(text), "%d %llu %u %u %d\n", s->request.pid, start_of(s->request.pid),
			 s->who.facts.ids.ruid, s->who.facts.ids.rgid, s->member);

	name_of(s, name);
	_cleanup_close_ int fd =
		openat(d->state, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && write(fd, text, n) == n)
		return 0;
	ip_error_errno("cannot note the session in %s", d->options->state);
	unlinkat(d->state, name, 0);
	return -1;
}

void ip_iprobed_forget(const struct ip_iprobed *d, const struct ip_iprobed_session *s)
{
	char name[32];

	/* another session of the same target may go on */
	for (size_t i = 0; i < d->nsessions; i++)
		if (d->sessions[i] != s && d->sessions[i]->request.pid == s->request.pid)
			return;
	name_of(s, name);
	unlinkat(d->state, name, 0);
}

/* The session of a note, made one that can be cleaned up after. NULL: there is nothing to do. */
static struct ip_iprobed_session *read_note(const struct ip_iprobed *d, const char *name)
{
	_cleanup_close_ int fd = openat(d->state, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct ip_iprobed_session *s;
	unsigned long long start;
	char text[128] = "";
	int member;
	unsigned uid, gid;
	pid_t pid;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 ||
	    sscanf(text, "%d %llu %u %u %d", &pid, &start, &uid, &gid, &member) != 5 || pid <= 0 || !start)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct ip_iprobed_session){.socket = -1,
					 .target = ip_pidfd_open(pid),
					 .who = {.pid = getpid(), .pidfd = -1},
					 .request = {.what = IP_REQUEST_DETACH, .pid = pid},
					 .member = member,
					 .cleaning = true};
	s->who.facts.ids = (struct ip_ids){uid, uid, uid, gid, gid, gid};
	/* the start is compared when the process is held: it is the one of the note, and stays it */
	if (s->target >= 0 && start_of(pid) == start && ip_pidfd_lives(s->target)) {
		struct ip_target_facts facts;

		if (!member)
			return s;
		s->entry.users = calloc(1, sizeof(uid_t));
		if (s->entry.users && ip_facts_of_target(pid, s->target, uid, &facts) == 0) {
			s->entry.users[s->entry.nusers++] = facts.ids.ruid;
			return s;
		}
	}
	if (s->target >= 0)
		close(s->target);
	ip_iprobed_clear_entry(&s->entry);
	free(s);
	return NULL;
}

void ip_iprobed_left_over(struct ip_iprobed *d,
			  void (*clean)(struct ip_iprobed *d, struct ip_iprobed_session *s))
{
	int again = openat(d->state, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;

	if (!dir && again >= 0)
		close(again);
	while (dir && (entry = readdir(dir))) {
		struct ip_iprobed_session *s;

		if (strncmp(entry->d_name, "session-", 8) || !isdigit((unsigned char)entry->d_name[8]))
			continue;
		s = read_note(d, entry->d_name);
		if (s)
			clean(d, s);
		else
			unlinkat(d->state, entry->d_name, 0);
	}
}
