/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of CPUs on which other threads run: step 6 of syscall_wait.c for CPUs on which iprobe
 * does not run itself.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/now.h"
#include "hotpatcher/ptrace/syscall_wait_private.h"

#define RUNNERS	  64	     /* the most threads that are watched */
#define SEARCH_NS 4000000ull /* CPU time of ours: if other threads run, it may last longer */
#define WATCH_NAP 500000
/* number of naps: two and a half ticks, of the slowest clock that kernels usually have */
#define WATCHES 20

/* A thread that runs, or is about to run, on a CPU of which there is no reading. */
struct runner {
	pid_t pid, tid;
	uint64_t ran, moves;
	const struct ip_syscall_wait *wait; /* of a thread that has slept there */
};

/* Finds a thread that was seen to sleep on this CPU (-1: on any CPU), of which there is no reading;
 * NULL: there is none. */
static const struct ip_syscall_wait *unknown_on(const struct ip_syscall_waits *s, long cpu)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct ip_syscall_wait *t = &s->items[i];

		if (t->seen && (cpu < 0 || t->cpu == cpu) &&
		    !ip_syscall_wait_is_of_use(ip_syscall_wait_clock(s, t->cpu), t))
			return t;
	}
	return NULL;
}

/* Reads when a thread last ran, and how often it has been moved. The thread must be on this CPU
 * before and after. */
static int read_runner(pid_t pid, pid_t tid, long cpu, uint64_t *ret_ran, uint64_t *ret_moves)
{
	char text[8192], state;

	return ip_syscall_wait_cpu(pid, tid, &state) == cpu && state == 'R' &&
			       ip_syscall_wait_read(pid, tid, "sched", text, sizeof(text)) == 0 &&
			       ip_syscall_wait_number(text, "se.exec_start", ret_ran) == 0 &&
			       ip_syscall_wait_number(text, "se.nr_migrations", ret_moves) == 0 &&
			       ip_syscall_wait_cpu(pid, tid, &state) == cpu && state == 'R'
		       ? 0
		       : -1;
}

static size_t find_runners_of(const struct ip_syscall_waits *s, pid_t pid, struct runner *runners,
			      size_t n)
{
	const struct dirent *entry;
	char name[64], state;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	_cleanup_closedir_ DIR *dir = opendir(name);
	while (dir && n < RUNNERS && (entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
		struct runner r = {.pid = pid, .tid = tid};
		long cpu = tid && tid != gettid() ? ip_syscall_wait_cpu(pid, tid, &state) : -1;

		if (cpu < 0 || state != 'R')
			continue;
		r.wait = unknown_on(s, cpu);
		if (r.wait && read_runner(pid, tid, cpu, &r.ran, &r.moves) == 0)
			runners[n++] = r;
	}
	return n;
}

static size_t find_runners(const struct ip_syscall_waits *s, struct runner *runners)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	const uint64_t until = ip_thread_cpu_ns() + SEARCH_NS;
	const struct dirent *entry;
	size_t n = 0;

	while (dir && n < RUNNERS && ip_thread_cpu_ns() < until && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			n = find_runners_of(s, atoi(entry->d_name), runners, n);
	return n;
}

/* Whether another thread than iprobe's runs on this machine. */
static bool others_run(void)
{
	char text[128];
	unsigned running;

	return ip_syscall_wait_read_text("/proc/loadavg", text, sizeof(text)) == 0 &&
	       sscanf(text, "%*s %*s %*s %u/", &running) == 1 && running > 1;
}

/* Step 6, for CPUs on which iprobe does not run. */
void ip_syscall_wait_read_runners(struct ip_syscall_waits *s)
{
	const struct timespec nap = {0, WATCH_NAP};
	struct runner runners[RUNNERS];
	size_t n;

	if (!unknown_on(s, -1) || !others_run())
		return;
	n = find_runners(s, runners);
	for (unsigned k = 0; k < WATCHES && n && unknown_on(s, -1); k++) {
		size_t left = 0;

		nanosleep(&nap, NULL);
		for (size_t i = 0; i < n; i++) {
			const struct ip_syscall_wait *t = runners[i].wait;
			uint64_t ran, moves;

			if (read_runner(runners[i].pid, runners[i].tid, t->cpu, &ran, &moves) < 0 ||
			    moves != runners[i].moves)
				continue;
			if (ran > runners[i].ran && ran >= t->ran)
				ip_syscall_wait_note_clock(s, t->cpu, ran, t);
			else
				runners[left++] = runners[i];
		}
		n = left;
	}
}
