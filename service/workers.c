/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts workers, listens to them, and ends them. See workers.h.
 */
#include "service/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#define OUTPUT_MAX (64 << 20)

enum word { LIVE, PROGRESS, LET_GO };

struct report {
	enum word word;
	bool follows; /* LIVE */
	pid_t pid;    /* LET_GO */
	struct ip_service_worker_progress progress;
};

/* The caller of this worker may be slow: what does not fit is left out, the next one tells more. */
static void say(int socket, const struct report *report)
{
	send(socket, report, sizeof(*report), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ip_service_worker_say_live(int socket, bool follows)
{
	const struct report report = {.word = LIVE, .follows = follows};

	say(socket, &report);
}

void ip_service_worker_say_progress(int socket, const struct ip_service_worker_progress *progress)
{
	const struct report report = {.word = PROGRESS, .progress = *progress};

	say(socket, &report);
}

void ip_service_worker_say_let_go(int socket, pid_t pid)
{
	const struct report report = {.word = LET_GO, .pid = pid};

	say(socket, &report);
}

/* Step 2: the worker's side. parent: the process that has started it. */
static _Noreturn void run(struct ip_service_worker *w, pid_t parent, ip_service_worker_work work,
			  void *context)
{
	static char line[65536];
	int code;

	/* lines of several workers must not mix */
	setvbuf(stderr, line, _IOLBF, sizeof(line));
	prctl(PR_SET_PDEATHSIG, SIGINT);
	if (getppid() != parent || dup2(w->out, STDOUT_FILENO) < 0)
		_exit(1);
	code = work(context, w->target, w->socket, w->result);
	fflush(stdout);
	fflush(stderr);
	_exit(code);
}

/* Workers are waited for: a signal that whoever started us ignores would have the kernel take their
 * exit codes away. */
static void take_children_back(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	sigaction(SIGCHLD, &action, NULL);
}

int ip_service_worker_start(struct ip_service_worker *worker, pid_t target,
			    ip_service_worker_work work, void *context)
{
	_cleanup_close_ int out = -1, ours = -1, theirs = -1;
	const pid_t parent = getpid();
	int pair[2];
	pid_t pid;

	*worker = (struct ip_service_worker){.target = target, .socket = -1, .out = -1};
	ip_descriptor_limit_raise();
	out = memfd_create("iprobe-worker", MFD_CLOEXEC);
	if (out < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ip_error_errno("cannot start a worker for pid %d", target);
	ours = pair[0];
	theirs = pair[1];
	worker->result = mmap(NULL, sizeof(*worker->result), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (worker->result == MAP_FAILED) {
		worker->result = NULL;
		return ip_error_errno("cannot start a worker for pid %d", target);
	}
	/* what is buffered here must not be written twice */
	fflush(stdout);
	fflush(stderr);
	take_children_back();
	pid = fork();
	if (pid < 0) {
		ip_error_errno("cannot start a worker for pid %d", target);
		ip_service_worker_clear(worker);
		return -1;
	}
	if (!pid) {
		worker->socket = theirs;
		worker->out = out;
		close(ours);
		run(worker, parent, work, context);
	}
	worker->pid = pid;
	worker->socket = ip_steal_fd(&ours);
	worker->out = ip_steal_fd(&out);
	return 0;
}

static void listen_to(struct ip_service_worker *w)
{
	struct report report;

	while (recv(w->socket, &report, sizeof(report), MSG_DONTWAIT) == sizeof(report)) {
		w->live |= report.word == LIVE;
		w->follows |= report.word == LIVE && report.follows;
		if (report.word == PROGRESS)
			w->progress = report.progress;
		/* without memory the next look for processes finds it */
		if (report.word == LET_GO &&
		    ip_array_grow(&w->let_go, w->nlet_go, sizeof(*w->let_go)) == 0)
			w->let_go[w->nlet_go++] = report.pid;
	}
}

/* Returns whether the worker has ended. */
static bool has_ended(struct ip_service_worker *w)
{
	int status;
	pid_t pid = waitpid(w->pid, &status, WNOHANG);

	if (pid == 0 || (pid < 0 && errno == EINTR))
		return false;
	listen_to(w);
	w->pid = 0;
	/* how it has ended is not known where it is no child of ours any more: the worst is taken
	 */
	w->code = pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return true;
}

int ip_service_workers_poll(struct ip_service_worker *const *workers, size_t n, int timeout_ms)
{
	_cleanup_free_ struct pollfd *fds = calloc(n + 1, sizeof(*fds));
	int ended = 0;

	if (!fds)
		return ip_error("out of memory");
	/* the other end is closed when a worker ends: no signal is needed */
	for (size_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){.fd = workers[i]->pid ? workers[i]->socket : -1,
					 .events = POLLIN};
	poll(fds, n, timeout_ms);
	for (size_t i = 0; i < n; i++) {
		if (!workers[i]->pid)
			continue;
		listen_to(workers[i]);
		ended += has_ended(workers[i]);
	}
	return ended;
}

void ip_service_worker_stop(const struct ip_service_worker *worker)
{
	/* it has not been waited for: the pid is its own */
	if (worker->pid)
		kill(worker->pid, SIGINT);
}

char *ip_service_worker_output(const struct ip_service_worker *worker)
{
	struct stat st;
	char *text;

	if (fstat(worker->out, &st) < 0 || st.st_size > OUTPUT_MAX) {
		ip_error("pid %d: its worker's result cannot be read", worker->target);
		return NULL;
	}
	text = calloc(1, st.st_size + 1);
	if (!text || pread(worker->out, text, st.st_size, 0) != st.st_size) {
		free(text);
		ip_error("pid %d: its worker's result cannot be read", worker->target);
		return NULL;
	}
	return text;
}

void ip_service_worker_release(struct ip_service_worker *worker)
{
	if (worker->socket >= 0)
		close(worker->socket);
	if (worker->out >= 0)
		close(worker->out);
	if (worker->result)
		munmap(worker->result, sizeof(*worker->result));
	worker->socket = worker->out = -1;
	worker->result = NULL;
}

void ip_service_worker_clear(struct ip_service_worker *worker)
{
	ip_service_worker_release(worker);
	free(worker->let_go);
	*worker = (struct ip_service_worker){.socket = -1, .out = -1};
}
