/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe follow: records where the flow of control goes from an event on. An event is the call of a
 * function, which each thread makes for itself (--within), or a moment (moment.h), from which on
 * all threads are recorded. The rest is an attach or a run, whose options it takes, too.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/args/processes.h"
#include "cli/cli.h"
#include "cli/follow/moment.h"
#include "cli/record/attach.h"
#include "cli/record/start_command.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/print.h"
#include "common/proc.h"
#include "common/selection/selection.h"
#include "common/units.h"
#include "hotpatcher/ptrace/stop.h"

static const char help[] =
	"usage: iprobe follow --from FUNC [OPTIONS] PID... | -- COMMAND [ARG...]\n"
	"       iprobe follow --after T | --on-signal SIG | --on-key KEY | --at-cpu X% "
	"[OPTIONS] PID | -- COMMAND [ARG...]\n\n"
	"Records where the flow of control goes from an event on: all calls below a function, or "
	"of all threads\n"
	"from a moment on, at which nothing of the process has been touched yet.\n\n"
	"      --from FUNC       what FUNC calls, in each thread that calls it (a selection as -f "
	"has it)\n"
	"      --threads WORD    this (default): threads that call FUNC, while they do; all: all "
	"threads from its first call on\n"
	"      --after T         from then on: 500ms, 10s, 2m\n"
	"      --on-signal SIG   when iprobe gets it: USR1, USR2, HUP, ALRM, CONT, URG, WINCH\n"
	"      --on-key KEY      when the key is pressed on iprobe's terminal\n"
	"      --at-cpu X%       when the process uses so much of a CPU, over a second\n"
	"      --until FUNC|T    end when FUNC is called, or after that time (default: until "
	"Ctrl-C or the end)\n"
	"      --depth N         not what lies N or more calls deep\n"
	"      --exclude SEL     not these functions\n"
	"      --no-plt          not what is called in libraries by the PLT\n"
	"      --kernel[=LIST]   events of the kernel as well\n"
	"  -o, --output DIR      trace directory (default iprobe.data)\n"
	"      --json            the summary as one line of JSON on stdout\n"
	"  -q, --quiet           no live line, no summary\n"
	"  -h, --help\n\n"
	"All other options are those of iprobe attach, or of iprobe run where a COMMAND is "
	"given.\n";

struct follow {
	char **words; /* of attach or run */
	int nwords;
	int room;
	struct cli_moment moment;
	const char *from;
	bool all_threads;
	char **command; /* NULL: a process that is there */
};

static int add(struct follow *f, const char *word)
{
	char *copy = strdup(word);

	if (!copy || f->nwords + 1 >= f->room) {
		free(copy);
		return ip_error("out of memory");
	}
	f->words[f->nwords++] = copy;
	f->words[f->nwords] = NULL;
	return 0;
}

static int add_two(struct follow *f, const char *option, const char *value)
{
	return add(f, option) < 0 || add(f, value) < 0 ? -1 : 0;
}

/* --until: a time has digits alone in front, a condition of attach has a comparison, and the name
 * of a function may have template arguments. */
static int add_until(struct follow *f, const char *text)
{
	uint64_t ns;

	if (*text >= '0' && *text <= '9')
		return ip_parse_duration(text, &ns) < 0 ? -1 : add_two(f, "--duration", text);
	if (strchr(text, '>') && !strchr(text, '<'))
		return add_two(f, "--until", text);
	return add_two(f, "--stop-on", text);
}

static int add_excluded(struct follow *f, const char *text)
{
	_cleanup_free_ char *away = NULL;

	if (ip_selection_away(text, &away) < 0)
		return ip_error_prefix("--exclude");
	return add_two(f, "-f", away);
}

