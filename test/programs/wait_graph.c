/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random graphs of threads that wait for each other, one after the other, each in a call of
 * graph_run(). The program tells the truth of each, by the TSC:
 *
 *   graph SEED SLOT KIND TID BEGIN END              graph_run(), from inside
 *   wait SEED SLOT KIND TID OUTER INNER INNER OUTER EXTRA
 *                                                   a wait, in a function of its own: the clock
 *                                                   before the call, at its begin and end, and
 *                                                   behind it
 *   wake SEED SLOT KIND TID BEFORE AFTER N          who ended it; N: threads that futex(2) woke
 *   hold SEED SLOT KIND TID BEGIN BEFORE AFTER      a mutex was had until its unlocking
 *   born SEED SLOT KIND TID BEFORE BEGIN PARENT     a thread
 *   slot SLOT PIPE FULL SOCKET                      inodes of descriptors that are waited for
 *
 * A graph is made of edges in an order: edge i has the thread A wait for B, which works before it
 * ends that wait. Threads do their parts in the order of the edges: so there is no deadlock.
 *
 * usage: wait_graph SEED COUNT LOG
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))

#define WORKERS	  4
#define SLOTS	  12
#define OPS	  (6 * SLOTS)
#define LOGS	  400000
#define FULL_PART 4096

enum kind {
	kind_mutex,
	kind_pi,
	kind_condition,
	kind_semaphore,
	kind_futex,
	kind_requeued,
	kind_pipe,
	kind_full,
	kind_socket,
	kind_event,
	kind_poll,
	kind_signal,
	kind_join,
	kind_child,
	kind_sleep,
	kind_timer,
	nkinds
};
static const char *const kind_names[] = {
	"mutex",  "pi",	   "condition", "semaphore", "futex", "requeued", "pipe",  "full",
	"socket", "event", "poll",	"signal",    "join",  "child",	  "sleep", "timer"};

struct slot {
	pthread_mutex_t mutex, pi, guard;
	pthread_cond_t condition;
	sem_t semaphore;
	_Atomic int word, second, held;
	int flag, inside;
	int pipe[2], full[2], socket[2], event, epoll, timer;
} slots[SLOTS];

/* The clock around what is waited for, inside of the function. */
struct clock {
	uint64_t begin, end;
};

struct log {
	enum { WAIT, WAKE, HOLD, BORN, GRAPH } what;
	uint32_t seed;
	int slot, kind, tid;
	uint64_t times[4], extra;
};

static struct log *logs;
static _Atomic unsigned nlogs;
static uint32_t seed;

/* A part of a thread's work. */
struct op {
	enum { SPIN, NAP, LOCK, WAITS, WAKES, WAKES_FALSELY, REQUEUES } what;
	int slot, kind;
	uint32_t us;
};

static struct worker {
	struct op ops[OPS];
	int n;
	pthread_t thread;
	_Atomic int tid;
	uint64_t made; /* before it was */
} workers[WORKERS];
static int waiter_of[SLOTS];
static _Atomic uint64_t ends[WORKERS];

QUIET static uint64_t now(void)
{
	unsigned cpu;

	return __rdtscp(&cpu);
}

QUIET static void put(struct log l)
{
	unsigned at = atomic_fetch_add(&nlogs, 1);

	if (at >= LOGS)
		abort();
	l.seed = seed;
	logs[at] = l;
}

QUIET static long futex(_Atomic int *word, int op, int value, uintptr_t value2, _Atomic int *second,
			int value3)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, value2, second, value3);
}

