/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for processes: it lists /proc again and again. For a known process it looks at two small
 * files. They tell whether it is still the same process, with the same program and user. For a new
 * process it reads what rules ask for, and reads it again after a second: a program that has just
 * been executed may not have its command line yet, or may change it later. (The kernel's messages
 * about processes would need CAP_NET_ADMIN, which iprobed does not have.) The scan takes at most
 * one part in SCAN_SHARE of a CPU.
 *
 * Hundreds of processes that stay as they are must cost next to nothing. The kernel numbers
 * processes and threads one after the other, and tells the last number. So a scan looks at those
 * that have come since the last one, and at those that it has found lately. All processes are
 * listed every ALL_NS: an old one may have executed another program. If nothing has begun on the
 * whole machine, that is done every STILL_NS.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access/credentials.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/now.h"
#include "common/proc.h"
#include "common/units.h"
#include "iprobed/rules/members.h"
#include "iprobed/rules/rules_private.h"

#define SCAN_NS	      200000000ull
#define SCAN_SHARE    250 /* the scan takes at most one part in so many of a CPU */
#define SCAN_LIMIT_NS 5000000000ull
#define STILL_NS      5000000000ull
#define AGAIN_NS      1000000000ull
#define YOUNG_NS      2000000000ull /* a process that was found so lately is read in each scan */
#define OLD_NS	      1000000000ull /* others are read in one scan of all in such a time */
#define ALL_NS	      2000000000ull
#define NEW_MOST      256 /* numbers that are tried one by one */
#define NEWEST	      16  /* numbers whose processes may not be seen yet */
/* a process that matches a rule later than that has not just started */
#define FRESH_NS 3000000000ull

