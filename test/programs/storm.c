/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that count their own calls, all in one shared array, and check what they compute.
 *
 *   storm [-n ROUNDS] [-t THREADS] [-w] [-x]
 *
 * Each round of each thread forks a child in one of these ways, in turn: one that works and ends by
 * _exit; one that forks a grandchild and outlives it; one whose grandchild outlives it; one that
 * creates threads; vfork, whose child only ends; posix_spawn of /bin/true; one that works, then
 * execs /bin/true; one that a signal kills when its work is done. -w: waits for a line on stdin in
 * front of the work and behind it. -x: at the end the first process leaves one child behind, that
 * works on until the file named by the variable STORM_FLAG is gone. At the end: "calls N processes
 * N", of all.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

struct totals {
	atomic_ulong calls, processes, open;
};

static struct totals *totals;
static __thread unsigned long calls; /* of this thread, not yet added up */
static int rounds = 20;
extern char **environ;

KEEP unsigned long inner(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

KEEP unsigned long outer(unsigned long x)
{
	return inner(x) + inner(x + 1);
}

QUIET static void work(int n)
{
	for (int i = 0; i < n; i++) {
		if (outer(i) != 6ul * i + 5)
			abort();
		calls += 3;
	}
}

/* Adds this thread's calls to the totals. */
QUIET static void settle(void)
{
	atomic_fetch_add(&totals->calls, calls);
	calls = 0;
}

QUIET static void born(void)
{
	calls = 0; /* the parent's are the parent's */
	atomic_fetch_add(&totals->processes, 1);
}

QUIET static void *helper(void *arg)
{
	work(50);
	settle();
	return arg;
}

QUIET static pid_t grandchild(int patience_ms)
{
	pid_t pid;

	atomic_fetch_add(&totals->open, 1);
	pid = fork();
	if (pid)
		return pid;
	born();
	work(30);
	usleep(patience_ms * 1000);
	work(30);
	settle();
	atomic_fetch_sub(&totals->open, 1);
	_exit(0);
}

QUIET static void child(int how)
{
	static char *const argv[] = {"true", NULL};
	pthread_t threads[2];

	born();
	if (how != 3)
		work(40);
	if (how == 1)
		waitpid(grandchild(0), NULL, 0);
	if (how == 2)
		grandchild(30);
	if (how == 3) {
		for (int i = 0; i < 2; i++)
			if (pthread_create(&threads[i], NULL, helper, NULL))
				abort();
		work(40);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
	}
	work(10);
	settle();
	if (how == 6)
		execv("/bin/true", argv);
	if (how == 7)
		kill(getpid(), SIGKILL);
	_exit(0);
}

QUIET static void round_of(int how)
{
	static char *const argv[] = {"true", NULL};
	int status, want = how == 7 ? SIGKILL : 0;
	pid_t pid;

	if (how == 4) {
		pid = vfork();
		if (!pid)
			_exit(0);
	} else if (how == 5) {
		if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ))
			abort();
	} else {
		pid = fork();
		if (!pid)
			child(how);
	}
	work(20);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != want)
		abort();
}

QUIET static void *worker(void *arg)
{
	for (int i = 0; i < rounds; i++)
		round_of(i % 8);
	settle();
	return arg;
}

QUIET static void leave_one_behind(void)
{
	if (fork())
		return;
	born();
	setsid();
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (int i = 0; i < 30000 && access(getenv("STORM_FLAG"), F_OK) == 0; i++) {
		work(1);
		usleep(1000);
	}
	settle();
	_exit(0);
}

QUIET int main(int argc, char **argv)
{
	int nthreads = 2, wait_for_lines = 0, leave = 0, option;
	pthread_t threads[64];
	char line[16];

	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (totals == MAP_FAILED)
		return 3;
	while ((option = getopt(argc, argv, "n:t:wx")) >= 0) {
		if (option == 'n')
			rounds = atoi(optarg);
		else if (option == 't')
			nthreads = atoi(optarg) < 64 ? atoi(optarg) : 64;
		else if (option == 'w')
			wait_for_lines = 1;
		else if (option == 'x')
			leave = 1;
	}
	atomic_fetch_add(&totals->processes, 1);
	if (wait_for_lines) {
		puts("ready");
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 4;
	}
	for (int i = 0; i < nthreads; i++)
		if (pthread_create(&threads[i], NULL, worker, NULL))
			return 3;
	for (int i = 0; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	work(5);
	settle();
	while (atomic_load(&totals->open))
		usleep(1000);
	if (leave)
		leave_one_behind();
	printf("calls %lu processes %lu\n", atomic_load(&totals->calls),
	       atomic_load(&totals->processes));
	fflush(stdout);
	if (wait_for_lines && !fgets(line, sizeof(line), stdin))
		return 4;
	return 0;
}
