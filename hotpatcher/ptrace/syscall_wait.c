/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Since when a thread has been waiting in a system call. The steps; all files named here are in
 * /proc/PID/task/TID:
 *
 *   1. syscall tells that the thread sleeps, and in which call.
 *   2. schedstat tells how often the thread has come to a CPU.
 *   3. syscall again.
 *   4. sched tells when the thread last ran, and how often it has given its CPU away.
 *   5. schedstat again. If it is the same as in 2, the thread slept from 3 to 5, and 4 tells of
 *      this sleep.
 *   6. The clock of the thread's CPU. If iprobe runs on that CPU just now, it makes the kernel
 *      bring iprobe's own entry up to date, and reads that entry. If other threads run, one of
 *      them may be on that CPU: iprobe looks through all threads of the machine for those that
 *      are, and watches those few until their entries change, since the kernel brings them up to
 *      date with that CPU's clock at each tick. A thread that has been moved meanwhile says
 *      nothing. The time that this may take is bounded.
 *   7. When the thread has stopped, its own entry is a reading of the clock of the CPU to which it
 *      has come. Then 6 once more, without the search.
 *   8. If the thread has come to another CPU than the one it slept on: a few of the other threads,
 *      all of which have stopped just now, may show that CPU's clock. Everything stands still
 *      meanwhile, so only a few are read.
 */
#include "hotpatcher/ptrace/syscall_wait.h"
#include "access/delegation.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/ptrace/syscall_wait_private.h"

#define OTHERS 16 /* the most other threads that are read in one stop */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Reads a file of /proc as text. */
int ip_syscall_wait_read_text(const char *name, char *buffer, size_t size)
{
	_cleanup_close_ int fd = ip_delegation_open(name, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buffer, size - 1);

	if (n <= 0)
		return -1;
	buffer[n] = '\0';
	return 0;
}

int ip_syscall_wait_read(pid_t pid, pid_t tid, const char *file, char *buffer, size_t size)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d/%s", pid, tid, file);
	return ip_syscall_wait_read_text(name, buffer, size);
}

/* Finds the number behind a name at the beginning of a line, in millionths if it has a fraction
 * (six digits). */
int ip_syscall_wait_number(const char *text, const char *name, uint64_t *ret)
{
	const char *at = text;
	size_t length = strlen(name);
	uint64_t whole, fraction = 0;
	int used = 0;

	while (at && strncmp(at, name, length)) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	at = at ? strchr(at, ':') : NULL;
	if (!at || sscanf(at + 1, " %" SCNu64 "%n", &whole, &used) != 1)
		return -1;
	if (at[1 + used] == '.') {
		if (sscanf(at + 2 + used, "%6" SCNu64, &fraction) != 1)
			return -1;
		whole = whole * 1000000 + fraction;
	}
	*ret = whole;
	return 0;
}

static int read_turns(pid_t pid, pid_t tid, uint64_t *ret)
{
	char text[128];

	return ip_syscall_wait_read(pid, tid, "schedstat", text, sizeof(text)) == 0 &&
			       sscanf(text, "%*u %*u %" SCNu64, ret) == 1
		       ? 0
		       : -1;
}

/* The CPU on which a thread ran last: field 39, counted from behind the name, which may hold any
 * byte. The state of the thread is field 3. */
long ip_syscall_wait_cpu(pid_t pid, pid_t tid, char *ret_state)
{
	char text[1024];
	const char *at;

	if (ip_syscall_wait_read(pid, tid, "stat", text, sizeof(text)) < 0 ||
	    !(at = strrchr(text, ')')))
		return -1;
	*ret_state = at[1] ? at[2] : 'X';
	for (int field = 2; field < 39 && at; field++)
		at = strchr(at + 1, ' ');
	return at ? strtol(at, NULL, 10) : -1;
}

/* Steps 1 and 3. Returns the call in which the thread sleeps, if iprobe looks after such calls; -1:
 * none. *ret_limit: the address of its time limit; 0: it has none in memory. */
static long sleeps_in(pid_t pid, pid_t tid, bool narrow, uint64_t *ret_limit)
{
	struct ip_wait wait;
	uint64_t args[6];
	char text[256];
	long number;

	if (ip_syscall_wait_read(pid, tid, "syscall", text, sizeof(text)) < 0 ||
	    sscanf(text,
		   "%ld 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64
		   " 0x%" SCNx64,
		   &number, &args[0], &args[1], &args[2], &args[3], &args[4], &args[5]) != 7 ||
	    number < 0)
		return -1; /* the thread runs, or is gone */
	wait = narrow ? ip_i386_wait(number, args) : ip_arch_wait(number, args);
	*ret_limit = wait.limit == IP_WAIT_TIMESPEC || wait.limit == IP_WAIT_TIMEVAL
			     ? args[wait.argument]
			     : 0;
	return wait.limit == IP_WAIT_OTHER || wait.limit == IP_WAIT_ENDLESS ? -1 : number;
}

