/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lending real-time priority, and the guard. The steps are told in priority_guard.h; the comments
 * here name them.
 */
#include "hotpatcher/ptrace/priority_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "hotpatcher/ptrace/stop.h"

#define LENT	      (IP_STOP_PRIORITY - 1)
#define GUARD	      (IP_STOP_PRIORITY + 1)
#define RESTORE_TRIES 3
#define READY_TRIES   250
#define END_TRIES     5000
#define PAUSE_US      200
#define LENT_POLICY   (SCHED_FIFO | SCHED_RESET_ON_FORK)

static struct {
	struct ip_priority_guard_table *table; /* shared with the guard */
	pid_t pid;			       /* process id of the guard; 0: none */
	int pipe;			       /* the end of the pipe that iprobe holds */
	bool tried;
	bool rests;
} guard = {.pipe = -1};

/* The present time in the unit of the start times of threads: ticks since the machine was
 * started. */
static uint64_t now_ticks(void)
{
	struct timespec t;
	long hz = sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * (uint64_t)hz + t.tv_nsec / (1000000000 / hz);
}

/* The start time of a thread; UINT64_MAX: there is no such thread. */
static uint64_t start_ticks(pid_t tid)
{
	char name[64], text[1024], *p;
	unsigned long long ticks;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/stat", tid);
	_cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return UINT64_MAX;
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name in front of it may hold any byte */
	if (!p || sscanf(p + 1,
			 " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
			 "%*d %llu",
			 &ticks) != 1)
		return UINT64_MAX;
	return ticks;
}

/* To be called after a call that failed: whether it failed because the thread has ended. One answer
 * is not enough, since a wrong one would leave the thread raised. */
static bool is_gone(pid_t tid)
{
	return errno == ESRCH && start_ticks(tid) == UINT64_MAX;
}

/* Whether the thread has the policy and priority that iprobe lends. A thread that lives and cannot
 * be asked counts as having them: it is better that it gets the ordinary policy back, which it had,
 * than that it keeps a real-time policy. */
static bool is_raised(pid_t tid)
{
	int policy = sched_getscheduler(tid);
	struct sched_param p;

	if (policy < 0)
		return !is_gone(tid);
	return policy == LENT_POLICY && (sched_getparam(tid, &p) < 0 || p.sched_priority == LENT);
}

uint32_t ip_priority_guard_table_raise(struct ip_priority_guard_table *table, pid_t tid)
{
	const struct sched_param lent = {.sched_priority = LENT};
	uint32_t at = table->n;
	int policy = sched_getscheduler(tid);

	if (at == IP_PRIORITY_GUARD_THREADS || policy < 0 ||
	    (policy & ~SCHED_RESET_ON_FORK) != SCHED_OTHER)
		return 0;
	errno = 0;
	if (getpriority(PRIO_PROCESS, tid) < 0 || errno)
		return 0;
	table->used_ticks = now_ticks();
	table->entries[at] = (struct ip_priority_guard_entry){tid, policy};
	__atomic_store_n(&table->n, at + 1, __ATOMIC_SEQ_CST);
	if (sched_setscheduler(tid, LENT_POLICY, &lent) < 0) {
		__atomic_store_n(&table->n, at, __ATOMIC_SEQ_CST);
		return 0;
	}
	return at + 1;
}

bool ip_priority_guard_table_restore(struct ip_priority_guard_table *table, uint32_t entry)
{
	const struct sched_param none = {0};
	struct ip_priority_guard_entry *e = &table->entries[entry - 1];
	bool ours = e->tid && is_raised(e->tid), back = false;

	/* more than once: a real-time policy that stays is worse than a moment's work, whatever the
	 * first answer was */
	for (int i = 0; ours && !back && i < RESTORE_TRIES; i++)
		back = sched_setscheduler(e->tid, e->policy, &none) == 0;
	/* the entry stays: it is tried again when iprobe ends, and before priority is lent again */
	if (ours && !back && !is_gone(e->tid))
		return false;
	__atomic_store_n(&e->tid, 0, __ATOMIC_SEQ_CST);
	return ours;
}

unsigned ip_priority_guard_restore_all(struct ip_priority_guard_table *table)
{
	uint32_t n = __atomic_load_n(&table->n, __ATOMIC_SEQ_CST);
	unsigned restored = 0;

	for (uint32_t i = 0; i < n && i < IP_PRIORITY_GUARD_THREADS; i++) {
		pid_t tid = table->entries[i].tid;

		if (tid && start_ticks(tid) <= table->used_ticks)
			restored += ip_priority_guard_table_restore(table, i + 1);
	}
	return restored;
}

/* The guard: step 1, then step 5. The kernel sends the signal of PR_SET_PDEATHSIG when the thread
 * that has forked the guard ends, whether or not other threads of its process go on. If that thread
 * ended before the guard asked for the signal, it has raised no thread. If any other process sends
 * this signal, the guard ends, too: then no thread is raised any more. */
