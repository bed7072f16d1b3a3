/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits once in the system call that is named, until a child of its own makes the call return: a
 * target of a first attach.
 *
 *   blocked CALL
 *
 * Says "ready" first. The child makes the call return as soon as a line, or the end, comes on
 * stdin. The last line is "good" if the call returned what it does without a tracer, if the handler
 * of SIGUSR1 ran as often and under the mask that it should, and if the signal mask is as before;
 * else what was wrong. `blocked list` names all calls, one a line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))
#define LONG 600 /* seconds: no limit of a call may be over before it is made to return */

static int pipes[2], sockets[2], listening, poller, semaphores, messages;
static volatile sig_atomic_t handled;
static sigset_t in_handler, none, usual;
static pid_t parent;
static uint32_t *word; /* shared with the child */
static aio_context_t aio;
static struct iocb request;
static struct sockaddr_un name = {.sun_family = AF_UNIX};

KEEP static void on_signal(int number)
{
	handled += number == SIGUSR1;
	sigprocmask(SIG_SETMASK, NULL, &in_handler);
}

static void send_signal(void)
{
	kill(parent, SIGUSR1);
}

static void write_pipe(void)
{
	(void)!write(pipes[1], "x", 1);
}

static void write_socket(void)
{
	(void)!write(sockets[1], "x", 1);
}

static void connect_to(void)
{
	connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, sizeof(name));
}

static void raise_semaphore(void)
{
	struct sembuf up = {.sem_op = 1};

	semop(semaphores, &up, 1);
}

static void send_message(void)
{
	struct {
		long type;
		char text;
	} message = {1, 'x'};

	msgsnd(messages, &message, 1, 0);
}

static void wake_word(void)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void end(void)
{
	_exit(7);
}

static int empty_pipe(void)
{
	char c;

	return read(pipes[0], &c, 1) == 1;
}

static int is_one(long got)
{
	return got == 1;
}

static int is_zero(long got)
{
	return got == 0;
}

static int is_signal(long got)
{
	return got == SIGUSR1;
}

static int is_interrupted(long got)
{
	return got == -1 && errno == EINTR && handled == 1;
}

static int is_any(long got)
{
	return got >= 0;
}

static long do_pause(void)
{
	return pause();
}

static long do_sigsuspend(void)
{
	return sigsuspend(&none);
}

static long do_sigwaitinfo(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigwaitinfo(&set, NULL);
}

static long do_sigtimedwait(void)
{
	const struct timespec limit = {LONG, 0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigtimedwait(&set, NULL, &limit);
}

static long do_poll(void)
{
	struct pollfd p = {pipes[0], POLLIN, 0};

	return poll(&p, 1, -1);
}

static long do_poll_limit(void)
{
	struct pollfd p = {pipes[0], POLLIN, 0};

	return poll(&p, 1, LONG * 1000);
}

static long do_ppoll(void)
{
	struct pollfd p = {pipes[0], POLLIN, 0};

	return ppoll(&p, 1, NULL, NULL);
}

static long do_ppoll_mask(void)
{
	const struct timespec limit = {LONG, 0};
	struct pollfd p = {pipes[0], POLLIN, 0};

	return ppoll(&p, 1, &limit, &none);
}

static long do_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	return select(pipes[0] + 1, &set, NULL, NULL, NULL);
}

static long do_pselect(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	return pselect(pipes[0] + 1, &set, NULL, NULL, NULL, NULL);
}

static long do_pselect_mask(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	return pselect(pipes[0] + 1, &set, NULL, NULL, NULL, &none);
}

static long do_epoll_wait(void)
{
	struct epoll_event e;

	return epoll_wait(poller, &e, 1, -1);
}

static long do_epoll_wait_limit(void)
{
	struct epoll_event e;

	return epoll_wait(poller, &e, 1, LONG * 1000);
}

static long do_epoll_pwait_mask(void)
{
	struct epoll_event e;

	return epoll_pwait(poller, &e, 1, -1, &none);
}

