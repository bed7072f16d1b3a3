/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed's own process: the loop. See daemon.h.
 */
#include "iprobed/daemon.h"

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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/now.h"
#include "common/units.h"
#include "iprobed/daemon_private.h"
#include "iprobed/receiver.h"
#include "iprobed/rules/rules.h"
#include "iprobed/systemd.h"

#define TIMEOUT_NS 20000000000ull /* for workers to end when iprobed ends */
#define RULES_NS   10000000000ull

static void free_session(struct ip_iprobed_session *s)
{
	if (s->target >= 0)
		close(s->target);
	if (s->report >= 0)
		close(s->report);
	ip_worker_log_free(s->words);
	ip_peer_clear(&s->who);
	ip_request_clear(&s->request);
	ip_iprobed_clear_entry(&s->entry);
	free(s);
}

static void remove_session(struct ip_iprobed *d, size_t i)
{
	free_session(d->sessions[i]);
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

/* channel: the socket over which the worker's descriptors come. -1: it gets none. Where there is no
 * client, or it leaves, the worker's output goes to the log. */
static int start_worker(struct ip_iprobed *d, struct ip_iprobed_session *s, int channel)
{
	_cleanup_close_ int words = -1, report = -1, events = -1;
	struct ip_worker w = {.who = &s->who,
			      .request = &s->request,
			      .entry = s->member ? &s->entry : NULL,
			      .target = s->target,
			      .channel = channel,
			      .directory = -1,
			      .out = -1,
			      .err = -1,
			      .log = -1,
			      .events = -1,
			      .no_events = s->no_events,
			      .program =
				      s->request.what == IP_REQUEST_FPERF ? d->fperf : d->program};

	if (channel < 0 || s->request.leave) {
		ip_worker_log_free(s->words);
		s->words = ip_worker_log_new(IP_WORKER_LOG_LINES, &words);
		if (!s->words)
			return -1;
		if (channel < 0)
			w.out = w.err = words;
		else
			w.log = words;
	}
	if (ip_worker_report_open(s, &report) < 0)
		return -1;
	w.report = report;
	if (channel >= 0 && s->kernel_buffer && ip_iprobed_reader_start(d, s, &events) < 0)
		return -1;
	w.events = events;
	s->worker = ip_worker_start(&w);
	return s->worker < 0 ? -1 : 0;
}

/* Starts a worker for a client. What the client has sent goes directly to the worker, and not
 * through iprobed. */
static int start_worker_for(struct ip_iprobed *d, struct ip_iprobed_session *s,
			    struct ip_iprobed_connection *c)
{
	int pair[2], done;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ip_error_errno("cannot make a pair of sockets");
	done = start_worker(d, s, pair[0]);
	/* only the worker must have this end, before anything can be sent to it (receiver.h, step
	 * 3) */
	close(pair[0]);
	if (done == 0 && ip_iprobed_hand_on(c, pair[1]) < 0) {
		/* it has not begun, and will be reaped without a session */
		kill(s->worker, SIGKILL);
		done = ip_error("the client has gone");
	}
	close(pair[1]);
	return done;
}

/* The reader of kernel events is the session's worker, and sends them to the client itself. */
static int start_reader_for(struct ip_iprobed *d, struct ip_iprobed_session *s,
			    struct ip_iprobed_connection *c)
{
	_cleanup_close_ int events = -1;

	if (ip_iprobed_reader_start(d, s, &events) < 0)
		return -1;
	s->worker = s->reader;
	/* it ends by itself when its socket has no other end */
	return ip_iprobed_hand_over(c, events) < 0 ? ip_error("the client has gone") : 0;
}

/* Restores what a worker that was killed has left live. */
static int clean_up(struct ip_iprobed *d, struct ip_iprobed_session *s)
{
	for (size_t i = 0; i < s->request.noptions; i++)
		free(s->request.options[i]);
	s->request.noptions = 0;
	s->request.directory[0] = '\0';
	s->request.what = IP_REQUEST_DETACH;
	s->cleaning = true;
	return start_worker(d, s, -1);
}

static void clean_left_over(struct ip_iprobed *d, struct ip_iprobed_session *s)
{
	if (add_session(d, s) < 0) {
		free_session(s);
		return;
	}
	if (clean_up(d, s) == 0) {
		ip_iprobed_log(s,
			       "an iprobed before this one has left it: what is live is put back");
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
		return ip_error("uid %u has %u session%s by iprobed: end one",
				s->who.facts.ids.ruid, same, ip_plural(same));
	if (d->nsessions >= d->options->sessions)
		return ip_error("iprobed has %zu session%s: try again later", d->nsessions,
				ip_plural(d->nsessions));
	return ip_iprobed_check_memory(d, s);
}

/* Logs the session's start, with the options. */
static void tell_start(const struct ip_iprobed_session *s)
{
	char text[2048] = "", reader[48] = "";
	size_t n = 0;

	for (size_t i = 0; i < s->request.noptions && n < sizeof(text) - 1; i++)
		n += snprintf(text + n, sizeof(text) - n, " %s", s->request.options[i]);
	if (s->kernel_buffer)
		snprintf(reader, sizeof(reader), " and reader of kernel events %d", s->reader);
	if (s->request.what == IP_REQUEST_KERNEL) {
		ip_iprobed_log(s, "allowed%s%s", s->member ? " by the policy" : "", reader);
		return;
	}
	ip_iprobed_log(s, "allowed%s, worker %d%s%s%s%s%s", s->member ? " by the policy" : "",
		       s->worker, reader, *text ? ", with" : "", text,
		       *s->no_events ? ", without events of the kernel: " : "", s->no_events);
}

static int begin(struct ip_iprobed *d, struct ip_iprobed_session *s,
		 struct ip_iprobed_connection *c, const char *text, size_t size)
{
	/* The receiver has checked the text. But an attacker may have taken the receiver over. */
	if (ip_iprobed_who(c, &s->who) < 0 || ip_request_parse(text, size, &s->request) < 0 ||
	    (s->request.what == IP_REQUEST_FPERF && d->fperf < 0 &&
	     ip_error("there is no fperf beside iprobed") < 0) ||
	    ip_iprobed_decide(d, s) < 0 || ip_iprobed_decide_kernel(d, s) < 0 ||
	    check_limits(d, s) < 0 ||
	    (ip_request_changes(s->request.what) && ip_iprobed_note(d, s) < 0))
		return -1;
	if (s->request.what == IP_REQUEST_KERNEL)
		return s->kernel_buffer ? start_reader_for(d, s, c)
					: ip_error("request: kernel lacks the option --kernel");
	if (start_worker_for(d, s, c) < 0) {
		ip_iprobed_forget(d, s);
		return -1;
	}
	return 0;
}

void ip_iprobed_request(struct ip_iprobed *d, struct ip_iprobed_connection *c, const char *text,
			size_t size)
{
	struct ip_iprobed_session *s = calloc(1, sizeof(*s));
	char number[16];

	if (!s) {
		ip_iprobed_say(c, true, "refused", "iprobed is out of memory");
		return;
	}
	*s = (struct ip_iprobed_session){.target = -1, .report = -1, .who.pidfd = -1};
	if (begin(d, s, c, text, size) < 0) {
		ip_iprobed_log(s, "refused: %s", ip_error_message());
		ip_iprobed_say(c, true, "refused", ip_error_message());
		free_session(s);
	} else if (add_session(d, s) < 0) {
		kill(s->worker, SIGTERM); /* it will be reaped without a session */
		ip_iprobed_say(c, true, "refused", ip_error_message());
		free_session(s);
	} else {
		ip_iprobed_bind(c, s);
		snprintf(number, sizeof(number), "%u", s->number);
		ip_iprobed_say(c, false, "started", number);
		tell_start(s);
	}
}

void ip_iprobed_end_session(struct ip_iprobed_session *s)
{
	/* the worker has not been reaped, so the pid is its own */
	kill(s->worker, SIGTERM);
}

/* A session is over. A session that cleans up restores what all sessions have left. If it failed,
 * sessions of other users may do it (recovery.c). */
static void forget_session(struct ip_iprobed *d, size_t i, bool well)
{
	struct ip_iprobed_session *s = d->sessions[i];
	pid_t again = s->cleaning && !well && !d->ending ? s->request.pid : 0;

	if (s->cleaning && well)
		ip_iprobed_forget_all(d, s);
	else
		ip_iprobed_forget(d, s);
	remove_session(d, i);
	if (again)
		ip_iprobed_left_over(d, again, clean_left_over);
}

static void worker_ended(struct ip_iprobed *d, size_t i, int status)
{
	struct ip_iprobed_session *s = d->sessions[i];
	struct ip_iprobed_connection *connection = s->connection;
	double seconds = (ip_now_ns() - s->since) / 1e9;
	bool exited = WIFEXITED(status);
	int number = exited ? WEXITSTATUS(status) : WTERMSIG(status);
	const char *word;
	char text[sizeof(s->failure)];

	ip_worker_log_read(s);
	ip_worker_report_read(s);
	if (*s->failure)
		ip_iprobed_log(s, "%s", s->failure);
	if (exited)
		ip_iprobed_log(s, "ended with code %d after %.1f s", number, seconds);
	else
		ip_iprobed_log(s, "its worker was killed by signal %d after %.1f s", number,
			       seconds);
	/* This is said last: a client that reads it finds everything restored. */
	snprintf(text, sizeof(text), "%d", number);
	if (*s->failure)
		memcpy(text, s->failure, sizeof(text));
	word = *s->failure ? "failed" : exited ? "ended" : "killed";
	if (connection)
		ip_iprobed_bind(connection, NULL);
	s->connection = NULL;
	if (exited || s->cleaning || !ip_request_changes(s->request.what) ||
	    !ip_pidfd_lives(s->target)) {
		forget_session(d, i, exited && number == 0);
	} else if (clean_up(d, s) < 0) {
		ip_iprobed_log(s, "what is live is not put back: %s", ip_error_message());
		forget_session(d, i, false);
	}
	ip_iprobed_say(connection, true, word, text);
}

/* The requesting user can send signals to his worker. By a SIGSTOP that comes during a stop he
 * could keep another user's target stopped. When the worker is killed, the kernel lets the target
 * go. */
static void worker_stopped(const struct ip_iprobed_session *s)
{
	ip_iprobed_log(s, "its worker was stopped, and might hold the process: it is killed");
	kill(s->worker, SIGKILL);
}

static void start_rules(struct ip_iprobed *d)
{
	pid_t pid = d->options->rules && !d->ending ? ip_rules_start(d->options->rules) : 0;

	if (pid < 0)
		ip_iprobed_log(NULL, "%s", ip_error_message());
	d->rules = pid > 0 ? pid : 0;
	d->rules_since = ip_now_ns();
}

/* If there are no rules this process ends by itself. If it dies as soon as it has begun, it is not
 * started again before SIGHUP. */
static void rules_ended(struct ip_iprobed *d, int status)
{
	bool lived = ip_now_ns() - d->rules_since > RULES_NS;

	d->rules = 0;
	if (d->ending || (WIFEXITED(status) && !WEXITSTATUS(status)))
		return;
	ip_iprobed_log(NULL, "the process for rules has ended: %s",
		       lived ? "it is started again" : "SIGHUP starts it again");
	if (lived)
		start_rules(d);
}

static void signal_rules(struct ip_iprobed *d, int number)
{
	if (d->rules)
		kill(d->rules, number); /* it has not been reaped, so the pid is its own */
	else if (number == SIGHUP)
		start_rules(d);
}

static void reap(struct ip_iprobed *d)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (!WIFSTOPPED(status) &&
		    (ip_iprobed_reap_connection(d, pid) || ip_iprobed_reap_closing(d, pid)))
			continue;
		if (!WIFSTOPPED(status))
			ip_iprobed_reap_reader(d, pid, status); /* some are workers, too */
		if (pid == d->rules && !WIFSTOPPED(status)) {
			rules_ended(d, status);
			continue;
		}
		for (size_t i = 0; i < d->nsessions; i++)
			if (d->sessions[i]->worker == pid) {
				if (WIFSTOPPED(status))
					worker_stopped(d->sessions[i]);
				else
					worker_ended(d, i, status);
				break;
			}
	}
}

