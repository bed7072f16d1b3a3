/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking for processes: /proc is listed again and again. Of one that is known two small files are looked at, which tell whether it is still that
 * one, and the same program and user; of a new one what rules ask for is read, and read again after a second: a program that has just been executed may
 * not have its command line yet, or not the one that it gives itself. The kernel's messages about processes would take
 * CAP_NET_ADMIN, which we have not. No more than a hundredth of a CPU goes there.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/grow.h"
#include "hotpatcher/facts.h"
#include "hotpatcher/rules_internal.h"
#include "hotpatcher/stop.h"

#define SCAN_NS	      200000000ull
#define SCAN_SHARE    250 /* one part in so many of the time goes there; forks and their ends come on top */
#define SCAN_LIMIT_NS 5000000000ull
#define AGAIN_NS      1000000000ull
#define FRESH_NS      3000000000ull /* what matches a rule later than that has not just started */

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
	return hash;
}

static int compare(const void *a, const void *b)
{
	const struct ip_rules_seen *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* Those that are ours are nobody's business. */
static bool is_ours(const struct ip_rules *e, const char *exe)
{
	const char *slash = strrchr(e->options->program, '/');
	size_t folder = slash ? (size_t)(slash + 1 - e->options->program) : 0;

	return !strncmp(exe, e->options->program, folder) &&
	       (!strcmp(exe + folder, "iprobe") || !strcmp(exe + folder, "iprobed") ||
		!strcmp(exe + folder, "fperf"));
}

static size_t arms_of(const struct ip_rules *e, const struct ip_rules_state *state)
{
	size_t n = 0;

	for (size_t i = 0; i < e->ntargets; i++)
		for (size_t k = 0; k < e->targets[i]->narms && !e->targets[i]->gone; k++)
			n += e->targets[i]->arms[k].state == state;
	return n;
}

/* Which rules are for it? Before the process was held it may have been another one: what was read is compared again. */
static void meet(struct ip_rules *e, pid_t pid, struct ip_rules_seen *seen, uint64_t now_ns)
{
	bool fresh = seen->fresh && now_ns - seen->since_ns < FRESH_NS;
	struct ip_rules_target *t = NULL;
	struct ip_rules_process process;
	struct ip_rules_stat stat;

	if (ip_rules_process_read(pid, &process) < 0)
		return;
	for (size_t i = 0; i < e->nstates && !is_ours(e, process.exe); i++) {
		struct ip_rules_state *state = &e->states[i];
		struct ip_rules_arm arm = {.state = state, .fresh = fresh};

		if (!ip_rules_may_match(state->rule, t ? &t->process : &process))
			continue;
		/* said once; then it takes no more time than that */
		if (state->told_processes && arms_of(e, state) >= state->rule->processes) {
			seen->left_out = true;
			continue;
		}
		if (!t && ip_rules_cmdline_read(&process) < 0) {
			ip_rules_log(state, NULL, "%s: it is left out", ip_error_message());
			seen->again = false; /* it has held us up for long enough */
			break;
		}
		if (!ip_rules_match(state->rule, t ? &t->process : &process))
			continue;
		if (arms_of(e, state) >= state->rule->processes) {
			if (!state->told_processes)
				ip_rules_log(state, NULL,
					     "it is for %u processes at the same time at most (processes), "
					     "which it has: pid %d and others are left out",
					     state->rule->processes, pid);
			state->told_processes = true;
			seen->left_out = true;
			continue;
		}
		if (!t && ip_rules_target_add(e, &process, &t) < 0) {
			ip_rules_log(state, NULL, "pid %d: %s", pid, ip_error_message());
			break;
		}
		arm.every_ns = state->rule->every_ns ? now_ns + state->rule->every_ns : 0;
		if (ip_grow(&t->arms, t->narms, sizeof(arm)) < 0)
			break;
		t->arms[t->narms++] = arm;
	}
	if (t)
		seen->fresh = false; /* it starts once */
	if (!t)
		ip_rules_process_clear(&process);
	else if (!ip_pidfd_lives(t->pidfd) || ip_rules_stat_read(pid, &stat) < 0 ||
		 stat.start != t->process.start)
		t->gone = true;
}

static struct ip_rules_target *target_of(const struct ip_rules *e, pid_t pid)
{
	for (size_t i = 0; i < e->ntargets; i++)
		if (e->targets[i]->process.pid == pid)
			return e->targets[i];
	return NULL;
}

/* Whether a rule is for it that was not when it was met: its command line is another one. */
static bool is_for_more(const struct ip_rules *e, const struct ip_rules_target *t)
{
	struct ip_rules_process process;
	size_t n = 0;

	if (ip_rules_process_read(t->process.pid, &process) < 0)
		return false;
	if (ip_rules_cmdline_read(&process) == 0 &&
	    (!t->process.cmdline || strcmp(process.cmdline, t->process.cmdline)))
		for (size_t i = 0; i < e->nstates; i++)
			n += ip_rules_match(e->states[i].rule, &process);
	ip_rules_process_clear(&process);
	return n > t->narms;
}

static int remember(struct ip_rules_seen **list, size_t *n, const struct ip_rules_seen *seen)
{
	if (ip_grow(list, *n, sizeof(*seen)) < 0)
		return -1;
	(*list)[(*n)++] = *seen;
	return 0;
}

/* One entry of /proc. */
static int visit(struct ip_rules *e, pid_t pid, struct ip_rules_seen **list, size_t *n, uint64_t now_ns)
{
	const struct ip_rules_seen key = {.pid = pid};
	const struct ip_rules_seen *before =
		e->seen ? bsearch(&key, e->seen, e->nseen, sizeof(key), compare) : NULL;
	struct ip_rules_seen seen = {.pid = pid, .since_ns = now_ns, .fresh = !e->first, .again = !e->first};
	struct ip_rules_target *t;
	struct ip_rules_stat stat;
	_cleanup_free_ char *exe = NULL;
	bool same, again, meets;

	if (ip_rules_stat_read(pid, &stat) < 0 || stat.state == 'Z')
		return 0;
	exe = ip_rules_exe(pid); /* NULL: one of the kernel's own */
	seen.start = stat.start;
	seen.exe = exe ? hash_of(exe) : 0;
	seen.uid = exe && e->users ? ip_proc_status(pid, "Uid") : 0;
	same = before && before->start == seen.start && before->exe == seen.exe;
	if (same) {
		seen.since_ns = before->since_ns;
		seen.fresh = before->fresh;
		seen.again = before->again;
		seen.left_out = before->left_out;
	}
	again = same && seen.again && now_ns - seen.since_ns >= AGAIN_NS;
	t = target_of(e, pid);
	meets = !same || e->all || before->pending || before->uid != seen.uid ||
		(again && (!t || is_for_more(e, t)));
	/* it is another process now, or is met anew: that has to wait until nothing is being done to it any more */
	if (t && meets) {
		t->gone = true;
		seen.pending = true;
		return remember(list, n, &seen);
	}
	meets |= seen.left_out && e->room && !t;
	if (again)
		seen.again = false;
	if (meets && exe) {
		seen.left_out = false;
		meet(e, pid, &seen, now_ns);
	}
	return remember(list, n, &seen);
}

void ip_rules_scan(struct ip_rules *e, uint64_t now_ns)
{
	struct ip_rules_seen *list = NULL;
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	size_t n = 0;
	uint64_t next;
	int done = 0;

	if (!e->nstates || now_ns < e->scan_ns)
		return;
	dir = opendir("/proc");
	while (dir && done == 0 && (entry = readdir(dir))) {
		int pid = atoi(entry->d_name);

		if (pid > 0 && pid != getpid())
			done = visit(e, pid, &list, &n, now_ns);
	}
	if (n)
		qsort(list, n, sizeof(*list), compare);
	for (size_t i = 0; i < e->ntargets && dir && done == 0; i++) {
		const struct ip_rules_seen key = {.pid = e->targets[i]->process.pid};

		if (!n || !bsearch(&key, list, n, sizeof(key), compare))
			e->targets[i]->gone = true;
	}
	free(e->seen);
	e->seen = list;
	e->nseen = n;
	e->first = e->room = e->all = false;
	next = SCAN_SHARE * (ip_now_ns() - now_ns);
	e->scan_ns = now_ns + (next < SCAN_NS ? SCAN_NS : next > SCAN_LIMIT_NS ? SCAN_LIMIT_NS : next);
}

void ip_rules_scan_again(struct ip_rules *e)
{
	e->scan_ns = 0;
	e->all = true;
}