QUIET static void nap(uint32_t us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

QUIET static void spin(uint32_t us)
{
	struct timespec t, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += us * 1000;
	do
		clock_gettime(CLOCK_MONOTONIC, &t);
	while ((t.tv_sec - end.tv_sec) * 1000000000 + t.tv_nsec < end.tv_nsec);
}

/* The waits: each returns what is to be told beside it. */
#define WAIT_FUNCTION(name, ...)                                                                   \
	FUNC uint64_t wait_##name(struct slot *s, struct clock *c)                                 \
	{                                                                                          \
		uint64_t extra = 0;                                                                \
                                                                                                   \
		c->begin = now();                                                                  \
		__VA_ARGS__                                                                        \
		c->end = now();                                                                    \
		return extra;                                                                      \
	}

WAIT_FUNCTION(mutex, pthread_mutex_lock(&s->mutex);)
WAIT_FUNCTION(pi, pthread_mutex_lock(&s->pi);)
WAIT_FUNCTION(condition, pthread_mutex_lock(&s->guard);
	      while (!s->flag) pthread_cond_wait(&s->condition, &s->guard); s->flag = 0;
	      pthread_mutex_unlock(&s->guard);)
WAIT_FUNCTION(semaphore, while (sem_wait(&s->semaphore)){})
WAIT_FUNCTION(futex, extra = futex(&s->word, FUTEX_WAIT, 0, 0, NULL, 0) ? errno : 0;)
WAIT_FUNCTION(requeued, extra = futex(&s->word, FUTEX_WAIT, 0, 0, NULL, 0) ? errno : 0;)
WAIT_FUNCTION(pipe, char b; if (read(s->pipe[0], &b, 1) != 1) abort();)
WAIT_FUNCTION(full, static char part[FULL_PART];
	      if (write(s->full[1], part, sizeof(part)) != sizeof(part)) abort();)
WAIT_FUNCTION(socket, char b; if (recv(s->socket[0], &b, 1, 0) != 1) abort();)
WAIT_FUNCTION(event, struct epoll_event e; uint64_t n;
	      if (epoll_wait(s->epoll, &e, 1, 10000) != 1 ||
		  read(s->event, &n, sizeof(n)) != sizeof(n)) abort();)
WAIT_FUNCTION(poll, struct pollfd p = {.fd = s->pipe[0], .events = POLLIN}; char b;
	      if (poll(&p, 1, 10000) != 1 || read(s->pipe[0], &b, 1) != 1) abort();)
WAIT_FUNCTION(signal, sigset_t set; struct timespec t = {.tv_sec = 10}; sigemptyset(&set);
	      sigaddset(&set, SIGRTMIN + (s - slots));
	      if (sigtimedwait(&set, NULL, &t) < 0) abort();)
WAIT_FUNCTION(sleep, extra = 200 + 20 * (s - slots);
	      clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = extra * 1000},
			      NULL);)
WAIT_FUNCTION(timer, struct itimerspec t = {.it_value.tv_nsec = 300000}; uint64_t n;
	      timerfd_settime(s->timer, 0, &t, NULL);
	      if (read(s->timer, &n, sizeof(n)) != sizeof(n)) abort(); (void)extra;)
WAIT_FUNCTION(
	child, (void)s; pid_t pid = vfork(); if (pid == 0) {
		nap(250);
		_exit(0);
	} waitpid(pid, NULL, 0);
	extra = pid;)

/* A thread that is joined. */
struct brief {
	uint32_t us;
	int tid;
	uint64_t end;
};

QUIET static void *run_brief(void *arg)
{
	struct brief *b = arg;

	b->tid = gettid();
	nap(b->us);
	b->end = now();
	return NULL;
}

FUNC void wait_join(pthread_t thread, struct clock *c)
{
	c->begin = now();
	pthread_join(thread, NULL);
	c->end = now();
}

QUIET static void join(pthread_t thread, int slot, const int *tid, const uint64_t *end)
{
	struct clock c;
	uint64_t before = now();

	wait_join(thread, &c);
	put((struct log){
		WAIT, 0, slot, kind_join, gettid(), {before, c.begin, c.end, now()}, thread});
	put((struct log){WAKE, 0, slot, kind_join, *tid, {*end, c.end, 1}, 0});
}

