/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps:
 *
 *   1. syscall says that the thread sleeps, and in which call.
 *   2. schedstat: how often it has come to a CPU. 3. syscall again. 4. sched: when it ran last, and how often it has given its CPU
 *      away. 5. schedstat again: the same as in 2, so it slept from 3 to 5, and 4 tells of this sleep.
 *   6. The clock of its CPU: we go there, have the kernel bring our own entry up to date, and read that.
 */
#include "hotpatcher/permit.h"
#include "hotpatcher/sleep.h"

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

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* A file of /proc as text. */
static int read_text(const char *name, char *buffer, size_t size)
{
	_cleanup_close_ int fd = ip_permit_open(name, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buffer, size - 1);

	if (n <= 0)
		return -1;
	buffer[n] = '\0';
	return 0;
}

static int read_of_thread(pid_t pid, pid_t tid, const char *file, char *buffer, size_t size)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d/%s", pid, tid, file);
	return read_text(name, buffer, size);
}

/* The number behind a name at the beginning of a line, in millionths where it has a fraction (six digits). */
static int number_of(const char *text, const char *name, uint64_t *ret)
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

	return read_of_thread(pid, tid, "schedstat", text, sizeof(text)) == 0 &&
			       sscanf(text, "%*u %*u %" SCNu64, ret) == 1
		       ? 0
		       : -1;
}

/* The CPU that a thread ran on last: field 39, counted from behind the name, which may hold anything. */
static long cpu_of(pid_t pid, pid_t tid)
{
	char text[1024];
	const char *at;

	if (read_of_thread(pid, tid, "stat", text, sizeof(text)) < 0 || !(at = strrchr(text, ')')))
		return -1;
	for (int field = 2; field < 39 && at; field++)
		at = strchr(at + 1, ' ');
	return at ? strtol(at, NULL, 10) : -1;
}

/* Step 1. The call that the thread sleeps in, if it is our concern; -1: none. *ret_limit: where its limit is, 0: nowhere. */
static long sleeps_in(pid_t pid, pid_t tid, bool narrow, uint64_t *ret_limit)
{
	struct ip_wait wait;
	uint64_t args[6];
	char text[256];
	long number;

	if (read_of_thread(pid, tid, "syscall", text, sizeof(text)) < 0 ||
	    sscanf(text,
		   "%ld 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64,
		   &number, &args[0], &args[1], &args[2], &args[3], &args[4], &args[5]) != 7 ||
	    number < 0)
		return -1; /* it runs, or is gone */
	wait = narrow ? ip_i386_wait(number, args) : ip_arch_wait(number, args);
	*ret_limit =
		wait.limit == IP_WAIT_TIMESPEC || wait.limit == IP_WAIT_TIMEVAL ? args[wait.argument] : 0;
	return wait.limit == IP_WAIT_OTHER || wait.limit == IP_WAIT_ENDLESS ? -1 : number;
}

/* Step 6, on that CPU. The time of CLOCK_MONOTONIC is taken last: too late rather than too early. */
static int read_clock(long cpu, int64_t *ret_ahead)
{
	cpu_set_t before, one;
	struct timespec used;
	char text[8192];
	uint64_t ran;
	int64_t ahead;
	int ret = -1;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(before), &before) < 0 ||
	    sched_setaffinity(0, sizeof(one), &one) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used); /* makes the kernel reckon up to now */
		if (read_text("/proc/thread-self/sched", text, sizeof(text)) < 0 ||
		    number_of(text, "se.exec_start", &ran) < 0 || !ran)
			break;
		ahead = now_ns() - ran;
		if (ret < 0 || ahead < *ret_ahead)
			*ret_ahead = ahead;
		ret = 0;
	}
	sched_setaffinity(0, sizeof(before), &before);
	return ret;
}

/* NULL: unknown. */
static const struct ip_cpu_clock *clock_of(struct ip_sleeps *s, long cpu)
{
	struct ip_cpu_clock *clock;

	for (size_t i = 0; i < s->nclocks; i++)
		if (s->clocks[i].cpu == cpu)
			return s->clocks[i].known ? &s->clocks[i] : NULL;
	clock = realloc(s->clocks, (s->nclocks + 1) * sizeof(*clock));
	if (!clock)
		return NULL;
	s->clocks = clock;
	clock += s->nclocks++;
	*clock = (struct ip_cpu_clock){.cpu = cpu};
	clock->known = read_clock(cpu, &clock->ahead_ns) == 0;
	return clock->known ? clock : NULL;
}

/* Steps 2 to 6. */
static void look_closer(pid_t pid, bool narrow, struct ip_sleeps *s, struct ip_sleep *t)
{
	const struct ip_cpu_clock *clock;
	uint64_t turns, ran, limit;
	struct iovec ours = {t->time, sizeof(t->time)}, theirs = {.iov_len = sizeof(t->time)};
	char text[8192];
	long cpu;

	if (read_turns(pid, t->tid, &t->turns) < 0 || !t->turns)
		return;
	t->number = sleeps_in(pid, t->tid, narrow, &limit);
	if (t->number < 0 || read_of_thread(pid, t->tid, "sched", text, sizeof(text)) < 0 ||
	    number_of(text, "se.exec_start", &ran) < 0 ||
	    number_of(text, "nr_voluntary_switches", &t->given_away) < 0)
		return;
	cpu = cpu_of(pid, t->tid);
	theirs.iov_base = (void *)(uintptr_t)limit;
	if (limit && process_vm_readv(t->tid, &ours, 1, &theirs, 1, 0) != sizeof(t->time))
		return;
	if (read_turns(pid, t->tid, &turns) < 0 || turns != t->turns)
		return;
	clock = clock_of(s, cpu);
	t->seen = true;
	t->since_ns = ran && clock ? ran + clock->ahead_ns : 0;
	t->looked_ns = now_ns();
	if (t->since_ns > t->looked_ns)
		t->since_ns = t->looked_ns;
}

static void look(pid_t pid, pid_t tid, bool narrow, struct ip_sleeps *s)
{
	struct ip_sleep t = {.tid = tid, .looked_ns = now_ns()};
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

void ip_sleeps_look(pid_t pid, pid_t tid, bool narrow, struct ip_sleeps *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	ret->looked_ns = now_ns();
	if (tid) {
		look(pid, tid, narrow, ret);
		return;
	}
	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			look(pid, atoi(entry->d_name), narrow, ret);
}

struct ip_sleep ip_sleeps_find(struct ip_sleeps *s, pid_t tid)
{
	/* they are asked for in the order in which they were listed */
	for (size_t i = 0; i < s->n; i++) {
		size_t at = (s->hint + i) % s->n;

		if (s->items[at].tid == tid) {
			s->hint = at + 1;
			return s->items[at];
		}
	}
	return (struct ip_sleep){.tid = tid, .number = -1, .looked_ns = s->looked_ns};
}

void ip_sleeps_clear(struct ip_sleeps *s)
{
	free(s->items);
	free(s->clocks);
	*s = (struct ip_sleeps){0};
}

bool ip_sleep_was_unbroken(pid_t pid, const struct ip_sleep *sleep)
{
	uint64_t turns, given_away;
	char text[4096];

	if (!sleep->seen)
		return false;
	if (read_turns(pid, sleep->tid, &turns) == 0 && turns == sleep->turns + 1)
		return true;
	/* it may have been pushed aside on its way to the stop */
	return read_of_thread(pid, sleep->tid, "status", text, sizeof(text)) == 0 &&
	       number_of(text, "voluntary_ctxt_switches", &given_away) == 0 &&
	       given_away == sleep->given_away + 1;
}
