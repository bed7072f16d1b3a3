/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of sessions. They are for an iprobed that starts after one that was killed with all of its
 * workers.
 *
 * Several users may have had one process traced, each with rights of his own. A note is for one
 * target, one user and one kind of right. These are its name; its text says when the target was
 * started. What is live is restored in the name of one of the users, those with most rights first.
 * This restores the sites of all users. If it fails, the next user is tried.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"
#include "iprobed/daemon_private.h"

#define NAME_SIZE 80

enum kind {
	MEMBER,
	OWN,
	ANY, /* the user has CAP_SYS_PTRACE himself */
	KINDS,
};

static const char *const kinds[] = {[MEMBER] = "member", [OWN] = "own", [ANY] = "any"};

struct note {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	enum kind kind;
};

static enum kind kind_of(const struct ip_iprobed_session *s)
{
	return s->who.facts.effective & 1ull << CAP_SYS_PTRACE ? ANY : s->member ? MEMBER : OWN;
}

static struct note note_of(const struct ip_iprobed_session *s)
{
	return (struct note){s->request.pid, s->who.facts.ids.ruid, s->who.facts.ids.rgid,
			     kind_of(s)};
}

static void name_of(const struct note *note, char name[NAME_SIZE])
{
	snprintf(name, NAME_SIZE, "session-%d-%u-%u-%s", note->pid, note->uid, note->gid,
		 kinds[note->kind]);
}

/* The inverse of name_of(). Returns 0 or -1. */
static int read_name(const char *name, struct note *ret)
{
	char kind[16] = "", again[NAME_SIZE];

	if (sscanf(name, "session-%d-%u-%u-%15s", &ret->pid, &ret->uid, &ret->gid, kind) != 4 ||
	    ret->pid <= 0)
		return -1;
	for (ret->kind = 0; ret->kind < KINDS && strcmp(kinds[ret->kind], kind); ret->kind++)
		;
	if (ret->kind == KINDS)
		return -1;
	name_of(ret, again);
	return strcmp(name, again) ? -1 : 0;
}

int ip_iprobed_note(const struct ip_iprobed *d, const struct ip_iprobed_session *s)
{
	const struct note note = note_of(s);
	char name[NAME_SIZE], text[64];
	int n = snprintf(text, sizeof(text), "%lu\n", ip_proc_started_at(note.pid));

	name_of(&note, name);
	_cleanup_close_ int fd =
		openat(d->state, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && write(fd, text, n) == n)
		return 0;
	ip_error_errno("cannot note the session in %s", d->options->state);
	unlinkat(d->state, name, 0);
	return -1;
}

static bool same(const struct note *a, const struct note *b)
{
	return a->pid == b->pid && a->uid == b->uid && a->gid == b->gid && a->kind == b->kind;
}

/* Returns whether there is a session for a note, other than but. */
static bool has_session(const struct ip_iprobed *d, const struct note *note,
			const struct ip_iprobed_session *but)
{
	for (size_t i = 0; i < d->nsessions; i++) {
		const struct note other = note_of(d->sessions[i]);

		if (d->sessions[i] != but && same(&other, note))
			return true;
	}
	return false;
}

void ip_iprobed_forget(const struct ip_iprobed *d, const struct ip_iprobed_session *s)
{
	const struct note note = note_of(s);
	char name[NAME_SIZE];

	if (has_session(d, &note, s))
		return;
	name_of(&note, name);
	unlinkat(d->state, name, 0);
}