/* Whether a reading serves for this wait. The clock may have stood still between an earlier reading
 * and the sleep. */
bool ip_syscall_wait_is_of_use(const struct ip_cpu_clock *clock, const struct ip_syscall_wait *t)
{
	return clock && clock->cpu == t->cpu && clock->said >= t->ran;
}

struct ip_cpu_clock *ip_syscall_wait_clock(const struct ip_syscall_waits *s, long cpu)
{
	for (size_t i = 0; i < s->nclocks; i++)
		if (s->clocks[i].cpu == cpu)
			return &s->clocks[i];
	return NULL;
}

/* Notes that the clock of a CPU said this before now. The time of CLOCK_MONOTONIC is taken here,
 * last: it may be too late, never too early. */
void ip_syscall_wait_note_clock(struct ip_syscall_waits *s, long cpu, uint64_t said,
				const struct ip_syscall_wait *t)
{
	const struct ip_cpu_clock reading = {cpu, said, now_ns() - said};
	struct ip_cpu_clock *known = ip_syscall_wait_clock(s, cpu);
	void *grown;

	if (known) {
		if (!ip_syscall_wait_is_of_use(known, t) || reading.ahead_ns < known->ahead_ns)
			*known = reading;
		return;
	}
	grown = realloc(s->clocks, (s->nclocks + 1) * sizeof(*s->clocks));
	if (!grown)
		return;
	s->clocks = grown;
	s->clocks[s->nclocks++] = reading;
}

/* When iprobe's own thread ran last, which is now, and how often it has been moved to another
 * CPU. */
static int read_own(uint64_t *ret_ran, uint64_t *ret_moves)
{
	char text[8192];

	return ip_syscall_wait_read_text("/proc/thread-self/sched", text, sizeof(text)) == 0 &&
			       ip_syscall_wait_number(text, "se.exec_start", ret_ran) == 0 &&
			       *ret_ran &&
			       ip_syscall_wait_number(text, "se.nr_migrations", ret_moves) == 0
		       ? 0
		       : -1;
}

/* Step 6, for the CPU on which iprobe runs. If iprobe is moved meanwhile, it is not known which
 * CPU's clock was read. */
static void read_own_clock(struct ip_syscall_waits *s, const struct ip_syscall_wait *t)
{
	uint64_t ran, moves, later, moves_later;
	struct timespec used;

	if (ip_syscall_wait_is_of_use(ip_syscall_wait_clock(s, t->cpu), t) ||
	    sched_getcpu() != t->cpu)
		return;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID,
		      &used); /* makes the kernel bring our entry up to date */
	if (read_own(&ran, &moves) == 0 && sched_getcpu() == t->cpu &&
	    read_own(&later, &moves_later) == 0 && moves == moves_later)
		ip_syscall_wait_note_clock(s, t->cpu, ran, t);
}

/* Step 7. If the thread has not come to a CPU since, its entry tells nothing about a clock. */
static void read_stopped(struct ip_syscall_waits *s, const struct ip_syscall_wait *t)
{
	char text[8192];
	char state;
	uint64_t ran;
	long cpu = ip_syscall_wait_cpu(s->pid, t->tid, &state);

	if (cpu >= 0 && ip_syscall_wait_read(s->pid, t->tid, "sched", text, sizeof(text)) == 0 &&
	    ip_syscall_wait_number(text, "se.exec_start", &ran) == 0 && ran &&
	    (cpu != t->cpu || ran > t->ran))
		ip_syscall_wait_note_clock(s, cpu, ran, t);
}

/* Step 8. Threads that have not stopped yet may have slept for as long: their entries tell little,
 * so only stopped ones count. */