static int open_state(const char *path)
{
	int fd;

	if (ip_dir_check_way(path, 0755) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? ip_error_errno("cannot open %s", path) : fd;
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
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
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
	if (d->rules)
		signal_rules(d, SIGTERM);
	for (size_t i = 0; i < d->nsessions; i++)
		if (!d->sessions[i]->cleaning)
			ip_iprobed_end_session(d->sessions[i]);
}

/* Fills in what to wait for: two descriptors, the connections, and the output of workers. */
static nfds_t gather(struct ip_iprobed *d, int signals)
{
	size_t n = 2, room = 2 + d->nconnections + 2 * d->nsessions;
	struct pollfd *grown = reallocarray(d->polled, room, sizeof(*grown));

	if (!grown)
		return 0;
	d->polled = grown;
	grown[0] = (struct pollfd){.fd = signals, .events = POLLIN};
	grown[1] = (struct pollfd){.fd = !d->ending && ip_iprobed_can_accept(d) ? d->listening : -1,
				   .events = POLLIN};
	n += ip_iprobed_poll_connections(d, grown + n);
	for (size_t i = 0; i < d->nsessions; i++)
		grown[n++] = (struct pollfd){.fd = ip_worker_log_fd(d->sessions[i]->words),
					     .events = POLLIN};
	for (size_t i = 0; i < d->nsessions; i++)
		grown[n++] = (struct pollfd){.fd = d->sessions[i]->report, .events = POLLIN};
	return n;
}

/* Handles the result of poll(), before anything is removed from the tables. */
static void serve(struct ip_iprobed *d)
{
	size_t connections = d->nconnections, sessions = d->nsessions;

	for (size_t i = 0; i < sessions; i++)
		if (d->polled[2 + connections + i].revents)
			ip_worker_log_read(d->sessions[i]);
	for (size_t i = 0; i < sessions; i++)
		if (d->polled[2 + connections + sessions + i].revents)
			ip_worker_report_read(d->sessions[i]);
	ip_iprobed_serve_connections(d, d->polled + 2, connections);
	if (d->polled[1].revents)
		ip_iprobed_accept(d);
}

static void loop(struct ip_iprobed *d, int signals)
{
	uint64_t limit = 0;

	while (!d->ending || ((d->nsessions || d->nreaders || d->rules) && ip_now_ns() < limit)) {
		struct signalfd_siginfo signal;
		nfds_t n = gather(d, signals);

		if (poll(d->polled, n, d->ending || !n ? 100 : 1000) > 0)
			serve(d);
		while (read(signals, &signal, sizeof(signal)) == sizeof(signal))
			if (signal.ssi_signo == SIGTERM || signal.ssi_signo == SIGINT)
				d->ending = true;
			else if (signal.ssi_signo != SIGCHLD)
				signal_rules(d, signal.ssi_signo);
		reap(d);
		ip_iprobed_check_connections(d);
		ip_iprobed_close_turned_away(d, false);
		if (d->ending && !limit) {
			limit = ip_now_ns() + TIMEOUT_NS;
			end_all(d);
		}
	}
}

/* Makes sure that no file that iprobed opens becomes standard input, output or error. */
static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int open_all(struct ip_iprobed *d)
{
	d->listening = ip_notify_listening();
	if (d->listening == -2 || (d->state = open_state(d->options->state)) < 0)
		return -1;
	d->program = open(d->options->program, O_PATH | O_CLOEXEC);
	if (d->program < 0)
		return ip_error_errno("cannot open %s", d->options->program);
	d->fperf = d->options->fperf ? open(d->options->fperf, O_PATH | O_CLOEXEC) : -1;
	if (d->listening < 0 &&
	    (d->listening = ip_iprobed_listen(d->options->socket, &d->socket_file)) < 0)
		return -1;
	if (fcntl(d->listening, F_SETFL, fcntl(d->listening, F_GETFL) | O_NONBLOCK) < 0 ||
	    ip_worker_limit() < 0)
		return -1;
	return ip_iprobed_turned_away_init(d);
}

int ip_iprobed_run(const struct ip_iprobed_options *options)
{
	struct ip_iprobed d = {
		.options = options, .program = -1, .fperf = -1, .listening = -1, .state = -1};
	_cleanup_close_ int signals = -1;

	/* other processes must not inspect iprobed, not even those of its own user */
	prctl(PR_SET_DUMPABLE, 0);
	open_standard();
	/* Do this before any client can be served: a client may send a signal as soon as it is
	 * served. */
	if ((signals = open_signals()) < 0 || open_all(&d) < 0) {
		ip_iprobed_socket_remove(options->socket, &d.socket_file);
		return -1;
	}
	ip_iprobed_left_over(&d, 0, clean_left_over);
	ip_iprobed_reader_clean();
	start_rules(&d);
	ip_iprobed_check_connections(&d);
	ip_iprobed_log(NULL, "serves");
	ip_notify("READY=1");
	loop(&d, signals);
	ip_iprobed_log(NULL, "ends%s",
		       d.nsessions ? "; workers are left to end by themselves" : "");
	ip_iprobed_close_turned_away(&d, true);
	ip_iprobed_end_connections(&d);
	while (d.nsessions)
		remove_session(&d, 0);
	free(d.sessions);
	free(d.polled);
	free(d.turned_away);
	free(d.closing);
	free(d.readers);
	close(d.program);
	if (d.fperf >= 0)
		close(d.fperf);
	ip_iprobed_socket_remove(d.options->socket, &d.socket_file);
	close(d.listening);
	close(d.state);
	return 0;
}
