/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of the targets that have a session. They are for the next process of rules, if this one is
 * killed together with all its sessions. And a lock: a process that ends may still be restoring
 * bytes when the next one begins.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access/credentials.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/now.h"
#include "iprobed/rules/rules_private.h"
#include "iprobed/rules/store.h"

#define LOCK_NS	 60000000000ull
#define CLEAN_NS 30000000000ull

static void name_of(const struct ip_rules *e, pid_t pid, char name[4096])
{
	snprintf(name, 4096, "%s/rule-%d", e->options->state, pid);
}

static bool is_note(const char *name)
{
	return !strncmp(name, "rule-", 5) && isdigit((unsigned char)name[5]);
}

int ip_rules_note(const struct ip_rules *e, const struct ip_rules_process *p)
{
	char name[4096], text[64];
	int n = snprintf(text, sizeof(text), "%d %llu\n", p->pid, p->start);

	name_of(e, p->pid, name);
	_cleanup_close_ int fd =
		open(name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0 && write(fd, text, n) == n)
		return 0;
	ip_error_errno("cannot note the session in %s", e->options->state);
	unlink(name);
	return -1;
}

void ip_rules_forget(const struct ip_rules *e, const struct ip_rules_process *p)
{
	char name[4096];

	name_of(e, p->pid, name);
	unlink(name);
}

static void nap(void)
{
	const struct timespec t = {.tv_nsec = 20000000};

	nanosleep(&t, NULL);
}

static void name_lock(const struct ip_rules *e, char name[4096])
{
	snprintf(name, 4096, "%s/rules.lock", e->options->state);
}

/* Returns a descriptor; -2 if another process has the lock; -1 with an error. */
static int try_lock(const char *name)
{
	_cleanup_close_ int fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0)
		return ip_error_errno("cannot open %s", name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -2 : ip_error_errno("cannot lock %s", name);
	/* the process that had it before has removed it at its end */
	return fstat(fd, &st) == 0 && st.st_nlink ? ip_steal_fd(&fd) : -2;
}

/* Takes the lock. It is held as long as there are rules to carry out. */
static int lock(struct ip_rules *e)
{
	uint64_t limit = ip_now_ns() + LOCK_NS;
	char name[4096];

	name_lock(e, name);
	while ((e->lock = try_lock(name)) == -2) {
		if (ip_now_ns() > limit)
			return ip_error("%s: another iprobed carries out rules here", name);
		nap();
	}
	return e->lock < 0 ? -1 : 0;
}

bool ip_rules_were_here(const struct ip_rules *e)
{
	_cleanup_closedir_ DIR *dir = opendir(e->options->state);
	const struct dirent *entry;
	char name[4096];

	while (dir && (entry = readdir(dir)))
		if (is_note(entry->d_name))
			return true;
	name_lock(e, name);
	return ip_access(name, F_OK) == 0;
}

void ip_rules_unlock(struct ip_rules *e)
{
	char name[4096];

	if (e->lock < 0)
		return;
	name_lock(e, name);
	unlink(name);
	close(e->lock);
	e->lock = -1;
}

/* Runs iprobe detach on the process of a note, and waits for it. Returns whether the note is no
 * longer needed. */
static bool clean(struct ip_rules *e, const char *name)
{
	_cleanup_fclose_ FILE *file = fopen(name, "re");
	uint64_t limit = ip_now_ns() + CLEAN_NS;
	struct ip_rules_process process;
	struct ip_rules_target *t;
	unsigned long long start;
	pid_t pid;

	if (!file || fscanf(file, "%d %llu", &pid, &start) != 2 || pid <= 0 ||
	    ip_rules_process_read(pid, &process) < 0)
		return true;
	if (process.start != start) {
		ip_rules_process_clear(&process);
		return true;
	}
	if (ip_rules_target_add(e, &process, &t) < 0) {
		ip_rules_process_clear(&process);
		return false;
	}
	ip_rules_log(NULL, t, "rules before these have left a session: what is live is put back");
	/* It takes all of its steps. If it fails the loop goes on with it. */
	t->doing = IP_RULES_CLEAN;
	while (ip_rules_target_step(e, t, ip_now_ns()) && !ip_rules_target_rests(t) &&
	       ip_now_ns() < limit)
		nap();
	if (t->doing != IP_RULES_NOTHING)
		return false;
	ip_rules_target_free(t);
	e->ntargets--;
	return true;
}

int ip_rules_left_over(struct ip_rules *e)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;

	if (lock(e) < 0)
		return -1;
	dir = opendir(e->options->state);
	while (dir && (entry = readdir(dir))) {
		bool rule = is_note(entry->d_name);
		bool watch = !strncmp(entry->d_name, "watch-", 6) &&
			     isdigit((unsigned char)entry->d_name[6]);
		char name[4096];

		if ((!rule && !watch) || snprintf(name, sizeof(name), "%s/%s", e->options->state,
						  entry->d_name) >= (int)sizeof(name))
			continue;
		if (rule) {
			if (clean(e, name))
				unlink(name);
		} else {
			ip_rules_store_remove(name);
		}
	}
	return 0;
}
