/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of system calls that wait, one thread each: what each returns, and how long it took.
 *
 *   table [SECONDS [NAME...]]
 *
 * Prints "ready" once all have begun, then, as each ends, a line: its name, what it returned, errno
 * by name or "-", and its time in milliseconds. All end by themselves, at a time limit of so many
 * seconds (2) or by what the main thread does then. SIGUSR1 has a handler with SA_RESTART, SIGUSR2
 * one without; lines of stdin "restart NAME", "handler NAME" send the one or the other to a thread.
 * At the end: how often each handler ran, and what timers counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN	   __attribute__((no_instrument_function))
#define CALL(name) HIDDEN static long name(void)
#define LARGE	   1000000 /* more than a pipe or a socket takes at once */

static double seconds = 2;
static volatile unsigned ticks;

__attribute__((noinline)) static void tick(void)
{
	ticks++;
}

HIDDEN static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* A time limit, in memory that nobody can write to, for the kernel not to note in it what is
 * left. */
HIDDEN static struct timespec *limit(void)
{
	struct timespec *t =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	t->tv_sec = seconds;
	t->tv_nsec = (seconds - t->tv_sec) * 1e9;
	mprotect(t, 4096, PROT_READ);
	return t;
}

HIDDEN static struct timespec until(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += (long)seconds;
	t.tv_nsec += (seconds - (long)seconds) * 1e9;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

HIDDEN static struct timeval interval(void)
{
	return (struct timeval){seconds, (seconds - (long)seconds) * 1e6};
}

/*
 * What others do when the time is over, for calls without a limit.
 */
struct later {
	void (*act)(struct later *);
	int fd, id;
	pthread_t thread;
	void *pointer;
	struct sockaddr_in address;
};

HIDDEN static void *later_thread(void *arg)
{
	struct later *l = arg;
	struct timespec t = until(CLOCK_MONOTONIC);
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
	l->act(l);
	return NULL;
}

HIDDEN static void later(struct later l)
{
	struct later *copy = malloc(sizeof(l));
	pthread_t thread;

	*copy = l;
	pthread_create(&thread, NULL, later_thread, copy);
}

HIDDEN static void act_write(struct later *l)
{
	if (write(l->fd, "12345678", 8) != 8)
		abort();
}

/* What the writer has written has to come out, byte for byte. */
HIDDEN static void act_read(struct later *l)
{
	static const char digits[] = "0123456789";
	char buffer[4096];
	ssize_t n;

	for (size_t total = 0; total < LARGE; total += n) {
		n = read(l->fd, buffer, sizeof(buffer));
		if (n <= 0)
			return;
		for (ssize_t i = 0; i < n; i++)
			if (buffer[i] != digits[(total + i) % 10]) {
				printf("wrong byte %zu\n", total + i);
				return;
			}
	}
}

HIDDEN static void act_close(struct later *l)
{
	close(l->fd);
}

HIDDEN static void act_connect(struct later *l)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (void *)&l->address, sizeof(l->address)))
		abort();
}

HIDDEN static void act_semaphore(struct later *l)
{
	struct sembuf up = {0, 1, 0};

	semop(l->id, &up, 1);
}

HIDDEN static void act_message(struct later *l)
{
	struct {
		long type;
		char text[8];
	} m = {1, "hello"};

	msgsnd(l->id, &m, sizeof(m.text), 0);
}

HIDDEN static void act_signal(struct later *l)
{
	pthread_kill(l->thread, l->id);
}