static uint64_t (*const waits[nkinds])(struct slot *s, struct clock *c) = {
	[kind_mutex] = wait_mutex,	   [kind_pi] = wait_pi,
	[kind_condition] = wait_condition, [kind_semaphore] = wait_semaphore,
	[kind_futex] = wait_futex,	   [kind_requeued] = wait_requeued,
	[kind_pipe] = wait_pipe,	   [kind_full] = wait_full,
	[kind_socket] = wait_socket,	   [kind_event] = wait_event,
	[kind_poll] = wait_poll,	   [kind_signal] = wait_signal,
	[kind_child] = wait_child,	   [kind_sleep] = wait_sleep,
	[kind_timer] = wait_timer};

QUIET static void unlock(int slot, int kind, uint64_t since)
{
	uint64_t before = now();

	pthread_mutex_unlock(kind == kind_pi ? &slots[slot].pi : &slots[slot].mutex);
	put((struct log){HOLD, 0, slot, kind, gettid(), {since, before, now()}, 0});
}

QUIET static void wait_once(const struct op *op)
{
	struct clock c;
	uint64_t before = now(), extra = waits[op->kind](&slots[op->slot], &c), after = now();

	put((struct log){
		WAIT, 0, op->slot, op->kind, gettid(), {before, c.begin, c.end, after}, extra});
	if (op->kind == kind_mutex || op->kind == kind_pi) {
		spin(op->us);
		unlock(op->slot, op->kind, c.end);
	}
}

QUIET static void do_wait(const struct op *op)
{
	struct slot *s = &slots[op->slot];
	struct brief b = {.us = op->us};
	pthread_t thread;

	if (op->kind == kind_join) {
		if (pthread_create(&thread, NULL, run_brief, &b))
			abort();
		join(thread, op->slot, &b.tid, &b.end);
		return;
	}
	while ((op->kind == kind_mutex || op->kind == kind_pi) && !atomic_load(&s->held))
		nap(20);
	do
		wait_once(op);
	while ((op->kind == kind_futex || op->kind == kind_requeued) && !atomic_load(&s->word));
}

QUIET static void wake(const struct op *op)
{
	struct slot *s = &slots[op->slot];
	static char part[FULL_PART];
	uint64_t one = 1, before = now();
	long n = 1;

	switch (op->kind) {
	case kind_condition:
		pthread_mutex_lock(&s->guard);
		s->flag = 1;
		if (s->inside)
			pthread_cond_signal(&s->condition);
		pthread_mutex_unlock(&s->guard);
		if (!s->inside)
			pthread_cond_signal(&s->condition);
		break;
	case kind_semaphore:
		sem_post(&s->semaphore);
		break;
	case kind_futex:
		atomic_store(&s->word, 1);
		n = futex(&s->word, FUTEX_WAKE, 1, 0, NULL, 0);
		break;
	case kind_requeued:
		atomic_store(&s->word, 1);
		n = futex(&s->second, FUTEX_WAKE, 1, 0, NULL, 0);
		if (!n)
			n = futex(&s->word, FUTEX_WAKE, 1, 0, NULL, 0);
		break;
	case kind_pipe:
	case kind_poll:
		n = write(s->pipe[1], &one, 1);
		break;
	case kind_full:
		if (read(s->full[0], part, sizeof(part)) != sizeof(part))
			abort();
		break;
	case kind_socket:
		n = send(s->socket[1], &one, 1, 0);
		break;
	case kind_event:
		n = write(s->event, &one, sizeof(one)) / 8;
		break;
	case kind_signal: {
		int tid;

		while (!(tid = atomic_load(&workers[waiter_of[op->slot]].tid)))
			nap(20);
		before = now();
		if (syscall(SYS_tgkill, getpid(), tid, SIGRTMIN + op->slot))
			abort();
		break;
	}
	}
	put((struct log){WAKE, 0, op->slot, op->kind, gettid(), {before, now(), n < 0 ? 0 : n}, 0});
}

