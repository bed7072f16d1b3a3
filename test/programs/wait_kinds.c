/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits of known kinds, objects and lengths, each in a function of its own. The program tells the
 * truth of each: "FUNCTION CALLS ELAPSED_NS", elapsed by a clock around the call; for futexes also
 * for how long the lock was held against the waiter.
 *
 * usage: wait_kinds ROUNDS FILE
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))

#define NAP 8000000 /* ns */

static struct {
	char name[32];
	uint64_t calls, ns;
} truths[32];
static int ntruths;

struct {
	int entries[4];
	pthread_mutex_t lock;
} db = {.lock = PTHREAD_MUTEX_INITIALIZER};
static int pipes[2], replies[2], sockets[2], pair[2], timer_fd, epoll_fd, event_fd, lock_file;
static pthread_mutex_t *heap_lock;
static const char *lock_path;
static uint8_t *missing;
static int fault_fd;

QUIET static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

QUIET static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = NAP}, NULL);
}

QUIET static void add(const char *name, uint64_t ns)
{
	int i = 0;

	while (i < ntruths && strcmp(truths[i].name, name))
		i++;
	if (i == ntruths)
		strcpy(truths[ntruths++].name, name);
	truths[i].calls++;
	truths[i].ns += ns;
}

/* A helper does what ends a wait, a nap after it was told to. */
enum task {
	NONE,
	HOLD,
	HOLD_HEAP,
	WRITE_PIPE,
	WRITE_SOCKET,
	WRITE_PAIR,
	WRITE_EVENT,
	KILL,
	FAULT,
	STOP
};
static _Atomic int task, held;
static pthread_t waiter;

QUIET static void *help(void *arg)
{
	for (;;) {
		int what = atomic_load(&task);

		if (what == NONE) {
			sched_yield();
			nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
			continue;
		}
		if (what == STOP)
			return NULL;
		if (what == HOLD) {
			pthread_mutex_lock(&db.lock);
			atomic_store(&held, 1);
		}
		if (what == HOLD_HEAP) {
			pthread_mutex_lock(heap_lock);
			atomic_store(&held, 1);
		}
		nap();
		if (what == HOLD_HEAP)
			pthread_mutex_unlock(heap_lock);
		if (what == WRITE_PAIR && send(pair[1], "x", 1, 0) != 1)
			abort();
		if (what == WRITE_EVENT && eventfd_write(event_fd, 1))
			abort();
		if (what == HOLD)
			pthread_mutex_unlock(&db.lock);
		if (what == WRITE_PIPE && write(pipes[1], "x", 1) != 1)
			abort();
		if (what == WRITE_SOCKET && send(sockets[1], "x", 1, 0) != 1)
			abort();
		if (what == KILL)
			pthread_kill(waiter, SIGUSR1);
		if (what == FAULT) {
			static uint8_t page[4096] __attribute__((aligned(4096))) = {1};
			struct uffdio_copy copy = {
				.dst = (uintptr_t)missing, .src = (uintptr_t)page, .len = 4096};

			if (ioctl(fault_fd, UFFDIO_COPY, &copy))
				abort();
		}
		atomic_store(&task, NONE);
	}
}

QUIET static void start(enum task what)
{
	while (atomic_load(&task) != NONE)
		sched_yield();
	atomic_store(&held, 0);
	atomic_store(&task, what);
	while ((what == HOLD || what == HOLD_HEAP) && !atomic_load(&held))
		sched_yield();
}

FUNC void on_timer(void)
{
	nap();
}

FUNC void on_futex(void)
{
	pthread_mutex_lock(&db.lock);
	pthread_mutex_unlock(&db.lock);
}

FUNC void on_pipe(void)
{
	char c;

	if (read(pipes[0], &c, 1) != 1)
		abort();
}

FUNC void on_socket(void)
{
	char c;

	if (recv(sockets[0], &c, 1, 0) != 1)
		abort();
}