static long do_futex(void)
{
	while (!__atomic_load_n(word, __ATOMIC_ACQUIRE))
		if (syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0) < 0 && errno != EAGAIN)
			return -1;
	return 0;
}

static long do_nanosleep(void)
{
	struct timespec limit = {LONG, 0}, left;
	int ret = nanosleep(&limit, &left);
	int error = errno;

	if (ret < 0 && left.tv_sec < LONG / 2)
		return 0;
	errno = error;
	return ret;
}

static long do_read_pipe(void)
{
	char c;

	return read(pipes[0], &c, 1);
}

static long do_read_socket(void)
{
	char c;

	return read(sockets[0], &c, 1);
}

static long do_recv(void)
{
	char c;

	return recv(sockets[0], &c, 1, 0);
}

static long do_recv_limit(void)
{
	const struct timeval limit = {LONG, 0};
	char c;

	if (setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		return -1;
	return recv(sockets[0], &c, 1, 0);
}

static long do_recvmsg(void)
{
	char c;
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	return recvmsg(sockets[0], &m, 0);
}

static long do_accept(void)
{
	return accept(listening, NULL, NULL);
}

static long do_wait(void)
{
	int status = 0;

	return waitpid(-1, &status, 0) > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int is_seven(long got)
{
	return got == 7;
}

static long do_semop(void)
{
	struct sembuf down = {.sem_op = -1};

	return semop(semaphores, &down, 1);
}

static long do_semtimedop(void)
{
	const struct timespec limit = {LONG, 0};
	struct sembuf down = {.sem_op = -1};

	return semtimedop(semaphores, &down, 1, &limit);
}

static long do_msgrcv(void)
{
	struct {
		long type;
		char text;
	} message;

	return msgrcv(messages, &message, 1, 0, 0);
}

static long do_flock(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);

	return flock(fd, LOCK_EX);
}

static long do_io_getevents(void)
{
	struct io_event e;

	return syscall(SYS_io_getevents, aio, 1, 1, &e, NULL);
}

static long do_io_getevents_limit(void)
{
	struct timespec limit = {LONG, 0};
	struct io_event e;

	return syscall(SYS_io_getevents, aio, 1, 1, &e, &limit);
}

static const struct call {
	const char *name;
	long (*wait)(void);
	void (*wake)(void);
	int (*is_good)(long got);
	/* SIGUSR1 is blocked but for the call */
	int masked;
} calls[] = {
	{"rt_sigsuspend", do_sigsuspend, send_signal, is_interrupted, 1},
	{"sigwaitinfo", do_sigwaitinfo, send_signal, is_signal, 1},
	{"sigtimedwait", do_sigtimedwait, send_signal, is_signal, 1},
	{"pause", do_pause, send_signal, is_interrupted, 0},
	{"nanosleep", do_nanosleep, send_signal, is_interrupted, 0},
	{"poll", do_poll, write_pipe, is_one, 0},
	{"poll_limit", do_poll_limit, write_pipe, is_one, 0},
	{"ppoll", do_ppoll, write_pipe, is_one, 0},
	{"ppoll_mask", do_ppoll_mask, send_signal, is_interrupted, 1},
	{"select", do_select, write_pipe, is_one, 0},
	{"pselect", do_pselect, write_pipe, is_one, 0},
	{"pselect_mask", do_pselect_mask, send_signal, is_interrupted, 1},
	{"epoll_wait", do_epoll_wait, write_pipe, is_one, 0},
	{"epoll_wait_limit", do_epoll_wait_limit, write_pipe, is_one, 0},
	{"epoll_pwait_mask", do_epoll_pwait_mask, send_signal, is_interrupted, 1},
	{"futex", do_futex, wake_word, is_zero, 0},
	{"read_pipe", do_read_pipe, write_pipe, is_one, 0},
	{"read_socket", do_read_socket, write_socket, is_one, 0},
	{"recv", do_recv, write_socket, is_one, 0},
	{"recv_limit", do_recv_limit, write_socket, is_one, 0},
	{"recvmsg", do_recvmsg, write_socket, is_one, 0},
	{"accept", do_accept, connect_to, is_any, 0},
	{"waitpid", do_wait, end, is_seven, 0},
	{"semop", do_semop, raise_semaphore, is_zero, 0},
	{"semtimedop", do_semtimedop, raise_semaphore, is_zero, 0},
	{"msgrcv", do_msgrcv, send_message, is_one, 0},
	{"flock", do_flock, end, is_zero, 0},
	{"io_getevents", do_io_getevents, write_pipe, is_one, 0},
	{"io_getevents_limit", do_io_getevents_limit, write_pipe, is_one, 0},
};

static int prepare(const char *how)
{
	struct iocb *requests = &request;
	struct epoll_event e = {.events = EPOLLIN};

	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	messages = msgget(IPC_PRIVATE, 0600);
	listening = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "iprobe-test-%d", getpid());
	poller = epoll_create1(0);
	if (word == MAP_FAILED || semaphores < 0 || messages < 0 || pipe(pipes) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || listening < 0 || poller < 0 ||
	    bind(listening, (void *)&name, sizeof(name)) || listen(listening, 1) ||
	    epoll_ctl(poller, EPOLL_CTL_ADD, pipes[0], &e))
		return -1;
	if (strncmp(how, "io_getevents", strlen("io_getevents")))
		return 0;
	request.aio_fildes = pipes[0];
	request.aio_lio_opcode = IOCB_CMD_POLL;
	request.aio_buf = POLLIN;
	return syscall(SYS_io_setup, 1, &aio) || syscall(SYS_io_submit, aio, 1, &requests) != 1;
}