QUIET static void lock(const struct op *op, uint64_t since[SLOTS])
{
	pthread_mutex_lock(op->kind == kind_pi ? &slots[op->slot].pi : &slots[op->slot].mutex);
	since[op->slot] = now();
	atomic_store(&slots[op->slot].held, 1);
}

QUIET static void falsely(const struct op *op)
{
	uint64_t before = now();
	long n = futex(&slots[op->slot].word, FUTEX_WAKE, 1, 0, NULL, 0);

	put((struct log){WAKE, 0, op->slot, op->kind, gettid(), {before, now(), n}, 0});
}

FUNC void worker_run(struct worker *w, uint64_t since[SLOTS])
{
	for (int i = 0; i < w->n; i++) {
		const struct op *op = &w->ops[i];

		switch (op->what) {
		case SPIN:
			spin(op->us);
			break;
		case NAP:
			nap(op->us);
			break;
		case LOCK:
			lock(op, since);
			break;
		case WAITS:
			do_wait(op);
			break;
		case WAKES_FALSELY:
			falsely(op);
			break;
		case REQUEUES:
			futex(&slots[op->slot].word, FUTEX_REQUEUE, 0, 1, &slots[op->slot].second,
			      0);
			break;
		case WAKES:
			if (op->kind == kind_mutex || op->kind == kind_pi)
				unlock(op->slot, op->kind, since[op->slot]);
			else
				wake(op);
		}
	}
}

QUIET static void *run_worker(void *arg)
{
	struct worker *w = arg;
	uint64_t since[SLOTS] = {0};

	put((struct log){BORN, 0, 0, 0, gettid(), {w->made, now()}, getpid()});
	atomic_store(&w->tid, gettid());
	worker_run(w, since);
	ends[w - workers] = now();
	return NULL;
}

QUIET static uint32_t random_below(uint64_t *state, uint32_t n)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (*state >> 33) % n;
}

QUIET static void add(int worker, int what, int slot, int kind, uint32_t us)
{
	struct worker *w = &workers[worker];

	w->ops[w->n++] = (struct op){what, slot, kind, us};
}

/* Locks are had before anything is waited for. */
QUIET static void put_first(int worker, int slot, int kind)
{
	struct worker *w = &workers[worker];

	memmove(w->ops + 1, w->ops, w->n++ * sizeof(*w->ops));
	w->ops[0] = (struct op){LOCK, slot, kind, 0};
}

QUIET static void work(uint64_t *state, int worker, int slot)
{
	add(worker, random_below(state, 3) ? NAP : SPIN, slot, 0, 60 + random_below(state, 300));
}

QUIET static void make_graph(uint64_t *state)
{
	const int edges = 3 + random_below(state, SLOTS - 2);

	for (int i = 0; i < WORKERS; i++)
		workers[i].n = workers[i].tid = 0;
	for (int i = 0; i < edges; i++) {
		int kind = random_below(state, nkinds), a = random_below(state, WORKERS),
		    b = (a + 1 + random_below(state, WORKERS - 1)) % WORKERS, third;
		struct slot *s = &slots[i];

		s->word = s->second = s->held = s->flag = 0;
		s->inside = random_below(state, 2);
		waiter_of[i] = a;
		add(a, WAITS, i, kind, 50 + random_below(state, 200));
		if (kind >= kind_join) /* nobody of these ends it */
			continue;
		work(state, b, i);
		switch (kind) {
		case kind_mutex:
		case kind_pi:
			put_first(b, i, kind);
			third = random_below(state, WORKERS);
			if (third != a && third != b)
				add(third, WAITS, i, kind, 50 + random_below(state, 200));
			break;
		case kind_futex:
			third = random_below(state, WORKERS);
			if (third != a && third != b)
				add(third, WAKES_FALSELY, i, kind, 0);
			break;
		case kind_requeued:
			add(b, REQUEUES, i, kind, 0);
			work(state, b, i);
			break;
		}
		add(b, WAKES, i, kind, 0);
	}
}