HIDDEN static void act_wake(struct later *l)
{
	*(int *)l->pointer = 1;
	syscall(SYS_futex, l->pointer, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

HIDDEN static void act_open(struct later *l)
{
	int fd = open(l->pointer, O_WRONLY);

	if (fd < 0)
		abort();
}

/* The first bytes come after a quarter of the time, the rest at its end. */
HIDDEN static void *halves_thread(void *arg)
{
	struct later *l = arg;

	usleep(seconds / 4 * 1e6);
	if (write(l->fd, "1234", 4) != 4)
		abort();
	usleep(seconds / 4 * 3 * 1e6);
	if (write(l->fd, "5678", 4) != 4)
		abort();
	return NULL;
}

HIDDEN static char *digits(void)
{
	char *text = malloc(LARGE);

	for (size_t i = 0; i < LARGE; i++)
		text[i] = "0123456789"[i % 10];
	return text;
}

/*
 * The calls.
 */
HIDDEN static int socket_pair(int option, int type)
{
	struct timeval t = interval();
	int fds[2];

	if (socketpair(AF_UNIX, type, 0, fds))
		abort();
	if (option)
		setsockopt(fds[0], SOL_SOCKET, option, &t, sizeof(t));
	fcntl(fds[1], F_DUPFD, 0); /* stays open */
	return fds[0];
}

HIDDEN static void pair(int *fds)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		abort();
}

HIDDEN static void tcp_pair(int *fds)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int server = socket(AF_INET, SOCK_STREAM, 0), room = 65536;

	setsockopt(server, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(server, (void *)&address, size) || listen(server, 1) ||
	    getsockname(server, (void *)&address, &size))
		abort();
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (connect(fds[0], (void *)&address, size))
		abort();
	fds[1] = accept(server, NULL, NULL);
}

CALL(call_epoll_wait)
{
	struct epoll_event e;

	return epoll_wait(epoll_create1(0), &e, 1, seconds * 1000);
}

CALL(call_epoll_pwait)
{
	struct epoll_event e;
	sigset_t none;

	sigemptyset(&none);
	return epoll_pwait(epoll_create1(0), &e, 1, seconds * 1000, &none);
}

CALL(call_epoll_pwait2)
{
	struct epoll_event e;

	return syscall(441, epoll_create1(0), &e, 1, limit(), NULL, 8);
}

CALL(call_epoll_endless)
{
	struct epoll_event e = {.events = EPOLLIN};
	int fd = epoll_create1(0), event = eventfd(0, 0);

	epoll_ctl(fd, EPOLL_CTL_ADD, event, &e);
	later((struct later){act_write, .fd = event});
	return epoll_wait(fd, &e, 1, -1);
}

CALL(call_epoll_event)
{
	struct epoll_event e = {.events = EPOLLIN};
	int fd = epoll_create1(0), event = eventfd(0, 0);

	epoll_ctl(fd, EPOLL_CTL_ADD, event, &e);
	later((struct later){act_write, .fd = event});
	return epoll_wait(fd, &e, 1, seconds * 3000);
}

HIDDEN static int semaphore(void)
{
	return semget(IPC_PRIVATE, 1, 0600);
}

CALL(call_semtimedop)
{
	struct sembuf down = {0, -1, 0};
	int id = semaphore(), ret = semtimedop(id, &down, 1, limit()), error = errno;

	semctl(id, 0, IPC_RMID);
	errno = error;
	return ret;
}

CALL(call_semop)
{
	struct sembuf down = {0, -1, 0};
	int id = semaphore(), ret, error;

	later((struct later){act_semaphore, .id = id});
	ret = semop(id, &down, 1);
	error = errno;
	semctl(id, 0, IPC_RMID);
	errno = error;
	return ret;
}

CALL(call_sigtimedwait)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	return sigtimedwait(&set, NULL, limit());
}

CALL(call_sigwaitinfo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 2);
	later((struct later){act_signal, .id = SIGRTMIN + 2, .thread = pthread_self()});
	return sigwaitinfo(&set, NULL) == SIGRTMIN + 2;
}

CALL(call_io_getevents)
{
	aio_context_t context = 0;
	struct io_event e;
	long ret;

	if (syscall(SYS_io_setup, 1, &context))
		return -1;
	ret = syscall(SYS_io_getevents, context, 1l, 1l, &e, limit());
	return ret;
}