static int compare(const void *a, const void *b)
{
	const struct ip_rules_seen *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* Returns whether the program is one of iprobe's own, which are never traced. */
static bool is_ours(const struct ip_rules *e, const char *exe)
{
	const char *slash = strrchr(e->options->program, '/');
	size_t folder = slash ? (size_t)(slash + 1 - e->options->program) : 0;

	return !strncmp(exe, e->options->program, folder) &&
	       (!strcmp(exe + folder, "iprobe") || !strcmp(exe + folder, "iprobed") ||
		!strcmp(exe + folder, "fperf"));
}

/* Returns whether the rule has seen this process start this program. If not, it has from now on. */
static bool has_begun(struct ip_rules_state *state, const struct ip_rules_seen *seen)
{
	const struct ip_rules_begun begun = {seen->pid, seen->start, seen->exe};

	for (size_t i = 0; i < state->nbegun; i++) {
		const struct ip_rules_begun *b = &state->begun[i];

		if (b->pid == seen->pid && b->start == seen->start && b->exe == seen->exe)
			return true;
	}
	if (ip_array_grow(&state->begun, state->nbegun, sizeof(begun)) == 0)
		state->begun[state->nbegun++] = begun;
	return false;
}

static struct ip_rules_arm arm_of(struct ip_rules_state *state, const struct ip_rules_target *t,
				  const struct ip_rules_seen *seen, uint64_t now_ns)
{
	const struct ip_rules_rule *r = state->rule;
	struct ip_rules_arm arm = {.state = state,
				   .service = ip_rules_service_id(t->service ? t->service : "")};

	arm.every_ns = r->every_ns ? now_ns + r->every_ns : 0;
	arm.fresh = r->start && now_ns < seen->fresh_until_ns && !has_begun(state, seen);
	return arm;
}

/* The rule has as many processes as it may have at the same time. */
static void leave_out(struct ip_rules_state *state, struct ip_rules_seen *seen)
{
	if (!state->told_processes)
		ip_rules_log(state, NULL,
			     "it is for %u process%s at the same time at most (processes), which "
			     "it has: pid %d and others are left out",
			     state->rule->processes, state->rule->processes == 1 ? "" : "es",
			     seen->pid);
	state->told_processes = true;
	seen->left_out = true;
}

/* Finds the rules that are for the process. Before the pidfd held it, the pid may have belonged to
 * another process: what was read is compared again. */
static void meet(struct ip_rules *e, pid_t pid, struct ip_rules_seen *seen, uint64_t now_ns)
{
	struct ip_rules_target *t = NULL;
	struct ip_rules_process process;
	struct ip_rules_stat stat;

	if (ip_rules_process_read(pid, &process) < 0)
		return;
	for (size_t i = 0; i < e->nstates && !is_ours(e, process.exe); i++) {
		struct ip_rules_state *state = &e->states[i];
		struct ip_rules_process *p = t ? &t->process : &process;

		if (!ip_rules_may_match(state->rule, p))
			continue;
		/* This is logged once. After that it takes no more time. */
		if (state->told_processes && !ip_rules_has_place(e, state, p->uid)) {
			seen->left_out = true;
			continue;
		}
		if (state->rule->cmdline.n && ip_rules_cmdline_read(&e->reader, p) < 0) {
			ip_rules_log(state, NULL, "%s: it is left out", ip_error_message());
			seen->again = false; /* it has delayed the scan for long enough */
			break;
		}
		if (!ip_rules_match(state->rule, p))
			continue;
		if (!ip_rules_take_place(e, state, p->uid)) {
			leave_out(state, seen);
			continue;
		}
		if (!t && ip_rules_target_add(e, &process, &t) < 0) {
			ip_rules_log(state, NULL, "pid %d: %s", pid, ip_error_message());
			break;
		}
		if (ip_array_grow(&t->arms, t->narms, sizeof(*t->arms)) < 0)
			break;
		t->arms[t->narms++] = arm_of(state, t, seen, now_ns);
	}
	/* A process that had to wait for the end of its session was matched in time. From now on
	 * this does not count any more. */
	if (seen->fresh_until_ns == UINT64_MAX)
		seen->fresh_until_ns = now_ns;
	seen->met = t;
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

/* Returns whether a rule is for the process that was not when it was matched, because its command
 * line has changed. */
static bool is_for_more(struct ip_rules *e, const struct ip_rules_target *t)
{
	struct ip_rules_process process;
	size_t n = 0;

	if (!e->cmdlines || ip_rules_process_read(t->process.pid, &process) < 0)
		return false;
	if (ip_rules_cmdline_read(&e->reader, &process) == 0 &&
	    (!t->process.cmdline || strcmp(process.cmdline, t->process.cmdline)))
		for (size_t i = 0; i < e->nstates; i++)
			n += ip_rules_match(e->states[i].rule, &process);
	ip_rules_process_clear(&process);
	return n > t->narms;
}

static int remember(struct ip_rules *e, const struct ip_rules_seen *seen)
{
	if (ip_array_grow(&e->found, e->nfound, sizeof(*seen)) < 0)
		return -1;
	e->found[e->nfound++] = *seen;
	return 0;
}

static struct ip_rules_seen *seen_before(const struct ip_rules *e, pid_t pid)
{
	const struct ip_rules_seen key = {.pid = pid};

	return e->seen ? bsearch(&key, e->seen, e->nseen, sizeof(key), compare) : NULL;
}

void ip_rules_scan_pending(struct ip_rules *e, pid_t pid)
{
	struct ip_rules_seen *before = seen_before(e, pid);

	e->last_pid = -1;
	/* the present scan may have visited it already, or not */
	if (before)
		before->pending = true;
	for (size_t i = 0; i < e->nfound; i++)
		if (e->found[i].pid == pid)
			e->found[i].pending = true;
}

/* Returns whether a process is new, or waits for something, so that each scan reads its files. */
static bool may_change(const struct ip_rules *e, const struct ip_rules_seen *seen, uint64_t now_ns)
{
	return e->all || seen->pending || seen->again || (seen->left_out && e->room) ||
	       now_ns - seen->since_ns <= YOUNG_NS;
}

/* Visits one entry of /proc. */
static int visit(struct ip_rules *e, pid_t pid, uint64_t now_ns)
{
	const struct ip_rules_seen *before = seen_before(e, pid);
	struct ip_rules_seen seen = {
		.pid = pid, .since_ns = now_ns, .looked_ns = now_ns, .again = !e->first};
	struct ip_rules_target *t;
	struct ip_rules_stat stat;
	_cleanup_free_ char *exe = NULL;
	bool same, again, meets;

	if (before && !may_change(e, before, now_ns) && now_ns - before->looked_ns < OLD_NS)
		return remember(e, before);
	if (ip_rules_stat_read(pid, &stat) < 0 || stat.state == 'Z')
		return 0;
	exe = ip_rules_exe(pid); /* NULL: a kernel thread */
	seen.start = stat.start;
	seen.exe = exe ? ip_rules_hash(exe) : 0;
	seen.uid = exe && e->users ? ip_proc_status(pid, "Uid") : 0;
	seen.fresh_until_ns = e->first ? 0 : now_ns + FRESH_NS;
	same = before && before->start == seen.start && before->exe == seen.exe;
	if (same) {
		seen.since_ns = before->since_ns;
		seen.fresh_until_ns = before->fresh_until_ns;
		seen.met = before->met;
		seen.again = before->again;
		seen.left_out = before->left_out;
	}
	if (!same)
		e->young_ns = now_ns + YOUNG_NS;
	again = same && seen.again && now_ns - seen.since_ns >= AGAIN_NS;
	t = target_of(e, pid);
	if (t && same)
		ip_rules_target_has_threads(t, stat.threads);
	/* a process that earlier rules have matched has not just started */
	if (e->all && seen.met)
		seen.fresh_until_ns = 0;
	meets = !same || e->all || before->pending || before->uid != seen.uid ||
		(again && (!t || is_for_more(e, t)));
	/* It is another process now, or is to be matched again. This must wait until nothing is
	 * being done to it any more. */
	if (t && meets) {
		t->gone = true;
		seen.pending = true;
		if (now_ns < seen.fresh_until_ns)
			seen.fresh_until_ns = UINT64_MAX;
		return remember(e, &seen);
	}
	meets |= seen.left_out && e->room && !t;
	if (again)
		seen.again = false;
	if (meets && exe) {
		seen.left_out = false;
		meet(e, pid, &seen, now_ns);
	}
	return remember(e, &seen);
}

/* The processes that were found replace those of the last scan. */
static void take_found(struct ip_rules *e)
{
	if (e->nfound)
		qsort(e->found, e->nfound, sizeof(*e->found), compare);
	free(e->seen);
	e->seen = ip_steal_ptr(e->found);
	e->nseen = e->nfound;
	e->nfound = 0;
}

/* Forgets program starts that are too old to count as just started. */
static void forget_begun(const struct ip_rules *e, struct ip_rules_state *state, uint64_t now_ns)
{
	for (size_t i = 0; i < state->nbegun;) {
		const struct ip_rules_begun *b = &state->begun[i];
		const struct ip_rules_seen *seen = seen_before(e, b->pid);

		if (!seen || seen->start != b->start || seen->exe != b->exe ||
		    now_ns >= seen->fresh_until_ns)
			state->begun[i] = state->begun[--state->nbegun];
		else
			i++;
	}
}

/* Visits all processes. */
static int visit_all(struct ip_rules *e, uint64_t now_ns)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *entry;
	int done = dir ? 0 : -1;

	e->scanned_ns = now_ns;
	while (done == 0 && (entry = readdir(dir))) {
		int pid = atoi(entry->d_name);

		if (pid > 0 && pid != getpid())
			done = visit(e, pid, now_ns);
	}
	return done;
}

/* A process gets its number some time before it is seen in /proc, where another one may have the
 * next number by then. So the newest numbers are tried once more. */
static void note_unfound(struct ip_rules *e, long pid, long before, long last)
{
	if (!e->unfound_pid && pid > before && pid > last - NEWEST)
		e->unfound_pid = pid;
}

/* Visits what has come since the last scan (before), and what that one did not find (from): the
 * kernel numbers processes and threads one after the other. Of the others, visits those that may
 * change; the rest stays as it was. */
static int visit_new(struct ip_rules *e, long from, long before, long last, uint64_t now_ns)
{
	int done = 0;

	for (size_t i = 0; i < e->nseen && done == 0; i++) {
		const struct ip_rules_seen *seen = &e->seen[i];

		if (seen->pid >= from && seen->pid <= last)
			continue;
		done = may_change(e, seen, now_ns) ? visit(e, seen->pid, now_ns)
						   : remember(e, seen);
	}
	for (long pid = from; pid <= last && done == 0; pid++) {
		const long group = pid != getpid() ? ip_proc_status(pid, "Tgid") : 0;

		if (group == pid)
			done = visit(e, pid, now_ns);
		else if (group < 0)
			note_unfound(e, pid, before, last);
	}
	return done;
}

/* Marks the targets that have ended: their places are free for the processes that are met now. */
static void mark_ended(struct ip_rules *e)
{
	_cleanup_free_ struct pollfd *p = calloc(e->ntargets + 1, sizeof(*p));

	if (!p) /* a scan of all finds them */
		return;
	for (size_t i = 0; i < e->ntargets; i++)
		p[i] = (struct pollfd){.fd = e->targets[i]->pidfd, .events = POLLIN};
	if (poll(p, e->ntargets, 0) <= 0)
		return;
	for (size_t i = 0; i < e->ntargets; i++)
		e->targets[i]->gone |= p[i].revents != 0;
}

void ip_rules_scan(struct ip_rules *e, uint64_t now_ns)
{
	uint64_t next, before_ns = ip_thread_cpu_ns(), age = now_ns - e->scanned_ns;
	long before = e->last_pid, from = e->unfound_pid ? e->unfound_pid : before + 1;
	bool goes_on;
	int done;

	if (!e->nstates || now_ns < e->scan_ns)
		return;
	mark_ended(e);
	e->last_pid = ip_proc_last_pid();
	goes_on = before >= 0 && e->last_pid >= before && !e->first && !e->all && !e->room &&
		  !(e->unsorted && e->services);
	e->scan_ns = now_ns + SCAN_NS;
	if (goes_on && e->last_pid == before && !e->unfound_pid && now_ns >= e->young_ns &&
	    age < STILL_NS)
		return;
	e->wanted = false;
	e->unfound_pid = 0;
	if (goes_on && e->last_pid - from < NEW_MOST && age < ALL_NS) {
		done = visit_new(e, from, before, e->last_pid, now_ns);
	} else {
		done = visit_all(e, now_ns);
		/* what was not found is not known */
		if (e->last_pid > 0 && e->last_pid != before)
			note_unfound(e, e->last_pid > NEWEST ? e->last_pid - NEWEST + 1 : 1, 0,
				     e->last_pid);
	}
	take_found(e);
	for (size_t i = 0; i < e->ntargets && done == 0; i++)
		if (!seen_before(e, e->targets[i]->process.pid))
			e->targets[i]->gone = true;
	for (size_t i = 0; i < e->nstates; i++)
		forget_begun(e, &e->states[i], now_ns);
	if (e->unsorted && e->services)
		ip_rules_members_sort(e);
	e->first = e->all = false;
	e->room = e->wanted;
	next = SCAN_SHARE * (ip_thread_cpu_ns() - before_ns);
	e->scan_ns = now_ns + (next < SCAN_NS	      ? SCAN_NS
			       : next > SCAN_LIMIT_NS ? SCAN_LIMIT_NS
						      : next);
}

void ip_rules_rescan(struct ip_rules *e)
{
	e->scan_ns = 0;
	e->all = true;
}