/* Returns when the target of a note was started; 0: this cannot be read. */
static unsigned long long read_start(const struct ip_iprobed *d, const char *name)
{
	_cleanup_close_ int fd = openat(d->state, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	unsigned long long start;
	char text[64] = "";

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && sscanf(text, "%llu", &start) == 1
		       ? start
		       : 0;
}

/* Makes a session that cleans up according to a note. NULL: there is nothing to do. */
static struct ip_iprobed_session *make_session(const struct note *note, unsigned long long start)
{
	struct ip_iprobed_session *s = start ? calloc(1, sizeof(*s)) : NULL;
	struct ip_target_credentials facts;

	if (!s)
		return NULL;
	*s = (struct ip_iprobed_session){
		.target = ip_pidfd_open(note->pid),
		.report = -1,
		.who = {.pid = getpid(),
			.pidfd = -1,
			.facts.effective = note->kind == ANY ? 1ull << CAP_SYS_PTRACE : 0,
			.facts.ids = {note->uid, note->uid, note->uid, note->gid, note->gid,
				      note->gid},
			.limits = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}},
		.request = {.what = IP_REQUEST_DETACH, .pid = note->pid},
		.member = note->kind == MEMBER,
		.cleaning = true};
	/* The start time is compared while the pidfd holds the process: it is the process of the
	 * note, and stays so. */
	if (s->target >= 0 && ip_proc_started_at(note->pid) == start && ip_pidfd_lives(s->target)) {
		if (note->kind != MEMBER)
			return s;
		s->entry.users = calloc(1, sizeof(uid_t));
		if (s->entry.users &&
		    ip_credentials_of_target(note->pid, s->target, note->uid, &facts) == 0) {
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

/* Calls keep for each note, and unlinks those for which it returns false. */
static void each(const struct ip_iprobed *d,
		 bool (*keep)(const struct ip_iprobed *, const struct note *, void *), void *data)
{
	int again = openat(d->state, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;

	if (!dir && again >= 0)
		close(again);
	while (dir && (entry = readdir(dir))) {
		struct note note;

		if (strncmp(entry->d_name, "session-", 8))
			continue;
		if (read_name(entry->d_name, &note) < 0 || !keep(d, &note, data))
			unlinkat(d->state, entry->d_name, 0);
	}
}

static bool is_of_another(const struct ip_iprobed *d, const struct note *note, void *data)
{
	const struct ip_iprobed_session *s = data;

	return note->pid != s->request.pid || has_session(d, note, s);
}

void ip_iprobed_forget_all(const struct ip_iprobed *d, const struct ip_iprobed_session *s)
{
	each(d, is_of_another, (void *)s);
}

struct left_over {
	pid_t only; /* only this target; 0: all targets */
	struct note *notes;
	size_t n;
};

/* Collects the note with most rights of each target. A target that has a session is left out: the
 * session cleans up itself, or another one cleans up after it. */
static bool collect(const struct ip_iprobed *d, const struct note *note, void *data)
{
	struct left_over *l = data;

	if (l->only && note->pid != l->only)
		return true;
	for (size_t i = 0; i < d->nsessions; i++)
		if (d->sessions[i]->request.pid == note->pid &&
		    d->sessions[i]->request.what != IP_REQUEST_KERNEL)
			return true;
	for (size_t i = 0; i < l->n; i++)
		if (l->notes[i].pid == note->pid) {
			if (note->kind > l->notes[i].kind)
				l->notes[i] = *note;
			return true;
		}
	if (ip_array_grow(&l->notes, l->n, sizeof(*l->notes)) == 0)
		l->notes[l->n++] = *note;
	return true;
}

void ip_iprobed_left_over(struct ip_iprobed *d, pid_t target,
			  void (*clean)(struct ip_iprobed *d, struct ip_iprobed_session *s))
{
	bool again;

	do {
		struct left_over l = {.only = target};

		again = false;
		each(d, collect, &l);
		for (size_t i = 0; i < l.n; i++) {
			char name[NAME_SIZE];
			struct ip_iprobed_session *s;

			name_of(&l.notes[i], name);
			s = make_session(&l.notes[i], read_start(d, name));
			if (s)
				clean(d, s);
			else /* its process has ended; there may be other notes of it */
				again |= unlinkat(d->state, name, 0) == 0;
		}
		free(l.notes);
	} while (again);
}