static int take(struct follow *f, const char *name, const char *value)
{
	if (!strcmp(name, "from")) {
		if (f->from)
			return ip_error("--from: once; a selection names several functions");
		f->from = value;
		return 0;
	}
	if (!strcmp(name, "threads")) {
		f->all_threads = !strcmp(value, "all");
		return f->all_threads || !strcmp(value, "this")
			       ? 0
			       : ip_error("--threads %s: this or all", value);
	}
	if (!strcmp(name, "after"))
		return cli_moment_after(value, &f->moment);
	if (!strcmp(name, "on-signal"))
		return cli_moment_signal(value, &f->moment);
	if (!strcmp(name, "on-key"))
		return cli_moment_key(value, &f->moment);
	if (!strcmp(name, "at-cpu"))
		return cli_moment_cpu(value, &f->moment);
	if (!strcmp(name, "until"))
		return add_until(f, value);
	return add_excluded(f, value);
}

static bool is_own(const char *name, size_t length)
{
	static const char *const own[] = {"from",   "threads", "after", "on-signal",
					  "on-key", "at-cpu",  "until", "exclude"};

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (strlen(own[i]) == length && !strncmp(own[i], name, length))
			return true;
	return false;
}

/* Reads the words as attach does. A session that is there goes on without library calls: nobody has
 * asked for them. */
static int read_words(struct follow *f, struct cli_record_options *ret, int *ret_next)
{
	const int code = cli_record_parse(f->nwords, f->words, help, true, ret, ret_next);

	/* what stands behind it is told in its place */
	if (code < 0 && ret->session.own && !strcmp(ret->session.own, "--plt"))
		ret->session.own = NULL;
	return code;
}

static bool has_word(int argc, char **argv, const char *word)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], word))
			return true;
	return false;
}

/* Sorts the words of the command line. Returns -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct follow *f)
{
	for (int i = 1; i < argc && !f->command; i++) {
		const char *word = argv[i];
		const size_t length = strncmp(word, "--", 2) ? 0 : strcspn(word + 2, "=");
		_cleanup_free_ char *name = strndup(word + 2 * (length > 0), length);
		const char *value = length && word[2 + length] ? word + 3 + length : argv[i + 1];

		if (!name)
			return ip_error("out of memory"), cli_fail();
		if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
			ip_print_lines(stdout, help);
			return 0;
		}
		if (!strcmp(word, "--")) {
			f->command = argv + i + 1;
		} else if (!strcmp(word, "--no-plt")) {
			continue;
		} else if (!length || !is_own(word + 2, length)) {
			if (add(f, word) < 0)
				return cli_fail();
		} else if (!value) {
			return cli_usage("follow", "--%s needs an argument", name);
		} else {
			if (take(f, name, value) < 0)
				return cli_usage("follow", "%s", ip_error_message());
			i += !word[2 + length];
		}
	}
	if (!f->from == (f->moment.kind == CLI_MOMENT_NONE))
		return cli_usage("follow",
				 "it needs an event: --from FUNC, --after T, --on-signal SIG, "
				 "--on-key KEY or --at-cpu X%%%s",
				 f->from ? "; one of them" : "");
	if (f->all_threads && !f->from)
		return cli_usage("follow", "--threads goes with --from: from a moment on all "
					   "threads are followed");
	if (f->command && !*f->command)
		return cli_usage("follow", "no command after --");
	if (f->from && add_two(f, f->all_threads ? "--start-on" : "--within", f->from) < 0)
		return cli_fail();
	return -1;
}

/* What would be refused at the moment is refused now. iprobed may allow what the kernel does not.
 * Returns 0, or -1 with an error. */
static int check_now(pid_t pid, const struct cli_record_options *options)
{
	struct ip_session_preview p;
	int done;

	if (!cli_may_trace(pid))
		return 0;
	done = ip_session_preview(pid, &options->session, &p);
	ip_session_preview_clear(&p);
	return done;
}

/* Records from the moment on. started: which process has the pid (ip_proc_started_at()). Returns
 * the exit code. */
static int begin_later(struct follow *f, pid_t pid, uint64_t started,
		       struct cli_record_options *options)
{
	const int came = cli_moment_wait(&f->moment, pid, started, options->quiet);

