/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for the moment at which iprobe follow begins.
 */
#include "cli/follow/moment.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/now.h"
#include "common/print.h"
#include "common/proc.h"
#include "common/units.h"

#define LOOK_MS 100
/* How much of a CPU a process uses is told over this time. */
#define LOOKS 10

/* Those that neither end nor stop iprobe without fail. */
static const struct {
	const char *name;
	int number;
} signals[] = {
	{"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGHUP", SIGHUP},	    {"SIGALRM", SIGALRM},
	{"SIGCONT", SIGCONT}, {"SIGURG", SIGURG},   {"SIGWINCH", SIGWINCH},
};

static volatile sig_atomic_t came;

static void on_moment(int number)
{
	came = number;
}

static int choose(struct cli_moment *ret, enum cli_moment_kind kind)
{
	if (ret->kind != CLI_MOMENT_NONE)
		return ip_error("--after, --on-signal, --on-key and --at-cpu: one of them");
	ret->kind = kind;
	return 0;
}

int cli_moment_after(const char *text, struct cli_moment *ret)
{
	return choose(ret, CLI_MOMENT_AFTER) < 0 || ip_parse_duration(text, &ret->after_ns) < 0 ? -1
												: 0;
}

int cli_moment_signal(const char *text, struct cli_moment *ret)
{
	const char *name = strncasecmp(text, "SIG", 3) ? text : text + 3;

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!strcasecmp(name, signals[i].name + 3))
			ret->signal = signals[i].number;
	if (!ret->signal)
		return ip_error("--on-signal %s: one of USR1, USR2, HUP, ALRM, CONT, URG, WINCH",
				text);
	return choose(ret, CLI_MOMENT_SIGNAL);
}

int cli_moment_key(const char *text, struct cli_moment *ret)
{
	if (strlen(text) != 1)
		return ip_error("--on-key %s: one character", text);
	ret->key = *text;
	return choose(ret, CLI_MOMENT_KEY);
}

int cli_moment_cpu(const char *text, struct cli_moment *ret)
{
	char *end;
	const double percent = strtod(text, &end);

	if (*text < '0' || *text > '9' || (*end && strcmp(end, "%")) || !(percent > 0) ||
	    percent > 100000)
		return ip_error("--at-cpu %s: per cent of one CPU, such as 90%%", text);
	ret->cpu = percent / 100;
	return choose(ret, CLI_MOMENT_CPU);
}

static void tell(const struct cli_moment *m, pid_t pid)
{
	char after[24];

	ip_print(stderr, "iprobe: pid %d: nothing is changed yet; ", pid);
	switch (m->kind) {
	case CLI_MOMENT_AFTER:
		ip_print(stderr, "it begins in %s\n", ip_format_duration(m->after_ns, after));
		break;
	case CLI_MOMENT_SIGNAL:
		ip_print(stderr, "it begins at kill -%s %d\n", sigabbrev_np(m->signal), getpid());
		break;
	case CLI_MOMENT_KEY:
		ip_print(stderr, "it begins at the key %c\n", m->key);
		break;
	default:
		ip_print(stderr, "it begins when the process uses %g %% of a CPU\n", m->cpu * 100);
		break;
	}
}

int cli_moment_check(const struct cli_moment *m)
{
	return m->kind == CLI_MOMENT_KEY && !isatty(STDIN_FILENO)
		       ? ip_error("--on-key: stdin is no terminal")
		       : 0;
}

/* A terminal that gives each key at once, without showing it. Returns 0, or -1 with an error. */
static int begin_keys(struct termios *ret_before)
{
	struct termios now;

	if (tcgetattr(STDIN_FILENO, ret_before) < 0)
		return ip_error_errno("--on-key: cannot read single keys of the terminal");
	now = *ret_before;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	return tcsetattr(STDIN_FILENO, TCSANOW, &now) < 0
		       ? ip_error_errno("--on-key: cannot read single keys of the terminal")
		       : 0;
}

/* Whether the key was pressed; keys before it are taken. Waits for a look at most. */
static bool is_pressed(char key)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char c;

	if (poll(&p, 1, LOOK_MS) <= 0)
		return false;
	if (read(STDIN_FILENO, &c, 1) == 1)
		return c == key;
	/* a terminal that is gone: a signal tells so, and it is looked for no more often */
	poll(NULL, 0, LOOK_MS);
	return false;
}

/* What the process used of CPUs at the last looks. */
struct use {
	uint64_t ns[LOOKS], at[LOOKS];
	size_t looks;
};

static bool is_busy(struct use *u, pid_t pid, double share)
{
	const size_t i = u->looks % LOOKS;
	const uint64_t now = ip_now_ns();
	uint64_t used;
	bool busy;

	if (ip_proc_cpu_used(pid, &used) < 0)
		return false;
	busy = u->looks >= LOOKS && now > u->at[i] && used >= u->ns[i] &&
	       (double)(used - u->ns[i]) >= share * (double)(now - u->at[i]);
	u->ns[i] = used;
	u->at[i] = now;
	u->looks++;
	return busy;
}

/* Also a command of our own that nobody has waited for yet. */
static bool has_ended(pid_t pid, uint64_t started)
{
	siginfo_t info = {0};

	return ip_proc_started_at(pid) != started ||
	       (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid);
}

static int wait_for(const struct cli_moment *m, pid_t pid, uint64_t started)
{
	const uint64_t end = ip_now_ns() + m->after_ns;
	struct use use = {.looks = 0};

	for (;;) {
		uint64_t now = ip_now_ns(), rest = LOOK_MS * 1000000ull;

		if (came)
			return 1;
		if (ip_interrupted)
			return 0;
		if (has_ended(pid, started))
			return ip_error("pid %d: it has ended before the moment came", pid);
		if (m->kind == CLI_MOMENT_KEY) {
			if (is_pressed(m->key))
				return 1;
			continue;
		}
		if (m->kind == CLI_MOMENT_AFTER && now >= end)
			return 1;
		if (m->kind == CLI_MOMENT_CPU && is_busy(&use, pid, m->cpu))
			return 1;
		if (m->kind == CLI_MOMENT_AFTER && end - now < rest)
			rest = end - now;
		/* a signal that comes before the poll is seen a look later */
		poll(NULL, 0, (int)(rest / 1000000) + 1);
	}
}

int cli_moment_wait(const struct cli_moment *m, pid_t pid, uint64_t started, bool quiet)
{
	const struct sigaction action = {.sa_handler = on_moment};
	struct termios before;
	int ret;

	if (m->kind == CLI_MOMENT_NONE)
		return 1;
	cli_catch_signals();
	came = 0;
	if (m->kind == CLI_MOMENT_SIGNAL)
		sigaction(m->signal, &action, NULL);
	if (m->kind == CLI_MOMENT_KEY && begin_keys(&before) < 0)
		return -1;
	if (!quiet)
		tell(m, pid);
	ret = wait_for(m, pid, started);
	if (m->kind == CLI_MOMENT_KEY)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	/* from now on the same signal ends the recording */
	if (m->kind == CLI_MOMENT_SIGNAL)
		cli_catch_signals();
	return ret;
}