CALL(call_io_pgetevents)
{
	aio_context_t context = 0;
	struct io_event e;

	if (syscall(SYS_io_setup, 1, &context))
		return -1;
	return syscall(333, context, 1l, 1l, &e, limit(), NULL);
}

/* Ends by a timeout that was submitted before. */
CALL(call_io_uring)
{
	struct io_uring_params p = {0};
	int fd = syscall(SYS_io_uring_setup, 1, &p);
	struct io_uring_sqe *sqe;
	char *ring;

	if (fd < 0) { /* not allowed here */
		usleep(seconds * 1e6);
		return 0;
	}
	ring = mmap(NULL, p.sq_off.array + 4 * p.sq_entries, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    IORING_OFF_SQ_RING);
	sqe = mmap(NULL, sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES);
	*sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_TIMEOUT, .addr = (uintptr_t)limit(), .len = 1};
	*(uint32_t *)(ring + p.sq_off.array) = 0;
	__atomic_store_n((uint32_t *)(ring + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0) != 1)
		return -2;
	return syscall(SYS_io_uring_enter, fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

CALL(call_recv)
{
	char c;

	return recv(socket_pair(SO_RCVTIMEO, SOCK_STREAM), &c, 1, 0);
}

CALL(call_recv_datagram)
{
	char c;

	return recv(socket_pair(SO_RCVTIMEO, SOCK_DGRAM), &c, 1, 0);
}

CALL(call_read_socket)
{
	char c;

	return read(socket_pair(SO_RCVTIMEO, SOCK_STREAM), &c, 1);
}

CALL(call_recvmsg)
{
	char c;
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	return recvmsg(socket_pair(SO_RCVTIMEO, SOCK_STREAM), &m, 0);
}

/* Data that comes before the limit: seven bytes of the eight. */
CALL(call_recv_data)
{
	struct timeval t = {100, 0};
	char c[8];
	int fds[2];

	pair(fds);
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	later((struct later){act_write, .fd = fds[1]});
	return recv(fds[0], c, 7, 0);
}

CALL(call_accept)
{
	struct timeval t = interval();
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	listen(fd, 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	return accept(fd, NULL, NULL);
}

CALL(call_accept_connection)
{
	struct timeval t = {100, 0};
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (void *)&address, size) || listen(fd, 1) ||
	    getsockname(fd, (void *)&address, &size))
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	later((struct later){act_connect, .address = address});
	return accept(fd, NULL, NULL) < 0 ? -1 : 1;
}

CALL(call_accept_endless)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (void *)&address, size) || listen(fd, 1) ||
	    getsockname(fd, (void *)&address, &size))
		return -1;
	later((struct later){act_connect, .address = address});
	return accept(fd, NULL, NULL) < 0 ? -1 : 1;
}

/* Nobody answers there: the backlog of a socket that never accepts. */
CALL(call_connect)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	struct timeval t = interval();
	int server = socket(AF_INET, SOCK_STREAM, 0), fd;

	if (bind(server, (void *)&address, size) || listen(server, 0) ||
	    getsockname(server, (void *)&address, &size))
		return -2;
	for (int i = 0; i < 3; i++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(fd, (void *)&address, size);
	}
	usleep(50000);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	return connect(fd, (void *)&address, size);
}

/* All but what fits is never sent. */
CALL(call_send)
{
	struct timeval t = interval();
	int fds[2];
	long first;

	tcp_pair(fds);
	while (send(fds[0], "0123456789", 10, MSG_DONTWAIT) > 0)
		;
	usleep(100000);
	while (send(fds[0], "0123456789", 10, MSG_DONTWAIT) > 0)
		;
	setsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	first = send(fds[0], "0123456789", 10, 0);
	return first;
}