	if (!came)
		ip_error("interrupted before the moment came: nothing was recorded");
	if (came <= 0)
		return cli_fail();
	options->session.started = started;
	return cli_attach_one(pid, options, f->nwords, f->words, NULL, NULL);
}

static int attach(struct follow *f)
{
	struct cli_record_options options;
	struct ip_service_choice choice;
	uint64_t started;
	int next, code;
	pid_t pid;

	code = read_words(f, &options, &next);
	if (code < 0)
		code = cli_process_choice(f->nwords, f->words, next, &choice);
	if (code >= 0)
		return code;
	if (f->moment.kind == CLI_MOMENT_NONE || (options.dry_run && cli_is_one_process(&choice)))
		return cli_attach_chosen("follow", &choice, &options, f->nwords, f->words);
	if (!cli_is_one_process(&choice))
		return cli_usage("follow", "a moment is that of one process: name one");
	/* which process it is stands fast before anything is looked at */
	pid = choice.pids[0];
	started = ip_proc_started_at(pid);
	if (!started)
		ip_error("pid %d: there is no such process", pid);
	if (!started || cli_moment_check(&f->moment) < 0 || check_now(pid, &options) < 0)
		return cli_fail();
	return begin_later(f, pid, started, &options);
}

/* Waits until the command has ended. Returns the exit code. */
static int await_command(pid_t child, int code)
{
	int status = 0;
	pid_t got;

	/* what has ended the recording was not for the command, which goes on as one would that was
	 * there before; what comes from now on is */
	ip_interrupted = 0;
	for (;;) {
		got = waitpid(child, &status, 0);
		if (got == child && !WIFSTOPPED(status))
			return code ? code : cli_command_code(status);
		/* still a tracee: a stop had to leave it behind */
		if (got == child)
			ip_stop_detach(child, status >> 16 ? 0 : WSTOPSIG(status));
		/* a stop has taken its end */
		if (got < 0 && errno != EINTR)
			return code;
		if (ip_interrupted) {
			kill(child, ip_interrupted);
			ip_interrupted = 0;
		}
	}
}

/* A command that runs by itself until the moment. */
static int follow_command(struct follow *f)
{
	struct cli_record_options options;
	int next, code;
	char text[16];
	pid_t child;

	code = read_words(f, &options, &next);
	if (code >= 0)
		return code;
	if (cli_any_process(f->nwords, next) || next < f->nwords)
		return cli_usage("follow", "a process or a command, not both");
	if (options.dry_run)
		return cli_usage("follow", "--dry-run is for a process that is there");
	if (cli_moment_check(&f->moment) < 0)
		return cli_fail();
	child = cli_start_command(f->command);
	if (child < 0)
		return cli_fail();
	snprintf(text, sizeof(text), "%d", child);
	code = add(f, text) < 0 ? cli_fail()
				: begin_later(f, child, ip_proc_started_at(child), &options);
	return await_command(child, code);
}

int cmd_follow(int argc, char **argv)
{
	struct follow f = {.room = 2 * argc + 16};
	int code;

	f.words = calloc(f.room, sizeof(*f.words));
	if (!f.words || add(&f, "follow") < 0) {
		ip_error("out of memory");
		return cli_fail();
	}
	/* library calls, which code without probes makes seen */
	if (!has_word(argc, argv, "--no-plt") && add(&f, "--plt") < 0)
		return cli_fail();
	code = parse(argc, argv, &f);
	if (code >= 0)
		return code;
	if (!f.command)
		return attach(&f);
	if (f.moment.kind != CLI_MOMENT_NONE)
		return follow_command(&f);
	if (add(&f, "--") < 0)
		return cli_fail();
	for (char **word = f.command; *word; word++)
		if (add(&f, *word) < 0)
			return cli_fail();
	return cmd_run(f.nwords, f.words);
}
