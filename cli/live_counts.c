/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the counts of live processes. See live_counts.h.
 *
 * The texts of the last two readings are kept. Where the recording changes, since a process has
 * come or has loaded a library, functions get other indexes, and both texts are parsed again.
 */
#include "cli/live_counts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/read/members.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/interrupted.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/proc.h"
#include "common/trace/trace_format.h"
#include "session/session.h"
#include "trace_writer/journal.h"

#define COUNTS_MAX (1ull << 30)
#define END_NS	   3000000000ull

static char *path_of(const char *dir, const char *file)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir, file) >= 0)
		return path;
	ip_error("out of memory");
	return NULL;
}

/* Whether both names are of one directory. A pid may be another process by now, whose session has
 * another trace. */
static bool is_directory(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int cli_live_counts_add(struct cli_live_counts *c, pid_t pid, char *dir, bool joined)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->processes[i].dir, dir) || is_directory(c->processes[i].dir, dir)) {
			free(dir);
			return 0;
		}
	if (ip_array_grow(&c->processes, c->n, sizeof(*c->processes)) < 0) {
		free(dir);
		return -1;
	}
	c->processes[c->n++] = (struct cli_live_process){.pid = pid, .dir = dir, .joined = joined};
	return 0;
}

struct cli_live_process *cli_live_counts_find(const struct cli_live_counts *c, pid_t pid)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->processes[i].pid == pid && !c->processes[i].ended)
			return &c->processes[i];
	return NULL;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Returns whether the session has written its counts. One of iprobed's, which this user may not
 * ask, writes them by itself. */
static bool ask(struct cli_live_process *p)
{
	_cleanup_free_ char *dir = NULL, *path = NULL;

	if (ip_session_ask_counts(p->pid, &dir) == 0 && is_directory(dir, p->dir))
		return true;
	if (!p->joined && ip_proc_status(p->pid, "VmSize") >= 0 &&
	    (path = path_of(p->dir, IP_TRACE_COUNTS)) && ip_access(path, R_OK) == 0)
		return true;
	/* one of this command's own may be slow; a process that has ended has no memory */
	p->ended = p->joined || ip_proc_status(p->pid, "VmSize") < 0;
	return false;
}

/* Reads the counts that have been written. Returns 1 where the recording is to be read again, 0
 * where it is the same, -1 with an error. What is not there yet is passed over. */
static int read_one(struct cli_live_process *p, bool again)
{
	_cleanup_free_ char *session = path_of(p->dir, IP_TRACE_SESSION),
			    *path = path_of(p->dir, IP_TRACE_COUNTS), *text = NULL;
	struct stat now;
	size_t size;
	bool renewed;

	if (!session || !path)
		return -1;
	if (stat(session, &now) < 0 || ip_access(path, F_OK) < 0)
		return errno == ENOENT ? 0 : ip_error_errno("cannot read %s", p->dir);
	if (ip_read_regular_text(path, COUNTS_MAX, &text, &size) < 0)
		return -1;
	renewed = !p->text || !is_same(&now, &p->seen);
	free(p->before);
	p->before = p->text;
	p->nbefore = p->size;
	p->text = ip_steal_ptr(text);
	p->size = size;
	p->seen = now;
	/* of a session that was found late, what it counted before is not of this interval */
	if (!p->before && p->joined && again) {
		p->before = malloc(p->size + 1);
		if (!p->before)
			return ip_error("out of memory");
		memcpy(p->before, p->text, p->size);
		p->nbefore = p->size;
	}
	return renewed;
}

/* Loads the recording of a process. A process whose trace cannot be read is left out. */
static struct ip_recording *load(struct cli_live_process *p, const struct ip_recording *first)
{
	struct ip_recording *own;
	const char *why;

	if (ip_recording_load(p->dir, &own) < 0) {
		ip_notice("pid %d is left out: %s", p->pid, ip_error_message());
		p->left_out = true;
		return NULL;
	}
	why = first ? ip_recording_other_clock(first, own) : NULL;
	if (!why)
		return own;
	ip_notice("pid %d is left out: %s", p->pid, why);
	ip_recording_destroy(own);
	p->left_out = true;
	return NULL;
}

static int add_member(struct ip_recording_members *members, const struct cli_live_process *p,
		      struct ip_recording *own)
{
	const char *slash = strrchr(p->dir, '/');

	if (ip_array_grow(&members->items, members->n, sizeof(*members->items)) < 0) {
		ip_recording_destroy(own);
		return -1;
	}
	members->items[members->n++] = (struct ip_recording_member){
		.own = own, .name = strdup(slash ? slash + 1 : p->dir), .pid = p->pid};
	return members->items[members->n - 1].name ? 0 : ip_error("out of memory");
}