CALL(call_send_limit)
{
	struct timeval t = {100, 0};
	int fds[2];

	tcp_pair(fds);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	later((struct later){act_read, .fd = fds[1]});
	return send(fds[0], digits(), LARGE, 0);
}

CALL(call_send_endless)
{
	int fds[2];

	tcp_pair(fds);
	later((struct later){act_read, .fd = fds[1]});
	return send(fds[0], digits(), LARGE, 0);
}

CALL(call_write_socket)
{
	int fds[2];

	pair(fds);
	later((struct later){act_read, .fd = fds[1]});
	return write(fds[0], digits(), LARGE);
}

CALL(call_write_pipe)
{
	int fds[2];

	if (pipe(fds))
		return -2;
	later((struct later){act_read, .fd = fds[0]});
	return write(fds[1], digits(), LARGE);
}

HIDDEN static long receive_halves(long limit_s)
{
	struct timeval t = {limit_s, 0};
	struct later l = {0};
	pthread_t thread;
	char c[8];
	int fds[2];
	long n;

	pair(fds);
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	l.fd = fds[1];
	pthread_create(&thread, NULL, halves_thread, &l);
	n = recv(fds[0], c, 8, MSG_WAITALL);
	pthread_join(thread, NULL);
	return n == 8 && memcmp(c, "12345678", 8) ? -3 : n;
}

CALL(call_recv_all)
{
	return receive_halves(0);
}

CALL(call_recv_all_limit)
{
	return receive_halves(100);
}

CALL(call_read_pipe)
{
	char c[8];
	int fds[2];

	if (pipe(fds))
		return -2;
	later((struct later){act_write, .fd = fds[1]});
	return read(fds[0], c, 8);
}

CALL(call_read_end)
{
	char c[8];
	int fds[2];

	if (pipe(fds))
		return -2;
	later((struct later){act_close, .fd = fds[1]});
	return read(fds[0], c, 8);
}

CALL(call_read_eventfd)
{
	uint64_t v;
	int fd = eventfd(0, 0);

	later((struct later){act_write, .fd = fd});
	return read(fd, &v, 8);
}

CALL(call_read_timerfd)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec t = {{0, 0}, *limit()};
	uint64_t v;

	timerfd_settime(fd, 0, &t, NULL);
	return read(fd, &v, 8) == 8 ? (long)v : -1;
}

CALL(call_read_inotify)
{
	char name[] = "/tmp/iprobe-table-XXXXXX", buffer[512];
	int file = mkstemp(name), fd = inotify_init1(0);
	long n;

	inotify_add_watch(fd, name, IN_MODIFY);
	later((struct later){act_write, .fd = file});
	n = read(fd, buffer, sizeof(buffer));
	unlink(name);
	return n > 0;
}

CALL(call_read_signalfd)
{
	struct signalfd_siginfo info;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	fd = signalfd(-1, &set, 0);
	later((struct later){act_signal, .id = SIGRTMIN + 3, .thread = pthread_self()});
	return read(fd, &info, sizeof(info)) == sizeof(info);
}

CALL(call_read_terminal)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), fd;
	char c[8];

	if (master < 0 || grantpt(master) || unlockpt(master))
		return -2;
	fd = open(ptsname(master), O_RDWR | O_NOCTTY);
	later((struct later){act_write, .fd = master});
	usleep(1000);
	/* a line is not complete without its end */
	if (write(master, "12\n", 3) != 3 || read(fd, c, 8) != 3)
		return -3;
	return poll(&(struct pollfd){fd, POLLIN, 0}, 1, seconds * 1000);
}

CALL(call_open_fifo)
{
	char name[] = "/tmp/iprobe-table-XXXXXX";
	int fd = mkstemp(name);

	unlink(name);
	if (fd < 0 || mkfifo(name, 0600))
		return -2;
	later((struct later){act_open, .pointer = name});
	fd = open(name, O_RDONLY);
	unlink(name);
	return fd >= 0;
}

CALL(call_nanosleep)
{
	return nanosleep(limit(), NULL);
}