FUNC void on_child(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		nanosleep(&(struct timespec){.tv_nsec = NAP}, NULL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

FUNC void on_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (sigtimedwait(&set, NULL, &(struct timespec){.tv_sec = 10}) != SIGUSR1)
		abort();
}

FUNC void on_poll_timeout(void)
{
	struct pollfd p = {.fd = replies[0], .events = POLLIN};

	if (poll(&p, 1, NAP / 1000000) != 0)
		abort();
}

FUNC void on_poll_pipe(void)
{
	struct pollfd p[2] = {{.fd = replies[0], .events = POLLIN},
			      {.fd = pipes[0], .events = POLLIN}};
	char c;

	if (poll(p, 2, 10000) != 1 || read(pipes[0], &c, 1) != 1)
		abort();
}

FUNC void on_epoll_socket(void)
{
	struct epoll_event e;
	char c;

	if (epoll_wait(epoll_fd, &e, 1, 10000) != 1 || recv(sockets[0], &c, 1, 0) != 1)
		abort();
}

FUNC void on_timerfd(void)
{
	struct itimerspec t = {.it_value.tv_nsec = NAP};
	uint64_t n;

	timerfd_settime(timer_fd, 0, &t, NULL);
	if (read(timer_fd, &n, sizeof(n)) != sizeof(n))
		abort();
}

FUNC void on_flock(void)
{
	if (flock(lock_file, LOCK_EX))
		abort();
	flock(lock_file, LOCK_UN);
}

FUNC void on_fault(void)
{
	volatile uint8_t *at = missing;

	if (*at != 1)
		abort();
}

FUNC void on_heap_futex(void)
{
	pthread_mutex_lock(heap_lock);
	pthread_mutex_unlock(heap_lock);
}

FUNC void on_unix(void)
{
	char c;

	if (recv(pair[0], &c, 1, 0) != 1)
		abort();
}

FUNC void on_select_pipe(void)
{
	fd_set set;
	char c;

	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	if (select(pipes[0] + 1, &set, NULL, NULL, NULL) != 1 || read(pipes[0], &c, 1) != 1)
		abort();
}

FUNC void on_pselect_timeout(void)
{
	struct timespec t = {.tv_nsec = NAP};

	if (pselect(0, NULL, NULL, NULL, &t, NULL) != 0)
		abort();
}

FUNC void on_eventfd(void)
{
	eventfd_t value;

	if (eventfd_read(event_fd, &value))
		abort();
}

FUNC void on_cpu(void)
{
	struct timespec t;
	uint64_t end = 0, at;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		at = t.tv_sec * 1000000000ull + t.tv_nsec;
		end = end ? end : at + NAP;
	} while (at < end);
}

static struct {
	int fd;
	struct io_uring_params params;
	uint8_t *sq, *cq;
	struct io_uring_sqe *sqes;
} ring;

QUIET static int make_ring(void)
{
	ring.fd = syscall(SYS_io_uring_setup, 4, &ring.params);
	if (ring.fd < 0)
		return -1;
	ring.sq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd,
		       IORING_OFF_SQ_RING);
	ring.cq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd,
		       IORING_OFF_CQ_RING);
	ring.sqes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd,
			 IORING_OFF_SQES);
	return ring.sq == MAP_FAILED || ring.cq == MAP_FAILED || ring.sqes == MAP_FAILED ? -1 : 0;
}