/* Puts the recordings of all processes together. One is taken as it is. */
static int load_all(struct cli_live_counts *c, struct ip_recording **ret)
{
	struct ip_recording_members *members = calloc(1, sizeof(*members));
	size_t k = 0;

	if (!members)
		return ip_error("out of memory");
	for (size_t i = 0; i < c->n; i++) {
		struct cli_live_process *p = &c->processes[i];
		struct ip_recording *own;

		p->known = false;
		if (!p->text || p->left_out)
			continue;
		own = load(p, members->n ? members->items[0].own : NULL);
		if (own && add_member(members, p, own) < 0) {
			ip_recording_members_destroy(members);
			return -1;
		}
		p->known = own;
	}
	if (!members->n) {
		ip_recording_members_destroy(members);
		*ret = NULL;
		return 0;
	}
	if (members->n == 1) {
		*ret = ip_steal_ptr(members->items[0].own);
		ip_recording_members_destroy(members);
	} else if (ip_recording_join(members, ret) < 0) {
		return -1;
	}
	for (size_t i = 0; i < c->n; i++)
		c->processes[i].member = c->processes[i].known && (*ret)->members
						 ? &(*ret)->members->items[k++]
						 : NULL;
	return 0;
}

static int renew(struct cli_live_counts *c)
{
	struct ip_recording *recording;
	struct ip_names *names;

	if (load_all(c, &recording) < 0)
		return -1;
	if (!recording)
		return ip_error("no recording of these processes can be read");
	names = ip_names_create(recording);
	if (!names) {
		ip_recording_destroy(recording);
		return -1;
	}
	if (c->full_names)
		ip_names_use_full(names);
	ip_names_destroy(c->names);
	ip_recording_destroy(c->recording);
	c->recording = recording;
	c->names = names;
	return 0;
}

static int add_text(const struct cli_live_counts *c, const struct cli_live_process *p, bool before,
		    struct ip_counts *counts)
{
	_cleanup_free_ char *path = path_of(p->dir, IP_TRACE_COUNTS);

	return path ? ip_counts_add(path, before ? p->before : p->text,
				    before ? p->nbefore : p->size, c->recording, p->member, counts)
		    : -1;
}

/* Adds up the last reading, or the one before. Returns NULL with an error. */
static struct ip_counts *add_up(const struct cli_live_counts *c, bool before)
{
	struct ip_counts *sum = ip_counts_create(c->recording);

	for (size_t i = 0; sum && i < c->n; i++) {
		const struct cli_live_process *p = &c->processes[i];

		if (!p->known || !(before ? p->before : p->text))
			continue;
		if (add_text(c, p, before, sum) < 0) {
			ip_counts_destroy(sum);
			return NULL;
		}
	}
	return sum;
}

size_t cli_live_counts_ask(struct cli_live_counts *c, bool only_joined)
{
	size_t answered = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct cli_live_process *p = &c->processes[i];

		if (!p->left_out && !p->ended && (p->joined || !only_joined))
			answered += ask(p);
	}
	return answered;
}

void cli_live_counts_await_end(const struct cli_live_counts *c)
{
	const struct timespec nap = {.tv_nsec = 5000000};
	const uint64_t limit = ip_now_ns() + END_NS;

	for (size_t i = 0; i < c->n; i++) {
		const struct cli_live_process *p = &c->processes[i];
		_cleanup_close_ int dir =
			p->joined ? open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

		/* the session is closed to others before it ends, and its journal is behind that */
		while (dir >= 0 && ip_journal_is_locked(dir) && ip_now_ns() < limit &&
		       !ip_interrupted)
			nanosleep(&nap, NULL);
	}
}

int cli_live_counts_read(struct cli_live_counts *c)
{
	bool renewed = false, again = c->now;
	struct ip_counts *now, *before = NULL;

	for (size_t i = 0; i < c->n; i++) {
		struct cli_live_process *p = &c->processes[i];
		int done;

		if (p->left_out)
			continue;
		done = read_one(p, again);
		if (done < 0)
			return -1;
		renewed |= done;
	}
	if (renewed && renew(c) < 0)
		return -1;
	if (!c->recording)
		return 0;
	now = add_up(c, false);
	if (!now || (again && !(before = add_up(c, true)))) {
		ip_counts_destroy(now);
		return -1;
	}
	/* the interval is one for all, also for a session that was found just now */
	if (before)
		before->tsc = c->now->tsc;
	ip_counts_destroy(c->before);
	ip_counts_destroy(c->now);
	c->now = now;
	c->before = before;
	return renewed;
}

int cli_live_counts_of(const struct cli_live_counts *c, size_t process, struct ip_counts **ret_now,
		       struct ip_counts **ret_before)
{
	const struct cli_live_process *p = &c->processes[process];

	*ret_now = *ret_before = NULL;
	if (!p->known)
		return 0;
	*ret_now = ip_counts_create(c->recording);
	if (c->before)
		*ret_before = ip_counts_create(c->recording);
	if (*ret_now && (*ret_before || !c->before) && add_text(c, p, false, *ret_now) == 0 &&
	    (!*ret_before || !p->before || add_text(c, p, true, *ret_before) == 0))
		return 1;
	ip_counts_destroy(ip_steal_ptr(*ret_now));
	ip_counts_destroy(ip_steal_ptr(*ret_before));
	return -1;
}

void cli_live_counts_clear(struct cli_live_counts *c)
{
	ip_counts_destroy(c->now);
	ip_counts_destroy(c->before);
	ip_names_destroy(c->names);
	ip_recording_destroy(c->recording);
	for (size_t i = 0; i < c->n; i++) {
		free(c->processes[i].dir);
		free(c->processes[i].text);
		free(c->processes[i].before);
	}
	free(c->processes);
	*c = (struct cli_live_counts){0};
}