/* The child: makes the call of its parent return when it is told to. */
static void serve(const struct call *c)
{
	int fd = strcmp(c->name, "flock") ? -1 : open("/proc/self/exe", O_RDONLY);
	char byte;

	if (fd >= 0)
		flock(fd, LOCK_EX);
	__atomic_store_n(word + 1, 1, __ATOMIC_RELEASE);
	(void)!read(0, &byte, 1);
	c->wake();
	_exit(0);
}

static int run(const struct call *c)
{
	const struct timespec nap = {0, 1000000};
	sigset_t after, expected;
	long got;
	int error;

	sigemptyset(&none);
	signal(SIGUSR1, on_signal);
	sigemptyset(&usual);
	sigaddset(&usual, SIGHUP);
	if (c->masked)
		sigaddset(&usual, SIGUSR1);
	sigprocmask(SIG_SETMASK, &usual, NULL);
	parent = getpid();
	if (prepare(c->name)) {
		puts("cannot prepare");
		return 1;
	}
	if (fork() == 0)
		serve(c);
	while (!__atomic_load_n(word + 1, __ATOMIC_ACQUIRE))
		nanosleep(&nap, NULL);
	puts("ready");
	fflush(stdout);
	errno = 0;
	got = c->wait();
	error = errno;
	sigprocmask(SIG_SETMASK, NULL, &after);
	semctl(semaphores, 0, IPC_RMID);
	msgctl(messages, IPC_RMID, NULL);
	errno = error;
	if (!c->is_good(got)) {
		printf("%s: returned %ld, errno %d, %d signals\n", c->name, got, error, handled);
		return 1;
	}
	expected = c->masked ? none : usual;
	sigaddset(&expected, SIGUSR1);
	if (memcmp(&after, &usual, 8) || (handled && memcmp(&in_handler, &expected, 8))) {
		printf("%s: mask %lx, in the handler %lx\n", c->name, *(unsigned long *)&after,
		       *(unsigned long *)&in_handler);
		return 1;
	}
	if (c->wake == write_pipe && got == 1 && strcmp(c->name, "read_pipe") && !empty_pipe())
		return 1;
	puts("good");
	return 0;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (argc > 1 && !strcmp(argv[1], "list"))
			puts(calls[i].name);
		else if (argc > 1 && !strcmp(argv[1], calls[i].name))
			return run(&calls[i]);
	return argc > 1 && !strcmp(argv[1], "list") ? 0 : 2;
}
