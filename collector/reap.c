/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds threads that have ended. Their slots become free when all that they left has been taken.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/collector_private.h"
#include "common/cleanup.h"

static int by_tid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns the thread's id as the target itself sees it (last field of NSpid). */
static pid_t inner_tid(pid_t pid, const char *tid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[300], line[512];
	const char *last;

	snprintf(name, sizeof(name), "/proc/%d/task/%s/status", pid, tid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6)) {
			last = strrchr(line, '\t');
			return last ? atoi(last + 1) : 0;
		}
	return 0;
}

static bool same_pid_namespace(pid_t pid)
{
	char name[64], ours[64] = "", theirs[64] = "?";

	snprintf(name, sizeof(name), "/proc/%d/ns/pid", pid);
	return readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 &&
	       readlink(name, theirs, sizeof(theirs) - 1) > 0 && !strcmp(ours, theirs);
}

/* Lists all living threads, sorted. Returns their number, or -1 if they cannot be listed. The
 * kernel lists a leader that has ended as long as other threads live; it is left out here. */
static ssize_t list_threads(pid_t pid, bool same, pid_t **ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	bool leaderless = ip_proc_is_zombie(pid);
	struct dirent *entry;
	size_t n = 0, capacity = 0;
	char name[64];

	*ret = NULL;
	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    (leaderless && atoi(entry->d_name) == pid))
			continue;
		if (n == capacity) {
			void *grown = realloc(*ret, (capacity = capacity ? 2 * capacity : 64) *
							    sizeof(pid_t));

			if (!grown)
				return -1;
			*ret = grown;
		}
		(*ret)[n++] = same ? atoi(entry->d_name) : inner_tid(pid, entry->d_name);
	}
	if (n)
		qsort(*ret, n, sizeof(pid_t), by_tid);
	return dir ? (ssize_t)n : -1;
}

static bool is_listed(const pid_t *threads, ssize_t n, pid_t tid)
{
	return n > 0 && bsearch(&tid, threads, n, sizeof(*threads), by_tid);
}

static bool is_alive(pid_t pid, pid_t tid)
{
	return (syscall(SYS_tgkill, pid, tid, 0) == 0 || errno != ESRCH) &&
	       !(tid == pid && ip_proc_is_zombie(pid));
}

/* The thread of the claim was alive at that time. */
static void saw(struct ip_claim *s, uint64_t at)
{
	s->seen_before = s->seen;
	s->seen = at;
}

/* Finds threads that have ended, takes what they left and frees their slots. */
int ip_reap(struct ip_collector *c)
{
	uint32_t used = slots_used(c);
	/* slots may be claimed meanwhile */
	_cleanup_free_ uint8_t *gone = calloc(IP_AREA_SLOTS, 1);
	_cleanup_free_ uint64_t *claims = calloc(used + 1, sizeof(*claims));
	_cleanup_free_ pid_t *threads = NULL;
	uint64_t at;
	bool same;
	size_t ngone = 0;
	ssize_t n;
	bool ended;
	int drained;

	if (!gone || !claims)
		return 0;
	same = c->same_namespace = c->same_namespace || same_pid_namespace(c->target->pid);
	/* Read the claims before listing the threads: then a claim whose thread is not in the list
	 * belongs to a thread that has ended. */
	for (uint32_t i = 0; i < used; i++) {
		claims[i] = is_claimed(c, i) ? c->area->slots[i].claimed : 0;
		if (c->slots[i].looked != claims[i])
			c->slots[i].seen = c->slots[i].seen_before = 0;
		c->slots[i].looked = claims[i];
	}
	/* The target has ended; followed children may go on. */
	ended = c->followed_gone && !ip_target_alive(c->target);
	at = ip_drain_now(c);
	n = ended ? 0 : list_threads(c->target->pid, same, &threads);
	if (n < 0)
		return 0;
	for (uint32_t i = 0; i < used; i++) {
		pid_t tid = c->area->slots[i].tid, pid = c->area->slots[i].pid;
		struct ip_claim *s = &c->slots[i];
		bool known = true;

		if (claims[i] && pid != c->target->inner_pid && c->followed_gone) {
			gone[i] = c->followed_gone(c->followed, pid, tid);
			/* otherwise the answer "not gone" does not prove that it lives */
			known = same;
		} else if (ended)
			gone[i] = claims[i] != 0;
		/* A listing can miss a living thread while other threads start and end. So two
		 * listings in a row must agree. */
		else if (!claims[i] || is_listed(threads, n, tid))
			s->missing = 0;
		else if (s->missing++)
			gone[i] = same ? !is_alive(c->target->pid, tid) : 1;
		if (!gone[i] && !s->missing && known)
			saw(s, at);
		ngone += gone[i];
	}
	if (!ngone)
		return 0;
	c->gone = gone;
	drained = ip_drain_full(c, false);
	c->gone = NULL;
	if (drained < 0)
		return -1;
	for (uint32_t i = 0; i < used; i++) {
		if (!gone[i] || !is_claimed(c, i) || c->area->slots[i].claimed != claims[i])
			continue;
		if (ip_drain_slot(c, i, c->slots[i].seen) < 0)
			return -1;
		ip_drain_release(c, i);
	}
	return 0;
}

void ip_reap_look(const struct ip_collector *c, uint8_t *ret)
{
	bool alive = ip_target_alive(c->target), same = same_pid_namespace(c->target->pid);
	_cleanup_free_ pid_t *threads = NULL, *again = NULL;
	ssize_t n = -1, m = -1;

	if (alive && !same && (n = list_threads(c->target->pid, same, &threads)) >= 0)
		m = list_threads(c->target->pid, same, &again);
	for (uint32_t i = 0; i < slots_used(c); i++) {
		pid_t tid = c->area->slots[i].tid, pid = c->area->slots[i].pid;

		if (!is_claimed(c, i))
			continue;
		if (pid != c->target->inner_pid && c->followed_gone)
			ret[i] = c->followed_gone(c->followed, pid, tid);
		else if (!alive)
			ret[i] = 1;
		else if (same)
			ret[i] = !is_alive(c->target->pid, tid);
		else
			ret[i] = m >= 0 && !is_listed(threads, n, tid) && !is_listed(again, m, tid);
	}
}
