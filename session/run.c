/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe run: records from the first instruction.
 *
 *   1. We make the area and fork. The child waits until its pid stands in the area. Then it execs
 *      the command, with the runtime preloaded and with IPROBE_AREA naming our memfd.
 *   2. The runtime's constructor, which is the first of all constructors, maps the area, increments
 *      `ready`, and waits.
 *   3. We go live as in any attach, and set `go`.
 *   4. If the command execs another program, the constructor in that program increments `ready`
 *      again: we drain what the old image has left, and go live in the new one.
 *   5. When the command has ended, we drain the rest.
 *
 * A static program has the runtime in it, and this runtime looks for IPROBE_AREA, too. A child that
 * never becomes ready has no runtime, or does not accept LD_PRELOAD (setuid).
 *
 * The runtime is the one for the command's own machine. A loader prints a line about each library
 * for another machine that it is told to preload, so LD_PRELOAD cannot name both. A 64-bit shell
 * that starts 32-bit programs is therefore not followed into them.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/controllers/stream_log.h"
#include "session/run_command.h"
#include "session/session_private.h"

#define RETRY_NS 1000000000ull /* between tries to go idle, after the first has failed */

struct launch {
	struct ip_session *s;
	pid_t pid;
	bool ended, killed; /* killed: by us, so that it has ended */
	int status;
	uint32_t released; /* how many images were let go */
	bool saw_image;
};

/* Signals that ask us to end are meant for the command: the command decides, and we record until it
 * ends. */
static volatile pid_t launched;

static void pass_on(int signal_number)
{
	if (launched > 0)
		kill(launched, signal_number);
}

static const struct {
	int number;
	void (*handler)(int);
} our_signals[] = {
	/* the terminal sends these to the command as well */
	{SIGINT, SIG_IGN}, {SIGQUIT, SIG_IGN}, {SIGTERM, pass_on},
	{SIGHUP, pass_on}, {SIGPIPE, SIG_IGN}, {SIGXFSZ, SIG_IGN}, /* memfds count as files */
};

#define NSIGNALS (sizeof(our_signals) / sizeof(*our_signals))

static struct sigaction inherited[NSIGNALS];

static void take_signals(void)
{
	for (size_t i = 0; i < NSIGNALS; i++) {
		const struct sigaction action = {.sa_handler = our_signals[i].handler,
						 .sa_flags = SA_RESTART};

		sigaction(our_signals[i].number, &action, &inherited[i]);
	}
}

/* Gives the command the signal handling that we were given: what nohup ignores stays ignored. */
static void restore_signals(void)
{
	for (size_t i = 0; i < NSIGNALS; i++)
		sigaction(our_signals[i].number, &inherited[i], NULL);
}