FUNC void on_io_uring(void)
{
	static struct __kernel_timespec t = {.tv_nsec = NAP};
	uint32_t *tail = (uint32_t *)(ring.sq + ring.params.sq_off.tail);
	uint32_t *array = (uint32_t *)(ring.sq + ring.params.sq_off.array);
	uint32_t mask = *(uint32_t *)(ring.sq + ring.params.sq_off.ring_mask), at = *tail & mask;
	uint32_t *head = (uint32_t *)(ring.cq + ring.params.cq_off.head);

	ring.sqes[at] =
		(struct io_uring_sqe){.opcode = IORING_OP_TIMEOUT, .addr = (uintptr_t)&t, .len = 1};
	array[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		abort();
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

QUIET static void timed(const char *name, void (*call)(void))
{
	uint64_t begin = now();

	call();
	add(name, now() - begin);
}

QUIET static int make_fault(void)
{
	struct uffdio_api api = {.api = UFFD_API};

	fault_fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	return fault_fd < 0 ? -1 : ioctl(fault_fd, UFFDIO_API, &api);
}

QUIET static void miss(void)
{
	struct uffdio_register r = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	missing = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r.range.start = (uintptr_t)missing;
	r.range.len = 4096;
	if (missing == MAP_FAILED || ioctl(fault_fd, UFFDIO_REGISTER, &r))
		abort();
}

/* A connection over loopback, so that it has addresses. */
QUIET static void connect_sockets(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(a);
	int server = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(server, (void *)&a, size) || listen(server, 1) ||
	    getsockname(server, (void *)&a, &size))
		abort();
	sockets[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(sockets[1], (void *)&a, size))
		abort();
	sockets[0] = accept(server, NULL, NULL);
	printf("port %d\n", ntohs(a.sin_port));
	close(server);
}

/* Another process holds the file's lock for a nap, from when the pipe has its byte on. */
QUIET static void lock_elsewhere(void)
{
	char c;
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open(lock_path, O_RDWR);

		if (flock(fd, LOCK_EX) || write(replies[1], "x", 1) != 1)
			_exit(1);
		nap();
		_exit(0);
	}
	if (read(replies[0], &c, 1) != 1)
		abort();
}

QUIET int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[1]) : 0;
	bool faults, uring;
	pthread_t helper;
	struct epoll_event e = {.events = EPOLLIN};
	sigset_t set;

	if (!rounds)
		return 2;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	lock_path = argv[2];
	lock_file = open(lock_path, O_RDWR | O_CREAT, 0600);
	faults = make_fault() == 0;
	uring = make_ring() == 0;
	if (pipe(pipes) || pipe(replies) || lock_file < 0)
		return 1;
	connect_sockets();
	timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
	event_fd = eventfd(0, 0);
	heap_lock = malloc(sizeof(*heap_lock));
	if (!heap_lock || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	pthread_mutex_init(heap_lock, NULL);
	epoll_fd = epoll_create1(0);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, sockets[0], &e);
	waiter = pthread_self();
	pthread_create(&helper, NULL, help, NULL);
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < rounds; i++) {
		timed("on_timer", on_timer);
		start(HOLD);
		timed("on_futex", on_futex);
		start(WRITE_PIPE);
		timed("on_pipe", on_pipe);
		start(WRITE_SOCKET);
		timed("on_socket", on_socket);
		timed("on_child", on_child);
		start(KILL);
		timed("on_signal", on_signal);
		timed("on_poll_timeout", on_poll_timeout);
		start(WRITE_PIPE);
		timed("on_poll_pipe", on_poll_pipe);
		start(WRITE_SOCKET);
		timed("on_epoll_socket", on_epoll_socket);
		timed("on_timerfd", on_timerfd);
		start(HOLD_HEAP);
		timed("on_heap_futex", on_heap_futex);
		start(WRITE_PAIR);
		timed("on_unix", on_unix);
		start(WRITE_PIPE);
		timed("on_select_pipe", on_select_pipe);
		timed("on_pselect_timeout", on_pselect_timeout);
		start(WRITE_EVENT);
		timed("on_eventfd", on_eventfd);
		lock_elsewhere();
		timed("on_flock", on_flock);
		wait(NULL);
		timed("on_cpu", on_cpu);
		if (faults) {
			miss();
			start(FAULT);
			timed("on_fault", on_fault);
		}
		if (uring)
			timed("on_io_uring", on_io_uring);
	}
	start(STOP);
	pthread_join(helper, NULL);
	for (int i = 0; i < ntruths; i++)
		printf("%s %lu %lu\n", truths[i].name, truths[i].calls, truths[i].ns);
	printf("done\n");
	return 0;
}