static void __attribute__((noreturn)) watch(int pipe, struct ip_priority_guard_table *table)
{
	const struct sched_param high = {.sched_priority = GUARD};
	struct pollfd fds[2] = {{.fd = 3, .events = POLLIN}, {.fd = 4, .events = POLLIN}};
	sigset_t all, death;
	int signals;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	sigemptyset(&death);
	sigaddset(&death, SIGUSR1);
	signals = signalfd(-1, &death, 0);
	if (signals < 0 || prctl(PR_SET_PDEATHSIG, SIGUSR1) < 0)
		_exit(1);
	setsid();
	prctl(PR_SET_NAME, "iprobe-guard");
	sched_setscheduler(0, SCHED_FIFO, &high);
	/* both descriptors are 5 or more afterwards, so that no dup2() closes the other one */
	pipe = fcntl(pipe, F_DUPFD, 5);
	signals = fcntl(signals, F_DUPFD, 5);
	dup2(pipe, 3);
	if (dup2(signals, 4) < 0)
		_exit(1);
	syscall(SYS_close_range, 5, ~0u, 0);
	syscall(SYS_close_range, 0, 2, 0);
	__atomic_store_n(&table->ready, 1, __ATOMIC_SEQ_CST);
	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	ip_priority_guard_restore_all(table);
	_exit(0);
}

/* Tries it on the calling thread. */
bool ip_priority_guard_may_lend(void)
{
	const struct sched_param lent = {.sched_priority = LENT};
	struct sched_param own;
	int policy = sched_getscheduler(0);

	if (policy < 0 || sched_getparam(0, &own) < 0 ||
	    sched_setscheduler(0, LENT_POLICY, &lent) < 0)
		return false;
	if (sched_setscheduler(0, policy & ~SCHED_RESET_ON_FORK, &own) < 0) {
		sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &own);
		return false;
	}
	if (policy & SCHED_RESET_ON_FORK)
		sched_setscheduler(0, policy, &own);
	return true;
}

void ip_priority_guard_start(void)
{
	int ends[2];
	void *table;

	if (guard.tried)
		return;
	guard.tried = true;
	guard.rests = false;
	if (!ip_priority_guard_may_lend())
		return;
	table = mmap(NULL, sizeof(*guard.table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (table == MAP_FAILED)
		return;
	guard.table = table;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	guard.pid = fork();
	if (guard.pid == 0) {
		close(ends[1]);
		watch(ends[0], guard.table);
	}
	close(ends[0]);
	guard.pipe = ends[1];
	if (guard.pid < 0) {
		guard.pid = 0;
		ip_priority_guard_stop();
	}
}

void ip_priority_guard_stop(void)
{
	if (guard.pipe >= 0)
		close(guard.pipe);
	guard.pipe = -1;
	/* The guard ends when the pipe is closed. If the pipe could not be closed, the guard ends
	 * when iprobe ends: the wait for it is limited. */
	for (int i = 0; guard.pid && i < END_TRIES; i++) {
		pid_t ended = waitpid(guard.pid, NULL, WNOHANG);

		if (ended == guard.pid || (ended < 0 && errno == ECHILD))
			break;
		usleep(PAUSE_US);
	}
	guard.pid = 0;
	guard.tried = guard.rests = false;
	if (guard.table)
		munmap(guard.table, sizeof(*guard.table));
	guard.table = NULL;
}

void ip_priority_guard_rest(void)
{
	const bool there = guard.tried;

	ip_priority_guard_stop();
	guard.rests = there;
}

bool ip_priority_guard_begin(void)
{
	if (guard.rests)
		ip_priority_guard_start();
	for (int i = 0; guard.pid && !__atomic_load_n(&guard.table->ready, __ATOMIC_SEQ_CST) &&
			i < READY_TRIES;
	     i++)
		usleep(PAUSE_US);
	if (guard.pid && waitpid(guard.pid, NULL, WNOHANG) == guard.pid)
		guard.pid = 0; /* another process has killed it */
	if (!guard.pid || !guard.table->ready)
		return false;
	/* what cannot be taken back stays in the table */
	ip_priority_guard_restore_all(guard.table);
	for (uint32_t i = 0; i < guard.table->n; i++)
		if (guard.table->entries[i].tid)
			return true;
	__atomic_store_n(&guard.table->n, 0, __ATOMIC_SEQ_CST);
	return true;
}

uint32_t ip_priority_guard_raise(pid_t tid)
{
	return ip_priority_guard_table_raise(guard.table, tid);
}

void ip_priority_guard_restore(uint32_t entry)
{
	if (entry && guard.table)
		ip_priority_guard_table_restore(guard.table, entry);
}