CALL(call_clock_nanosleep)
{
	struct timespec t = until(CLOCK_MONOTONIC);
	int ret = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);

	errno = ret;
	return ret ? -1 : 0;
}

CALL(call_usleep)
{
	return usleep(seconds * 1e6);
}

CALL(call_poll)
{
	struct pollfd p = {.fd = -1};

	return poll(&p, 1, seconds * 1000);
}

CALL(call_ppoll)
{
	struct timespec t = *limit();

	return ppoll(NULL, 0, &t, NULL);
}

CALL(call_ppoll_constant)
{
	return syscall(SYS_ppoll, NULL, 0, limit(), NULL, 8);
}

CALL(call_select)
{
	struct timeval t = interval();

	return select(0, NULL, NULL, NULL, &t);
}

CALL(call_select_constant)
{
	struct timeval *t = (void *)limit();

	mprotect(t, 4096, PROT_READ | PROT_WRITE);
	*t = interval();
	mprotect(t, 4096, PROT_READ);
	return syscall(SYS_select, 0, NULL, NULL, NULL, t);
}

CALL(call_pselect_constant)
{
	return syscall(SYS_pselect6, 0, NULL, NULL, NULL, limit(), NULL);
}

CALL(call_futex)
{
	static uint32_t word;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, limit(), NULL, 0);
}

CALL(call_futex_endless)
{
	static int word;

	later((struct later){act_wake, .pointer = &word});
	if (syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0) == 0)
		return 0;
	/* what wakes it may come while it is stopped: the call begins again, as after any SIGCONT,
	 * and sees the other word */
	return errno == EAGAIN && __atomic_load_n(&word, __ATOMIC_RELAXED) ? 0 : -1;
}

CALL(call_sem_timedwait)
{
	struct timespec t = until(CLOCK_REALTIME);
	sem_t s;

	sem_init(&s, 0, 0);
	return sem_timedwait(&s, &t);
}

CALL(call_cond_timedwait)
{
	struct timespec t = until(CLOCK_REALTIME);
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&mutex);
	errno = pthread_cond_timedwait(&cond, &mutex, &t);
	return errno ? -1 : 0;
}

HIDDEN static void *nap(void *arg)
{
	usleep(seconds * 1e6);
	return arg;
}

CALL(call_join)
{
	pthread_t thread;

	pthread_create(&thread, NULL, nap, NULL);
	return pthread_join(thread, NULL);
}

CALL(call_mq_timedreceive)
{
	struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 8};
	struct timespec t = until(CLOCK_REALTIME);
	char name[64], buffer[8];
	mqd_t q;

	snprintf(name, sizeof(name), "/iprobe-table-%d", getpid());
	q = mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
	mq_unlink(name);
	return q < 0 ? -2 : mq_timedreceive(q, buffer, 8, NULL, &t);
}

CALL(call_msgrcv)
{
	struct {
		long type;
		char text[8];
	} m;
	int id = msgget(IPC_PRIVATE, 0600), error;
	long ret;

	later((struct later){act_message, .id = id});
	ret = msgrcv(id, &m, sizeof(m.text), 0, 0);
	error = errno;
	msgctl(id, IPC_RMID, NULL);
	errno = error;
	return ret;
}

CALL(call_pause)
{
	later((struct later){act_signal, .id = SIGUSR2, .thread = pthread_self()});
	return pause();
}

CALL(call_sigsuspend)
{
	sigset_t set;

	sigemptyset(&set);
	later((struct later){act_signal, .id = SIGUSR2, .thread = pthread_self()});
	return sigsuspend(&set);
}

CALL(call_wait4)
{
	struct timespec t = *limit();
	pid_t child = fork();
	int status;

	if (!child) {
		nanosleep(&t, NULL);
		_exit(7);
	}
	return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}

