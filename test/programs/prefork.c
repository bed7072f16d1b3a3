/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that forks its workers beforehand. It obeys lines of stdin:
 *
 *   fork     forks a worker, and prints its pid
 *   vfork    prints the pid of a child that lives in this process's memory; it ends at the next
 *            line
 *   go N     each worker answers N requests; prints "done" once all have
 *   at ADDR  workers that are forked from now on map a page there, and say so
 *   lock     workers that are forked from now on lock their own memory's file for ever
 *   exec     executes itself, which knows none of the workers that there are
 *   as UID   workers that are forked from now on become that user, after a call
 *   anew N   workers that are forked from now on execute the program, after a call; they answer
 *            nothing then, and end after N calls (0: never)
 *   confine  comes under seccomp, with the workers that are forked from now on
 *   leave    workers that are forked from now on live on when this process is killed
 *   load FILE   loads the library; a worker calls plug() of it for each request, too
 *   mlock    workers that are forked from now on lock their memory; they print "locked"
 *
 * It ends when stdin is closed. Workers check what they compute, and abort if it is wrong. While
 * nothing is asked they call prefork_tick() each millisecond.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP	__attribute__((noinline))
#define WORKERS 64

static struct {
	volatile unsigned turn, n;
	unsigned done;
	volatile int go_on; /* of the child that shares the memory */
} * shared;

static char stack[65536] __attribute__((aligned(16)));
static pid_t workers[WORKERS];
static unsigned nworkers, uid, locks, leave;
static unsigned long taken;
static int in_memory;
static char anew[16];
static unsigned long (*plug)(unsigned long);

KEEP uint32_t prefork_hash(uint32_t x)
{
	for (int i = 0; i < 20; i++)
		x = (x ^ (x >> 7)) * 0x9e3779b1u;
	return x;
}

KEEP uint32_t prefork_answer(uint32_t request)
{
	return prefork_hash(request) ^ 1;
}

KEEP void prefork_tick(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	nanosleep(&nap, NULL);
}

static uint32_t expected(uint32_t x)
{
	for (int i = 0; i < 20; i++)
		x = (x ^ (x >> 7)) * 0x9e3779b1u;
	return x ^ 1;
}

KEEP void prefork_turn(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (prefork_answer(i) != expected(i) || (plug && plug(i) != 6ul * i + 5))
			abort();
}

KEEP static void prefork_work(unsigned turn)
{
	for (;;) {
		if (shared->turn == turn) {
			prefork_tick();
			continue;
		}
		turn = shared->turn;
		prefork_turn(shared->n);
		__atomic_add_fetch(&shared->done, 1, __ATOMIC_SEQ_CST);
	}
}

/* Under a filter that allows everything. */
static int confine(void)
{
	struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {1, filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int wait_there(void *unused)
{
	while (!shared->go_on)
		usleep(1000);
	_exit(0);
}

static void start_worker(void)
{
	const unsigned turn = shared->turn; /* a turn that begins right now is the worker's, too */
	pid_t pid = nworkers < WORKERS ? fork() : -1;

	if (pid < 0)
		_exit(3);
	if (!pid) {
		if (uid || *anew)
			prefork_tick();
		if (*anew && (leave || prctl(PR_SET_PDEATHSIG, SIGKILL) == 0))
			execl("/proc/self/exe", "worker", anew, NULL);
		if (uid && (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
			_exit(4);
		if (taken && mmap((void *)taken, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				  0) == (void *)taken)
			dprintf(1, "mapped\n");
		if (locks && flock(open("/proc/self/mem", O_RDONLY), LOCK_EX) < 0)
			_exit(5);
		if (in_memory && mlockall(MCL_CURRENT) < 0)
			_exit(6);
		if (in_memory)
			dprintf(1, "locked\n");
		if (!leave)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		prefork_work(turn);
	}
	workers[nworkers++] = pid;
	printf("%d\n", pid);
}

int main(int argc, char **argv)
{
	char line[512];
	int ret = 0;

	if (argc > 1) {
		const unsigned n = atoi(argv[1]);

		for (unsigned i = 0; !n || i < n; i++)
			prefork_tick();
		return 0;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 2;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		shared->go_on = 1;
		if (!strcmp(line, "fork\n")) {
			start_worker();
		} else if (!strcmp(line, "vfork\n")) {
			shared->go_on = 0;
			printf("%d\n",
			       clone(wait_there, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL));
		} else if (!strcmp(line, "exec\n")) {
			fflush(stdout);
			execv("/proc/self/exe", argv);
			return 6;
		} else if (!strcmp(line, "lock\n")) {
			locks = 1;
		} else if (!strncmp(line, "at ", 3)) {
			taken = strtoul(line + 3, NULL, 16);
		} else if (!strcmp(line, "leave\n")) {
			leave = 1;
			puts("done");
		} else if (!strcmp(line, "mlock\n")) {
			in_memory = 1;
			puts("done");
		} else if (!strncmp(line, "load ", 5)) {
			void *library;

			line[strcspn(line, "\n")] = '\0';
			library = dlopen(line + 5, RTLD_NOW);
			plug = library ? dlsym(library, "plug") : NULL;
			puts(plug ? "done" : "failed");
		} else if (!strcmp(line, "confine\n")) {
			puts(confine() ? "failed" : "done");
		} else if (!strncmp(line, "as ", 3)) {
			uid = atoi(line + 3);
			puts("done");
		} else if (!strncmp(line, "anew ", 5)) {
			snprintf(anew, sizeof(anew), "%u", atoi(line + 5));
			puts("done");
		} else if (!strncmp(line, "go ", 3)) {
			shared->n = atoi(line + 3);
			shared->done = 0;
			__atomic_add_fetch(&shared->turn, 1, __ATOMIC_SEQ_CST);
			while (__atomic_load_n(&shared->done, __ATOMIC_SEQ_CST) < nworkers)
				usleep(1000);
			puts("done");
		}
		fflush(stdout);
	}
	for (unsigned i = 0; i < nworkers; i++) {
		int status;

		/* a worker that has ended by itself has found something wrong */
		if (waitpid(workers[i], &status, WNOHANG) != 0)
			ret = 1;
		kill(workers[i], SIGKILL);
		waitpid(workers[i], &status, 0);
	}
	return ret;
}