FUNC void graph_run(uint32_t number)
{
	uint64_t begin = now(), state = number * 0x9e3779b97f4a7c15u;

	seed = number;
	make_graph(&state);
	for (int i = 0; i < WORKERS; i++) {
		workers[i].made = now();
		if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]))
			abort();
	}
	for (int i = 0; i < WORKERS; i++) {
		struct clock c;
		uint64_t before = now();

		wait_join(workers[i].thread, &c);
		put((struct log){WAIT,
				 0,
				 -1 - i,
				 kind_join,
				 gettid(),
				 {before, c.begin, c.end, now()},
				 workers[i].thread});
		put((struct log){
			WAKE, 0, -1 - i, kind_join, workers[i].tid, {ends[i], c.end, 1}, 0});
	}
	put((struct log){GRAPH, 0, 0, 0, gettid(), {begin, now()}, 0});
}

QUIET static unsigned long inode(int fd)
{
	struct stat s;

	return fstat(fd, &s) ? 0 : s.st_ino;
}

QUIET static void make_slots(void)
{
	pthread_mutexattr_t pi;

	pthread_mutexattr_init(&pi);
	pthread_mutexattr_setprotocol(&pi, PTHREAD_PRIO_INHERIT);
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];
		struct epoll_event e = {.events = EPOLLIN};
		static char part[FULL_PART];

		pthread_mutex_init(&s->mutex, NULL);
		pthread_mutex_init(&s->guard, NULL);
		pthread_mutex_init(&s->pi, &pi);
		pthread_cond_init(&s->condition, NULL);
		sem_init(&s->semaphore, 0, 0);
		s->event = eventfd(0, 0);
		s->timer = timerfd_create(CLOCK_MONOTONIC, 0);
		s->epoll = epoll_create1(0);
		if (pipe(s->pipe) || pipe(s->full) ||
		    socketpair(AF_UNIX, SOCK_STREAM, 0, s->socket) ||
		    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->event, &e))
			abort();
		fcntl(s->full[1], F_SETFL, O_NONBLOCK);
		while (write(s->full[1], part, sizeof(part)) > 0) {
		}
		fcntl(s->full[1], F_SETFL, 0);
	}
}

QUIET static void tell(const char *path)
{
	static const char *const words[] = {"wait", "wake", "hold", "born", "graph"};
	static const int ntimes[] = {4, 3, 3, 2, 2};
	FILE *out = fopen(path, "w");

	if (!out)
		abort();
	for (int i = 0; i < SLOTS; i++)
		fprintf(out, "slot %d %lu %lu %lu\n", i, inode(slots[i].pipe[0]),
			inode(slots[i].full[0]), inode(slots[i].socket[0]));
	for (unsigned i = 0; i < nlogs; i++) {
		const struct log *l = &logs[i];

		fprintf(out, "%s %u %d %s %d", words[l->what], l->seed, l->slot,
			kind_names[l->kind], l->tid);
		for (int k = 0; k < ntimes[l->what]; k++)
			fprintf(out, " %" PRIu64, l->times[k]);
		fprintf(out, " %" PRIu64 "\n", l->extra);
	}
	if (fclose(out))
		abort();
}

QUIET int main(int argc, char **argv)
{
	sigset_t all;

	if (argc != 4)
		return 2;
	logs = calloc(LOGS, sizeof(*logs));
	if (!logs)
		return 1;
	memset(logs, 1, LOGS * sizeof(*logs)); /* no page fault when something is told */
	sigemptyset(&all);
	for (int i = 0; i < SLOTS; i++)
		sigaddset(&all, SIGRTMIN + i);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	make_slots();
	nap(300000); /* what the descriptors are is to be noted */
	for (int i = 0; i < atoi(argv[2]); i++)
		graph_run(atoi(argv[1]) + i);
	tell(argv[3]);
	return 0;
}