CALL(call_waitid)
{
	struct timespec t = *limit();
	pid_t child = fork();
	siginfo_t info;

	if (!child) {
		nanosleep(&t, NULL);
		_exit(8);
	}
	return waitid(P_PID, child, &info, WEXITED) ? -1 : info.si_status;
}

HIDDEN static long lock(int how)
{
	char name[] = "/tmp/iprobe-table-XXXXXX";
	int fd = mkstemp(name), other = open(name, O_RDWR);
	struct flock all = {.l_type = F_WRLCK};

	unlink(name);
	if (how)
		fcntl(other, F_OFD_SETLK, &all);
	else
		flock(other, LOCK_EX);
	later((struct later){act_close, .fd = other});
	return how ? fcntl(fd, F_OFD_SETLKW, &all) : flock(fd, LOCK_EX);
}

CALL(call_flock)
{
	return lock(0);
}

CALL(call_fcntl)
{
	return lock(1);
}

/* Handlers that never come back, and cancellation: out of the middle of a call. */
static __thread sigjmp_buf out;

HIDDEN static void jump_out(int number)
{
	siglongjmp(out, number);
}

CALL(call_jump)
{
	struct sigaction action = {.sa_handler = jump_out};
	struct epoll_event e;

	sigaction(SIGRTMIN + 4, &action, NULL);
	later((struct later){act_signal, .id = SIGRTMIN + 4, .thread = pthread_self()});
	if (sigsetjmp(out, 1))
		return 1;
	return epoll_wait(epoll_create1(0), &e, 1, 100000);
}

HIDDEN static void note(void *arg)
{
	*(int *)arg += 1;
}

HIDDEN static void *wait_for_cancellation(void *arg)
{
	struct epoll_event e;

	pthread_cleanup_push(note, arg);
	epoll_wait(epoll_create1(0), &e, 1, 100000);
	pthread_cleanup_pop(0);
	return NULL;
}

CALL(call_cancel)
{
	pthread_t thread;
	int noted = 0;
	void *ret;

	pthread_create(&thread, NULL, wait_for_cancellation, &noted);
	usleep(seconds * 1e6);
	pthread_cancel(thread);
	pthread_join(thread, &ret);
	return ret == PTHREAD_CANCELED ? noted : -2;
}

/* The registers of the caller, in the middle of a function: in a loop, as the compiler may keep
 * them there. */
CALL(call_registers)
{
#ifdef __x86_64__
	struct epoll_event e[4];
	uint64_t after[7];
	const long fd = epoll_create1(0), milliseconds = 0x7700000000 + (long)(seconds * 1000);
	const uint64_t before[6] = {fd, (uintptr_t)e, 4, milliseconds, 0x1234567, 0x89abcdef};
	register uint64_t rax __asm__("rax") = SYS_epoll_wait;
	register uint64_t rdi __asm__("rdi") = before[0];
	register uint64_t rsi __asm__("rsi") = before[1];
	register uint64_t rdx __asm__("rdx") = before[2];
	register uint64_t r10 __asm__("r10") = before[3];
	register uint64_t r8 __asm__("r8") = before[4];
	register uint64_t r9 __asm__("r9") = before[5];

	__asm__ volatile("stc\n\tsyscall\n\tsetc %%cl\n\tmovzbl %%cl, %%ecx"
			 : "+r"(rax), "+r"(rdi), "+r"(rsi), "+r"(rdx), "+r"(r10), "+r"(r8),
			   "+r"(r9), "=&c"(after[6])
			 :
			 : "r11", "memory", "cc");
	after[0] = rdi, after[1] = rsi, after[2] = rdx, after[3] = r10, after[4] = r8,
	after[5] = r9;
	return rax				       ? (long)rax
	       : memcmp(before, after, sizeof(before)) ? -3
	       : after[6] == 1			       ? 1
						       : -4;
#else
	usleep(seconds * 1e6);
	return 1;
#endif
}