/* Called in the child. Never returns. report_fd: where to report an exec that failed. */
static void exec_command(char **argv, const char *ours, int area_fd, int wait_fd, int report_fd)
{
	const char *before = getenv("LD_PRELOAD");
	_cleanup_free_ char *preload = NULL, *area = NULL;
	int error;
	char c;

	restore_signals();
	if (read(wait_fd, &c, 1) != 1)
		_exit(127);
	if (asprintf(&preload, "%s%s%s", ours, before && *before ? ":" : "", before ? before : "") <
		    0 ||
	    asprintf(&area, "/proc/%d/fd/%d", getppid(), area_fd) < 0)
		_exit(127);
	setenv("LD_PRELOAD", preload, 1);
	setenv(IP_ENV_AREA, area, 1);
	execvp(argv[0], argv);
	error = errno;
	if (write(report_fd, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

static int launch(struct launch *l, char **argv, const char *preload)
{
	int wait_pipe[2], report_pipe[2], error = 0;
	ssize_t n;

	if (pipe2(wait_pipe, O_CLOEXEC) < 0)
		return ip_error_errno("cannot make a pipe");
	if (pipe2(report_pipe, O_CLOEXEC) < 0) {
		close(wait_pipe[0]);
		close(wait_pipe[1]);
		return ip_error_errno("cannot make a pipe");
	}
	fflush(NULL);
	l->pid = fork();
	if (l->pid == 0) {
		close(wait_pipe[1]);
		exec_command(argv, preload, l->s->area->fd, wait_pipe[0], report_pipe[1]);
	}
	close(wait_pipe[0]);
	close(report_pipe[1]);
	if (l->pid > 0) {
		launched = l->pid;
		l->s->area->header->run_pid = l->pid;
		l->s->area->header->owner_pid = getpid();
		l->s->area->header->inherit = l->s->options->follow_fork;
		if (write(wait_pipe[1], "", 1) != 1)
			kill(l->pid, SIGKILL);
	}
	close(wait_pipe[1]);
	n = l->pid > 0 ? read(report_pipe[0], &error, sizeof(error)) : 0;
	close(report_pipe[0]);
	if (l->pid < 0)
		return ip_error_errno("cannot fork");
	if (n == sizeof(error)) {
		waitpid(l->pid, NULL, 0);
		return ip_error("cannot run %s: %s", argv[0], strerror(error));
	}
	return 0;
}

/* Notes whether the command has ended; a stop may have reaped it already. */
static bool has_ended(struct launch *l)
{
	int status;

	if (l->ended)
		return true;
	if (l->s->target && l->s->target->exited) {
		l->status = l->s->target->exit_status;
		l->ended = true;
	} else if (waitpid(l->pid, &status, WNOHANG) == l->pid) {
		if (WIFSTOPPED(status)) {
			/* still our tracee: a stop had to leave it behind */
			ip_stop_detach(l->pid, status >> 16 ? 0 : WSTOPSIG(status));
			return false;
		}
		l->status = status;
		l->ended = true;
		if (l->s->target)
			l->s->target->exited = true;
	}
	if (l->ended)
		launched = 0;
	return l->ended;
}

/* Whether an image waits in its constructor. */
static bool is_waiting(const struct launch *l)
{
	return __atomic_load_n(&l->s->area->header->ready, __ATOMIC_SEQ_CST) != l->released;
}

static void let_go(struct launch *l)
{
	struct ip_area_header *h = l->s->area->header;

	l->released = h->ready;
	__atomic_store_n(&h->go, l->released, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &h->go, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wait_a_little(struct launch *l)
{
	struct ip_area_header *h = l->s->area->header;
	const struct timespec tick = {.tv_nsec = 2000000};

	syscall(SYS_futex, &h->ready, FUTEX_WAIT, l->released, &tick, NULL, 0);
}

/* Whether the process could still execute another program: one of its files imports an exec or
 * spawn function. A shell, env, or the interpreter of a wrapper script does. */
static bool may_exec(const struct ip_modules *modules)
{
	static const char *const names[] = {"execve", "execv",	"execvp",  "execvpe", "execl",
					    "execlp", "execle", "fexecve", "execveat"};

	for (size_t i = 0; i < modules->n; i++) {
		GElf_Shdr shdr;
		const void *strings;
		size_t size;

		if (!modules->items[i].elf || modules->items[i].runtime ||
		    strstr(modules->items[i].path, "/libc.so") ||
		    strstr(modules->items[i].path, "/libc-") ||
		    strstr(modules->items[i].path, "/ld-"))
			continue;
		if (ip_elf_section(modules->items[i].elf, ".dynstr", &shdr, &strings, &size,
				   NULL) <= 0)
			continue;
		for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++)
			if (memmem(strings, size, names[k], strlen(names[k]) + 1))
				return true;
	}
	return false;
}

/* Step 3 (and 4) for the image that waits. 0: it is live; 1: it has no probes, and was let go; -1
 * with an error. An image without probes is an error if none was live before, and if it cannot
 * exec. */
static int take_image(struct launch *l)
{
	struct ip_session *s = l->s;
	int ret;

	if (!s->target) {
		if (ip_session_open(s, l->pid) < 0)
			return -1;
	} else {
		/* exec: the threads of the old image are gone */
		if (s->collector && ip_collector_flush(s->collector) < 0) {
			s->write_failed = true;
			return -1;
		}
		if (ip_target_refresh(s->target) < 0)
			return -1;
		if (s->trace)
			ip_trace_add_exec(s->trace, l->pid);
	}
	ip_area_forget_stubs(s->area);
	s->live = false;
	ret = ip_session_go_live(s, true);
	if (ret == 1 && !l->saw_image) {
		struct ip_modules modules;
		bool hopeless;

		if (ip_modules_load(s->target, &modules) < 0)
			return -1;
		hopeless = !may_exec(&modules);
		if (hopeless)
			ip_modules_no_probes(s->target, &modules);
		ip_modules_clear(&modules);
		if (hopeless)
			return -1;
	}
	l->saw_image |= ret == 0;
	/* before its first event: it may be over before we have a CPU again */
	if (ret >= 0 && s->summary->recorded && !s->shown_ns) {
		s->live_tsc = ip_trace_add_live(s->trace);
		s->start_ns = ip_now_ns();
	}
	if (ret >= 0)
		let_go(l);
	return ret;
}

/* Waits until the command ends by itself, after the recording has ended. An image that the command
 * executes meanwhile is let go as it is. */
static void wait_for_end(struct launch *l)
{
	uint64_t tried = ip_now_ns();

	while (!has_ended(l)) {
		if (l->s->target)
			ip_stop_let_go(l->s->target);
		if (l->s->live && ip_now_ns() - tried > RETRY_NS) {
			ip_session_go_idle(l->s);
			tried = ip_now_ns();
		}
		if (is_waiting(l)) {
			l->s->live = false; /* another program */
			let_go(l);
		} else {
			wait_a_little(l);
		}
	}
}

/* Ends a command that has not executed its own code yet. */
static int give_up(struct launch *l)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	if (!has_ended(l)) {
		kill(l->pid, SIGKILL);
		while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
			;
		l->ended = l->killed = true;
	}
	return ip_error("%s", why ? why : "out of memory");
}

static void say_nothing_was_there(const struct launch *l)
{
	const struct ip_session_options *o = l->s->options;

	if (!l->saw_image && !l->s->target)
		ip_error("pid %d never loaded iprobe's runtime: it is statically linked, setuid, "
			 "or clears LD_PRELOAD",
			 l->pid);
	else
		ip_error("pid %d: no program that it executed was built with iprobe-cc%s", l->pid,
			 o->controller	  ? "; what it forks is not counted (sh -c 'exec PROG' is)"
			 : o->follow_fork ? ""
					  : "; what it forks is recorded with --follow-fork only");
}

/* The loop. IP_END_NONE: nothing was recorded, and the error tells why. */
static enum ip_end_reason record(struct launch *l)
{
	struct ip_session *s = l->s;

	for (;;) {
		enum ip_end_reason reason;

		if (has_ended(l)) {
			/* The session's step tells whether to end: it goes on for followed
			 * children. */
			if (s->collector)
				goto turn;
			say_nothing_was_there(l);
			return IP_END_NONE;
		}
		if (is_waiting(l)) {
			if (take_image(l) < 0)
				return s->write_failed ? IP_END_WRITE_FAILED : IP_END_NONE;
			s->shown_ns = s->start_ns;
			ip_end_time_start(s);
		}
		if (!s->collector) {
			wait_a_little(l);
			continue;
		}
	turn:
		reason = ip_session_step(s);
		/* this loop itself detects the end of the command, and a look at a dying image is
		 * no end */
		if (reason && (l->ended || reason != IP_END_TARGET_ENDED))
			return reason;
	}
}

/* Appends the user's object to what is preloaded, after the runtime. If the loader cannot load the
 * object, it prints a line and goes on; we look for the object then. */
static int add_object(char **preload, const char *object)
{
	char *both;

	if (!object)
		return 0;
	if (asprintf(&both, "%s:%s", *preload, object) < 0)
		return ip_error("out of memory");
	free(*preload);
	*preload = both;
	return 0;
}

int ip_session_run(char **argv, const char *runtime, const struct ip_session_options *options,
		   struct ip_session_summary *ret, struct ip_command_end *ret_command)
{
	struct ip_session s = {
		.options = options, .summary = ret, .start_ns = ip_now_ns(), .launched = true};
	struct launch l = {.s = &s};
	_cleanup_free_ char *preload = NULL;
	enum ip_end_reason reason;
	int done = -1;

	*ret = (struct ip_session_summary){0};
	*ret_command = (struct ip_command_end){0};
	ip_session_choose_clock(options);
	ip_clock_read(&s.start);
	ip_priority_guard_start();
	take_signals();
	if (ip_session_select(&s) < 0 || ip_session_add_stream_log(&s) < 0 ||
	    ip_command_prepare(argv[0], runtime, &preload) < 0 ||
	    add_object(&preload, options->payloads.object) < 0 ||
	    ip_area_create(options->memory, &s.area) < 0 || ip_area_lock_session(s.area, 0) < 0 ||
	    launch(&l, argv, preload) < 0)
		goto out;
	ret->pid = l.pid;
	reason = record(&l);
	if (!reason && !ret->recorded) {
		give_up(&l);
		ip_session_finish(&s, IP_END_NOT_RECORDED);
		goto out;
	}
	done = reason && !s.write_failed ? 0 : -1;
	if (done == 0) {
		/* If sites cannot be put back now, wait_for_end() goes on trying. They end with the
		 * process in any case. */
		ip_session_go_idle(&s);
		ip_session_tell_unused(&s); /* now, since libraries may have been loaded late */
		if (s.write_failed || ip_session_finish(&s, reason) < 0)
			done = -1;
	} else {
		_cleanup_free_ char *why = strdup(ip_error_message());

		ip_session_go_idle(&s);
		ip_session_finish(&s, reason ? reason : IP_END_FAILED);
		ip_error("%s", why ? why : "out of memory");
	}
	/* as long as the command goes on, its area has the session */
	if (s.area->header->session)
		ip_area_set_written(s.area);
	if (!l.ended) {
		_cleanup_free_ char *why = done < 0 ? strdup(ip_error_message()) : NULL;

		wait_for_end(&l);
		if (why)
			ip_error("%s", why);
	}
out:
	/* an image that we have not let go waits; what has no runtime in it runs at once */
	*ret_command = (struct ip_command_end){.started = l.released || (l.ended && !l.killed),
					       .ended = l.ended && !l.killed,
					       .status = l.status};
	ip_session_clear(&s);
	ip_priority_guard_stop();
	return done;
}
