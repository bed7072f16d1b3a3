/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines are read by a child process. See cmdline_reader.h.
 */
#include "iprobed/rules/cmdline_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/now.h"

#define CMDLINE_MAX 4096
#define TIMEOUT_NS  2000000000ull
#define SOCKET_FD   0 /* the child's only descriptor */
#define LATE	    (-2)

/* Runs in the child. text: the place after the answer's first byte. Returns the number of bytes
 * read. */
static ssize_t read_cmdline(pid_t pid, char *text, size_t size)
{
	ssize_t n = 0, all = 0;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (size_t)all < size && (n = read(fd, text + all, size - all)) > 0)
		all += n;
	if (fd >= 0)
		close(fd);
	return all;
}

static _Noreturn void serve(int fd, pid_t parent)
{
	char text[1 + CMDLINE_MAX] = "";
	pid_t pid;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
	    dup2(fd, SOCKET_FD) < 0 || syscall(SYS_close_range, SOCKET_FD + 1, ~0u, 0) < 0)
		_exit(1);
	prctl(PR_SET_NAME, "iprobed-reader");
	while (recv(SOCKET_FD, &pid, sizeof(pid), 0) == sizeof(pid)) {
		ssize_t n = read_cmdline(pid, text + 1, CMDLINE_MAX);

		if (send(SOCKET_FD, text, 1 + n, MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

static void reap_lost(struct ip_rules_reader *r)
{
	for (size_t i = 0; i < r->nlost;)
		if (waitpid(r->lost[i], NULL, WNOHANG) != 0)
			r->lost[i] = r->lost[--r->nlost];
		else
			i++;
}

static int begin(struct ip_rules_reader *r)
{
	pid_t parent = getpid();
	int ends[2];

	reap_lost(r);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return ip_error_errno("cannot make a pair of sockets");
	fflush(NULL);
	r->pid = fork();
	if (r->pid == 0)
		serve(ends[1], parent);
	close(ends[1]);
	if (r->pid > 0) {
		r->fd = ends[0];
		return 0;
	}
	r->pid = 0;
	close(ends[0]);
	return ip_error_errno("cannot start the process that reads command lines");
}

/* Kills the child. If it hangs, it may take some time to end. */
static void give_up(struct ip_rules_reader *r)
{
	if (!r->pid)
		return;
	close(r->fd);
	kill(r->pid, SIGKILL);
	if (waitpid(r->pid, NULL, WNOHANG) == 0 &&
	    ip_array_grow(&r->lost, r->nlost, sizeof(*r->lost)) == 0)
		r->lost[r->nlost++] = r->pid;
	r->pid = 0;
}

void ip_rules_reader_close(struct ip_rules_reader *r)
{
	give_up(r);
	reap_lost(r);
	free(ip_steal_ptr(r->lost));
	r->nlost = 0;
}

/* Returns the size of the answer; LATE; or 0 or less: the child has gone. */
static ssize_t ask(const struct ip_rules_reader *r, pid_t pid, char *buffer, size_t size)
{
	uint64_t limit = ip_now_ns() + TIMEOUT_NS, now;

	if (send(r->fd, &pid, sizeof(pid), MSG_NOSIGNAL) < 0)
		return -1;
	while ((now = ip_now_ns()) < limit) {
		struct pollfd p = {.fd = r->fd, .events = POLLIN};

		if (poll(&p, 1, (limit - now) / 1000000 + 1) > 0)
			return recv(r->fd, buffer, size, 0);
	}
	return LATE;
}

int ip_rules_cmdline_read(struct ip_rules_reader *r, struct ip_rules_process *p)
{
	char text[1 + CMDLINE_MAX];
	ssize_t n = 0;

	if (p->cmdline)
		return 0;
	/* A child that another process has killed is replaced once. */
	for (int i = 0; i < 2 && n <= 0 && n != LATE; i++) {
		if (!r->pid && begin(r) < 0)
			return -1;
		n = ask(r, p->pid, text, sizeof(text));
		if (n <= 0)
			give_up(r);
	}
	if (n <= 0)
		return ip_error("pid %d: its command line cannot be read in time", p->pid);
	for (ssize_t i = 1; i < n; i++)
		if (!text[i])
			text[i] = ' ';
	while (n > 1 && text[n - 1] == ' ')
		n--;
	p->cmdline = strndup(text + 1, n - 1);
	return p->cmdline ? 0 : ip_error("out of memory");
}