/* Timers whose signals go to this thread: expirations, those included that came while a signal was
 * still pending. */
static __thread volatile long expirations, in_order;

HIDDEN static void expired(int number, siginfo_t *info, void *context)
{
	expirations += 1 + info->si_overrun;
}

HIDDEN static void start_timer(clockid_t clock, long ns)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 5};
	struct itimerspec t = {{0, ns}, {0, ns}};
	struct sigaction action = {.sa_sigaction = expired, .sa_flags = SA_SIGINFO | SA_RESTART};
	timer_t timer;

	event._sigev_un._tid = syscall(SYS_gettid);
	sigaction(SIGRTMIN + 5, &action, NULL);
	if (timer_create(clock, &event, &timer) || timer_settime(timer, 0, &t, NULL))
		abort();
}

HIDDEN static void sleep_until(struct timespec t)
{
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

CALL(call_timer)
{
	struct timespec t = until(CLOCK_MONOTONIC);
	double began = now();
	long expected;

	start_timer(CLOCK_MONOTONIC, 5000000);
	sleep_until(t);
	expected = (now() - began) / 0.005;
	return labs(expected - expirations) <= 3 ? 1 : expected - expirations;
}

/* A profiler's: counts the thread's own time. */
CALL(call_cpu_timer)
{
	struct timespec t = until(CLOCK_MONOTONIC), used = {0};
	long expected;

	start_timer(CLOCK_THREAD_CPUTIME_ID, 10000000);
	while (used.tv_sec == 0 && used.tv_nsec < 150000000)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	expected = used.tv_nsec / 10000000;
	sleep_until(t);
	return labs(expected - expirations) <= 3 ? 1 : expected - expirations;
}

HIDDEN static void arrived(int number, siginfo_t *info, void *context)
{
	in_order += info->si_value.sival_int == expirations;
	expirations++;
}

HIDDEN static void *send_numbers(void *arg)
{
	struct later *l = arg;

	for (int i = 0; i < l->id; i++) {
		pthread_sigqueue(l->thread, SIGRTMIN + 6, (union sigval){.sival_int = i});
		usleep(seconds * 1e6 * 0.8 / l->id);
	}
	return NULL;
}

CALL(call_queued_signals)
{
	struct sigaction action = {.sa_sigaction = arrived, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct timespec t = until(CLOCK_MONOTONIC);
	struct later l = {.id = 200, .thread = pthread_self()};
	pthread_t thread;

	sigaction(SIGRTMIN + 6, &action, NULL);
	pthread_create(&thread, NULL, send_numbers, &l);
	sleep_until(t);
	pthread_join(thread, NULL);
	return expirations == 200 && in_order == 200 ? 1 : expirations;
}

#define ENTRY(name)                                                                                \
	{                                                                                          \
#name, call_##name, 0, 0, 0, 0                                                     \
	}

static struct row {
	const char *name;
	long (*call)(void);
	pthread_t thread;
	pid_t tid;
	long result;
	volatile int done;
} rows[] = {
	ENTRY(epoll_wait),
	ENTRY(epoll_pwait),
	ENTRY(epoll_pwait2),
	ENTRY(epoll_endless),
	ENTRY(epoll_event),
	ENTRY(semtimedop),
	ENTRY(semop),
	ENTRY(sigtimedwait),
	ENTRY(sigwaitinfo),
	ENTRY(io_getevents),
	ENTRY(io_pgetevents),
	ENTRY(recv),
	ENTRY(recv_datagram),
	ENTRY(read_socket),
	ENTRY(recvmsg),
	ENTRY(recv_data),
	ENTRY(accept),
	ENTRY(accept_connection),
	ENTRY(accept_endless),
	ENTRY(connect),
	ENTRY(send),
	ENTRY(send_limit),
	ENTRY(send_endless),
	ENTRY(write_socket),
	ENTRY(write_pipe),
	ENTRY(recv_all),
	ENTRY(recv_all_limit),
	ENTRY(read_pipe),
	ENTRY(read_end),
	ENTRY(read_eventfd),
	ENTRY(read_timerfd),
	ENTRY(read_inotify),
	ENTRY(read_signalfd),
	ENTRY(read_terminal),
	ENTRY(open_fifo),
	ENTRY(nanosleep),
	ENTRY(clock_nanosleep),
	ENTRY(usleep),
	ENTRY(poll),
	ENTRY(ppoll),
	ENTRY(ppoll_constant),
	ENTRY(select),
	ENTRY(select_constant),
	ENTRY(pselect_constant),
	ENTRY(futex),
	ENTRY(futex_endless),
	ENTRY(sem_timedwait),
	ENTRY(cond_timedwait),
	ENTRY(join),
	ENTRY(mq_timedreceive),
	ENTRY(msgrcv),
	ENTRY(pause),
	ENTRY(sigsuspend),
	ENTRY(wait4),
	ENTRY(waitid),
	ENTRY(flock),
	ENTRY(fcntl),
	ENTRY(jump),
	ENTRY(cancel),
	ENTRY(registers),
	ENTRY(io_uring),
	ENTRY(timer),
	ENTRY(cpu_timer),
	ENTRY(queued_signals),
};
#define NROWS (sizeof(rows) / sizeof(*rows))

static pthread_barrier_t barrier;
static volatile sig_atomic_t handled[65];

HIDDEN static void handler(int number)
{
	__atomic_fetch_add(&handled[number], 1, __ATOMIC_RELAXED);
}

HIDDEN static void *row_thread(void *arg)
{
	struct row *row = arg;
	double began;

	row->tid = syscall(SYS_gettid);
	pthread_barrier_wait(&barrier);
	began = now();
	errno = 0;
	row->result = row->call();
	row->done = 1;
	printf("%s %ld %s %.0f\n", row->name, row->result,
	       row->result == -1 ? strerrorname_np(errno) : "-", (now() - began) * 1e3);
	fflush(stdout);
	return NULL;
}

HIDDEN static void *ticker(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	for (;;) {
		tick();
		usleep(2000);
	}
	return arg;
}

/* Sends the signals that stdin asks for. */
HIDDEN static void *sender(void *arg)
{
	char how[16], name[32];

	while (scanf("%15s %31s", how, name) == 2)
		for (size_t i = 0; i < NROWS; i++)
			if (!strcmp(rows[i].name, name) && rows[i].tid && !rows[i].done)
				syscall(SYS_tgkill, getpid(), rows[i].tid,
					!strcmp(how, "restart") ? SIGUSR1 : SIGUSR2);
	return arg;
}

HIDDEN static int is_asked_for(const char *name, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc <= 2;
}

HIDDEN int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	unsigned n = 0;
	pthread_t thread;
	sigset_t set;

	if (argc > 1)
		seconds = atof(argv[1]);
	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags = 0;
	sigaction(SIGUSR2, &action, NULL);
	sigemptyset(&set);
	for (int i = 1; i <= 3; i++)
		sigaddset(&set, SIGRTMIN + i);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; i < NROWS; i++)
		n += is_asked_for(rows[i].name, argc, argv);
	pthread_barrier_init(&barrier, NULL, n + 1);
	for (size_t i = 0; i < NROWS; i++)
		if (is_asked_for(rows[i].name, argc, argv) &&
		    pthread_create(&rows[i].thread, NULL, row_thread, &rows[i]))
			return 1;
	pthread_create(&thread, NULL, ticker, NULL);
	pthread_create(&thread, NULL, sender, NULL);
	puts("ready");
	fflush(stdout);
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < NROWS; i++)
		if (rows[i].thread)
			pthread_join(rows[i].thread, NULL);
	printf("handled %d %d\n", (int)handled[SIGUSR1], (int)handled[SIGUSR2]);
	return 0;
}
