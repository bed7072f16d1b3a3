/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed's own process: the loop. See iprobed.h.
 */
#include "hotpatcher/iprobed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/grow.h"
#include "hotpatcher/front.h"
#include "hotpatcher/iprobed_internal.h"
#include "hotpatcher/notify.h"
#include "hotpatcher/stop.h"

#define PATIENCE_NS 20000000000ull /* with workers, when we end */

static void say(const struct ip_iprobed_session *s, const char *word, const char *what)
{
	char text[4096];
	int n = snprintf(text, sizeof(text), "%s %s\n", word, what);

	if (s->socket >= 0)
		send(s->socket, text, n < (int)sizeof(text) ? n : (int)sizeof(text) - 1,
		     MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The last word has been said. */
static void hang_up(struct ip_iprobed *d, struct ip_iprobed_session *s)
{
	const struct ip_front_packet p = {.what = IP_FRONT_DONE, .id = s->connection};

	if (s->socket < 0)
		return;
	close(s->socket);
	s->socket = -1;
	send(d->front, &p, sizeof(p), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void free_session(struct ip_iprobed_session *s)
{
	if (s->socket >= 0)
		close(s->socket);
	if (s->target >= 0)
		close(s->target);
	ip_peer_clear(&s->who);
	ip_request_clear(&s->request);
	ip_iprobed_clear_entry(&s->entry);
	free(s);
}

static void remove_session(struct ip_iprobed *d, size_t i)
{
	hang_up(d, d->sessions[i]);
	free_session(d->sessions[i]);
	/* the table has only ever grown one by one (grow.h): the last element's place is not given back */
	d->sessions[i] = d->sessions[--d->nsessions];
}

static int add_session(struct ip_iprobed *d, struct ip_iprobed_session *s)
{
	void *grown = reallocarray(d->sessions, d->nsessions + 1, sizeof(*d->sessions));

	if (!grown)
		return ip_error("out of memory");
	d->sessions = grown;
	d->sessions[d->nsessions++] = s;
	s->number = ++d->last_number;
	s->since = ip_now_ns();
	return 0;
}

static int start_worker(struct ip_iprobed *d, struct ip_iprobed_session *s, const int fds[3])
{
	const struct ip_worker w = {.who = &s->who,
				    .request = &s->request,
				    .entry = s->member ? &s->entry : NULL,
				    .target = s->target,
				    .directory = fds[0],
				    .out = fds[1],
				    .err = fds[2],
				    .program = d->program};

	s->worker = ip_worker_start(&w);
	return s->worker < 0 ? -1 : 0;
}

/* Puts back what a worker that was killed has left live. */
static int clean_up(struct ip_iprobed *d, struct ip_iprobed_session *s)
{
	const int ours[3] = {-1, -1, -1};

	for (size_t i = 0; i < s->request.noptions; i++)
		free(s->request.options[i]);
	s->request.noptions = 0;
	s->request.what = IP_REQUEST_DETACH;
	s->cleaning = true;
	return start_worker(d, s, ours);
}

static void clean_left_over(struct ip_iprobed *d, struct ip_iprobed_session *s)
{
	if (add_session(d, s) < 0) {
		free_session(s);
		return;
	}
	if (clean_up(d, s) == 0) {
		ip_iprobed_log(s, "an iprobed before this one has left it: what is live is put back");
		return;
	}
	ip_iprobed_log(s, "%s", ip_error_message());
	remove_session(d, d->nsessions - 1);
}

static int check_limits(const struct ip_iprobed *d, const struct ip_iprobed_session *s)
{
	unsigned same = 0;

	if (d->ending)
		return ip_error("iprobed is ending");
	for (size_t i = 0; i < d->nsessions; i++)
		same += d->sessions[i]->who.facts.ids.ruid == s->who.facts.ids.ruid;
	if (same >= d->options->sessions_per_user)
		return ip_error("uid %u has %u sessions by iprobed: end one", s->who.facts.ids.ruid, same);
	return d->nsessions < d->options->sessions
		       ? 0
		       : ip_error("iprobed has %zu sessions: try again later", d->nsessions);
}

/* The options, for the log. */
static void tell_start(const struct ip_iprobed_session *s)
{
	char text[2048] = "";
	size_t n = 0;

	for (size_t i = 0; i < s->request.noptions && n < sizeof(text) - 1; i++)
		n += snprintf(text + n, sizeof(text) - n, " %s", s->request.options[i]);
	ip_iprobed_log(s, "allowed%s, worker %d%s%s", s->member ? " by the policy" : "", s->worker,
		       *text ? ", with" : "", text);
}

static int begin(struct ip_iprobed *d, struct ip_iprobed_session *s, const char *text, size_t size,
		 const int *fds, size_t nfds)
{
	int all[3] = {-1, -1, -1};
	struct statx st;

	if (ip_request_parse(text, size, &s->request) < 0)
		return -1;
	/* the front has looked at that; but it may be somebody else's by now */
	if (nfds != 1 + ip_request_fds(s->request.what))
		return ip_error("request: not the descriptors that it needs");
	memcpy(all + (s->request.what == IP_REQUEST_ATTACH ? 0 : 1), fds + 1, (nfds - 1) * sizeof(*fds));
	/* without asking its file system, which may be one that does not answer */
	if (all[0] >= 0 && (statx(all[0], "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0 ||
			    !S_ISDIR(st.stx_mode)))
		return ip_error("request: its first descriptor is no directory");
	if (ip_facts_check_connection(s->socket, &d->address, d->address_size) < 0 ||
	    ip_iprobed_decide(d, s->socket, s) < 0 || check_limits(d, s) < 0 || ip_iprobed_note(d, s) < 0)
		return -1;
	if (start_worker(d, s, all) < 0) {
		ip_iprobed_forget(d, s);
		return -1;
	}
	return 0;
}

static void take_request(struct ip_iprobed *d, uint32_t id, const char *text, size_t size, int *fds,
			 size_t nfds)
{
	struct ip_iprobed_session *s = calloc(1, sizeof(*s));
	char number[16];

	if (!s || !nfds)
		goto out;
	*s = (struct ip_iprobed_session){
		.socket = fcntl(fds[0], F_DUPFD_CLOEXEC, 0), .target = -1, .who.pidfd = -1, .connection = id};
	if (begin(d, s, text, size, fds, nfds) < 0) {
		ip_iprobed_log(s, "refused: %s", ip_error_message());
		say(s, "refused", ip_error_message());
		hang_up(d, s);
		free_session(s);
	} else if (add_session(d, s) < 0) {
		kill(s->worker, SIGTERM); /* it is reaped without a session */
		hang_up(d, s);
		free_session(s);
	} else {
		snprintf(number, sizeof(number), "%u", s->number);
		say(s, "started", number);
		tell_start(s);
	}
out:
	if (!s || !nfds)
		free(s);
	for (size_t i = 0; i < nfds; i++)
		close(fds[i]);
}

static void end_session(struct ip_iprobed_session *s)
{
	/* not reaped yet, so the number is the worker's */
	kill(s->worker, SIGTERM);
}

static void serve_front(struct ip_iprobed *d)
{
	static struct {
		struct ip_front_packet head;
		char text[IP_REQUEST_SIZE_MAX + 1];
	} packet;
	int fds[1 + IP_REQUEST_FDS], flags = 0;
	size_t nfds;
	ssize_t n = ip_receive_with_fds(d->front, &packet, sizeof(packet), fds, 1 + IP_REQUEST_FDS, &nfds,
					&flags);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < (ssize_t)sizeof(packet.head)) {
		if (!d->ending) {
			ip_iprobed_log(NULL,
				       "the process for the socket has ended: sessions end, and so do we");
			d->front_ended = true;
		}
		d->ending = true;
		return;
	}
	if (packet.head.what == IP_FRONT_REQUEST) {
		take_request(d, packet.head.id, packet.text, n - sizeof(packet.head), fds, nfds);
		return;
	}
	for (size_t i = 0; i < nfds; i++)
		close(fds[i]);
	for (size_t i = 0; i < d->nsessions; i++) {
		struct ip_iprobed_session *s = d->sessions[i];

		if (s->socket < 0 || s->connection != packet.head.id)
			continue;
		if (packet.head.what == IP_FRONT_GONE) {
			close(s->socket);
			s->socket = -1;
		}
		if (packet.head.what == IP_FRONT_STOP || !s->request.leave)
			end_session(s);
	}
}

static void worker_ended(struct ip_iprobed *d, size_t i, int status)
{
	struct ip_iprobed_session *s = d->sessions[i];
	double seconds = (ip_now_ns() - s->since) / 1e9;
	char number[16];

	if (WIFEXITED(status)) {
		ip_iprobed_log(s, "ended with code %d after %.1f s", WEXITSTATUS(status), seconds);
		snprintf(number, sizeof(number), "%d", WEXITSTATUS(status));
		if (!s->cleaning)
			say(s, "ended", number);
	} else {
		ip_iprobed_log(s, "its worker was killed by signal %d after %.1f s", WTERMSIG(status),
			       seconds);
		snprintf(number, sizeof(number), "%d", WTERMSIG(status));
		if (!s->cleaning)
			say(s, "killed", number);
		hang_up(d, s);
		if (!s->cleaning && ip_pidfd_lives(s->target)) {
			if (clean_up(d, s) == 0)
				return;
			ip_iprobed_log(s, "what is live is not put back: %s", ip_error_message());
		}
	}
	ip_iprobed_forget(d, s);
	remove_session(d, i);
}

/* Who asked can send signals to his worker, and with SIGSTOP it would keep a target stopped that is another's, if it comes in a stop. The
 * kernel lets the target go when the worker is killed. */
static void worker_stopped(const struct ip_iprobed_session *s)
{
	ip_iprobed_log(s, "its worker was stopped, and might hold the process: it is killed");
	kill(s->worker, SIGKILL);
}

static void reap(struct ip_iprobed *d)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
		for (size_t i = 0; i < d->nsessions; i++)
			if (d->sessions[i]->worker == pid) {
				if (WIFSTOPPED(status))
					worker_stopped(d->sessions[i]);
				else
					worker_ended(d, i, status);
				break;
			}
}

/* Whether somebody listens there. */
static bool is_taken(const struct sockaddr_un *address)
{
	_cleanup_close_ int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return probe >= 0 && connect(probe, (const struct sockaddr *)address, sizeof(*address)) == 0;
}

static int listen_at(const char *path)
{
	const struct timespec nap = {.tv_nsec = 100000000};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	mode_t before;
	int done;

	if (strlen(path) >= sizeof(address.sun_path))
		return ip_error("%s: too long for the name of a socket (at most %zu bytes)", path,
				sizeof(address.sun_path) - 1);
	strcpy(address.sun_path, path);
	/* the front of one that was just killed goes a moment after it */
	for (int i = 0; i < 30 && is_taken(&address); i++)
		nanosleep(&nap, NULL);
	if (is_taken(&address))
		return ip_error("%s: another iprobed listens there already", path);
	unlink(path); /* of one that was killed; of a file that is no socket connect() says ECONNREFUSED, too, but it is our directory */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	before = umask(0111);
	done = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof(address));
	umask(before);
	if (done < 0 || listen(fd, 64) < 0)
		return ip_error_errno("cannot listen at %s", path);
	return ip_steal_fd(&fd);
}

static int open_state(const char *path)
{
	struct stat st;
	int fd;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return ip_error_errno("cannot make %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return ip_error_errno("cannot open %s", path);
	if (fstat(fd, &st) == 0 && (st.st_uid && st.st_uid != geteuid() ? true : (st.st_mode & 022) != 0)) {
		close(fd);
		return ip_error("%s can be written by others: chown it, chmod go-w", path);
	}
	return fd;
}

static int open_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd >= 0 ? fd : ip_error_errno("signalfd");
}

static void end_all(struct ip_iprobed *d)
{
	ip_notify("STOPPING=1");
	d->ending = true;
	for (size_t i = 0; i < d->nsessions; i++)
		if (!d->sessions[i]->cleaning)
			end_session(d->sessions[i]);
}

static void loop(struct ip_iprobed *d, int signals)
{
	uint64_t limit = 0;

	while (!d->ending || (d->nsessions && ip_now_ns() < limit)) {
		struct pollfd polled[] = {{.fd = signals, .events = POLLIN},
					  {.fd = limit ? -1 : d->front, .events = POLLIN}};
		struct signalfd_siginfo signal;

		poll(polled, 2, d->ending ? 100 : -1);
		while (read(signals, &signal, sizeof(signal)) == sizeof(signal))
			if (signal.ssi_signo == SIGTERM || signal.ssi_signo == SIGINT)
				d->ending = true;
		reap(d);
		if (polled[1].revents)
			serve_front(d);
		if (d->ending && !limit) {
			limit = ip_now_ns() + PATIENCE_NS;
			end_all(d);
		}
	}
}

static int open_all(struct ip_iprobed *d)
{
	_cleanup_close_ int listening = ip_notify_listening();

	if (listening == -2 || (d->state = open_state(d->options->state)) < 0)
		return -1;
	d->program = open(d->options->program, O_PATH | O_CLOEXEC);
	if (d->program < 0)
		return ip_error_errno("cannot open %s", d->options->program);
	if (listening < 0 && (listening = listen_at(d->options->socket)) < 0)
		return -1;
	if (fcntl(listening, F_SETFL, fcntl(listening, F_GETFL) | O_NONBLOCK) < 0 || ip_worker_limit() < 0)
		return -1;
	d->address_size = sizeof(d->address);
	if (getsockname(listening, (struct sockaddr *)&d->address, &d->address_size) < 0)
		return ip_error_errno("cannot see the name of the socket");
	d->front_pid = ip_front_start(listening, &d->front);
	return d->front_pid < 0 ? -1 : 0;
}

int ip_iprobed_run(const struct ip_iprobed_options *options)
{
	struct ip_iprobed d = {.options = options, .program = -1, .front = -1, .state = -1};
	_cleanup_close_ int signals = -1;

	prctl(PR_SET_DUMPABLE, 0); /* nobody looks into us: of one user, others of it would */
	if (open_all(&d) < 0 || (signals = open_signals()) < 0)
		return -1;
	ip_iprobed_left_over(&d, clean_left_over);
	ip_iprobed_log(NULL, "serves");
	ip_notify("READY=1");
	loop(&d, signals);
	ip_iprobed_log(NULL, "ends%s", d.nsessions ? "; workers are left to end by themselves" : "");
	close(d.front); /* the other process ends by that */
	waitpid(d.front_pid, NULL, 0);
	while (d.nsessions)
		remove_session(&d, 0);
	free(d.sessions);
	close(d.program);
	close(d.state);
	return d.front_ended ? ip_error("the process for the socket has ended: start iprobed again") : 0;
}