static void read_others(struct ip_syscall_waits *s, const struct ip_syscall_wait *t)
{
	const struct dirent *entry;
	char name[64], text[8192], state;
	uint64_t ran;

	snprintf(name, sizeof(name), "/proc/%d/task", s->pid);
	_cleanup_closedir_ DIR *dir = opendir(name);
	while (s->asked < OTHERS && dir &&
	       !ip_syscall_wait_is_of_use(ip_syscall_wait_clock(s, t->cpu), t) &&
	       (entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (!tid || tid == t->tid)
			continue;
		s->asked++;
		if (ip_syscall_wait_cpu(s->pid, tid, &state) == t->cpu && state == 't' &&
		    ip_syscall_wait_read(s->pid, tid, "sched", text, sizeof(text)) == 0 &&
		    ip_syscall_wait_number(text, "se.exec_start", &ran) == 0 && ran >= t->ran)
			ip_syscall_wait_note_clock(s, t->cpu, ran, t);
	}
}

static void reckon_since(struct ip_syscall_waits *s, struct ip_syscall_wait *t)
{
	const struct ip_cpu_clock *clock;

	read_stopped(s, t);
	read_own_clock(s, t); /* a thread that slept on our CPU wakes up on another one */
	read_others(s, t);
	clock = ip_syscall_wait_clock(s, t->cpu);
	if (ip_syscall_wait_is_of_use(clock, t))
		t->since_ns = t->ran + clock->ahead_ns;
	if (t->since_ns > t->looked_ns)
		t->since_ns = t->looked_ns;
}

/* Steps 2 to 6. */
static void look_closer(pid_t pid, bool narrow, struct ip_syscall_waits *s,
			struct ip_syscall_wait *t)
{
	uint64_t turns, limit;
	struct iovec ours = {t->time, sizeof(t->time)}, theirs = {.iov_len = sizeof(t->time)};
	char text[8192], state;

	if (read_turns(pid, t->tid, &t->turns) < 0 || !t->turns)
		return;
	t->number = sleeps_in(pid, t->tid, narrow, &limit);
	if (t->number < 0 || ip_syscall_wait_read(pid, t->tid, "sched", text, sizeof(text)) < 0 ||
	    ip_syscall_wait_number(text, "se.exec_start", &t->ran) < 0 ||
	    ip_syscall_wait_number(text, "nr_voluntary_switches", &t->given_away) < 0)
		return;
	t->cpu = ip_syscall_wait_cpu(pid, t->tid, &state);
	theirs.iov_base = (void *)(uintptr_t)limit;
	if (limit && process_vm_readv(t->tid, &ours, 1, &theirs, 1, 0) != sizeof(t->time))
		return;
	if (read_turns(pid, t->tid, &turns) < 0 || turns != t->turns)
		return;
	t->seen = true;
	t->looked_ns = now_ns();
	read_own_clock(s, t);
}

static void look(pid_t pid, pid_t tid, bool narrow, struct ip_syscall_waits *s)
{
	struct ip_syscall_wait t = {.tid = tid, .looked_ns = now_ns()};
	uint64_t limit;
	void *grown;

	t.number = sleeps_in(pid, tid, narrow, &limit);

	if (t.number >= 0)
		look_closer(pid, narrow, s, &t);
	if (t.number < 0)
		return;
	if (s->n == s->capacity) {
		grown = realloc(s->items, (2 * s->capacity + 16) * sizeof(t));
		if (!grown)
			return;
		s->items = grown;
		s->capacity = 2 * s->capacity + 16;
	}
	s->items[s->n++] = t;
}

void ip_syscall_waits_look(pid_t pid, pid_t tid, bool narrow, struct ip_syscall_waits *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	ret->pid = pid;
	ret->looked_ns = now_ns();
	if (tid) {
		look(pid, tid, narrow, ret);
		ip_syscall_wait_read_runners(ret);
		return;
	}
	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			look(pid, atoi(entry->d_name), narrow, ret);
	ip_syscall_wait_read_runners(ret);
}

struct ip_syscall_wait ip_syscall_waits_find(struct ip_syscall_waits *s, pid_t tid)
{
	/* threads are looked up in the order in which they were listed */
	for (size_t i = 0; i < s->n; i++) {
		size_t at = (s->hint + i) % s->n;

		if (s->items[at].tid != tid)
			continue;
		s->hint = at + 1;
		if (s->items[at].seen && s->items[at].ran && !s->items[at].since_ns)
			reckon_since(s, &s->items[at]);
		return s->items[at];
	}
	return (struct ip_syscall_wait){.tid = tid, .number = -1, .looked_ns = s->looked_ns};
}

void ip_syscall_waits_clear(struct ip_syscall_waits *s)
{
	free(s->items);
	free(s->clocks);
	*s = (struct ip_syscall_waits){0};
}

bool ip_syscall_wait_was_unbroken(pid_t pid, const struct ip_syscall_wait *wait)
{
	uint64_t turns, given_away;
	char text[4096];

	if (!wait->seen)
		return false;
	if (read_turns(pid, wait->tid, &turns) == 0 && turns == wait->turns + 1)
		return true;
	/* the thread may have been preempted on its way to the stop */
	return ip_syscall_wait_read(pid, wait->tid, "status", text, sizeof(text)) == 0 &&
	       ip_syscall_wait_number(text, "voluntary_ctxt_switches", &given_away) == 0 &&
	       given_away == wait->given_away + 1;
}
