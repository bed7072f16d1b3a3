/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of the figures of iprobe top.
 *
 *   1. If the process has a session, it is asked for its counts. If it answers, iprobe top uses
 *      that session.
 *   2. Else a child is forked, which makes a directory. The child ends with iprobe top (the
 *      kernel sends it a signal, which ends it properly). It is in a process group of its own
 *      (Ctrl-C and Ctrl-Z on the terminal are for iprobe top). It tells by a pipe when it is
 *      live, and what goes wrong.
 *      Of several processes, those that have a session are asked; for the others the child has
 *      a worker each (top_service.c).
 *   3. For each snapshot the sessions are asked to write their counts, which are read from their
 *      directories (cli/live_counts.h).
 *   4. At the end the session is asked to end, and it puts everything back. The process that is
 *      there last removes the directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/record/stops.h"
#include "cli/top/top_private.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/file.h"
#include "common/interrupted.h"
#include "common/print.h"
#include "common/trace/trace_format.h"
#include "common/units.h"

#define WAIT_MS	  100 /* time between checks for signals */
#define ENDING_MS 10000
#define OWN_SIZE  4096

struct cli_top_session {
	bool several;
	int pid;   /* of one process */
	char *dir; /* directory of the trace, or of all traces of iprobe top's own */
	struct cli_top_service service;
	struct cli_live_counts counts;
	struct cli_top_cpu cpu;
	bool has_kernel;
	struct cli_top_kernel kernel;
	bool told_kernel; /* that processes are without */
	/* The directory above dir. Its text is in memory shared with the child, which makes the
	 * directory. NULL: another iprobe has the session. */
	char *own;
	pid_t child;  /* 0: there is no child, or it has ended */
	pid_t keeper; /* 0: there is no keeper */
	int kept;     /* pipe of the keeper; -1: none */
	int status;   /* as from waitpid() */
	/* Pipe with what the child prints; its first byte tells that it is live. -1: closed. */
	int words;
	bool live, terminal, read_last;
	char *said; /* all that the child has printed */
	size_t nsaid, shown;
};

/* ---- the child ---- */

int cli_top_choose_payload(struct ip_session_options *options, pid_t pid)
{
	if (ip_payload_rules_add(&options->payloads, "hist") < 0)
		return -1;
	if (pid && !cli_top_kernel_fits(pid))
		options->kernel.groups = 0;
	if (!options->kernel.groups)
		return 0;
	/* calls are logged, too */
	options->overwrite = options->save_timed = true;
	ip_payload_rules_log_too(&options->payloads);
	return 0;
}

/* Removes the tree, whose parent is the directory in which it was made. If another directory has
 * the parent's name now, it does not hold the tree. */
static void remove_tree(const char *path)
{
	struct ip_dir_place place;

	if (ip_dir_locate(path, &place) < 0)
		return;
	ip_dir_remove(place.parent, place.name);
	ip_dir_place_close(&place);
}

static void tell_live(void *context)
{
	ssize_t ignored = write(*(int *)context, "", 1);

	(void)ignored;
}

static void tell_summary(const struct ip_session_summary *s)
{
	char count[32], length[16];

	if (!s->recorded)
		return;
	ip_print(stderr, "iprobe: %s call%s of %zu function%s in %s; stopped for",
		 ip_format_count(s->calls, count), s->calls == 1 ? "" : "s", s->functions,
		 s->functions == 1 ? "" : "s", ip_format_ns(s->length_ns, length));
	cli_print_stops(stderr, &s->stops);
	cli_print_looks(stderr, s->stops.looks.n, s->stops.looks.ns);
	ip_print(stderr, "; every byte is back\n");
}

static int name_trace(struct cli_top_session *s)
{
	if (asprintf(&s->dir, "%s/trace", s->own) >= 0)
		return 0;
	s->dir = NULL;
	return ip_error("out of memory");
}

/* Makes the directory, in memory where possible. */
static int make_directory(struct cli_top_session *s)
{
	const char *at = getenv("TMPDIR");
	struct ip_dir_place place;
	char path[OWN_SIZE];
	int fd;

	if (!at || !*at)
		at = ip_access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
	fd = ip_dir_make_temporary(at, "iprobe-top", &place);
	if (fd < 0)
		return -1;
	close(fd);
	ip_dir_place_close(&place);
	if (snprintf(path, sizeof(path), "%s/%s", at, place.name) >= (int)sizeof(path))
		return ip_error("%s: the name is too long", at);
	memcpy(s->own, path, sizeof(path));
	return name_trace(s);
}

static _Noreturn void be_session(const struct cli_top_options *o, struct cli_top_session *s,
				 pid_t parent, int live)
{
	struct ip_session_options options = {.functions = o->functions,
					     .own = "iprobe top's own recording",
					     .duration_ns = o->duration_ns,
					     .memory = o->memory,
					     .max_stop_ns = o->max_stop_ns,
					     .marks_tails = true,
					     .kernel = o->kernel,
					     .on_live = tell_live,
					     .context = &live};
	struct ip_session_summary summary;
	int code = 0;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	cli_catch_signals();
	if (getppid() != parent)
		_exit(1);
	/* not earlier: a child that is killed before this leaves nothing behind */
	if (make_directory(s) < 0 || cli_top_choose_payload(&options, o->pid) < 0)
		_exit(cli_fail());
	if (s->several)
		_exit(cli_top_service_run(o, s->dir, live));
	options.dir = s->dir;
	if (ip_session_attach(o->pid, &options, &summary) == 0)
		tell_summary(&summary);
	else
		code = cli_fail();
	_exit(code);
}

/*
 * A process that removes the recording's directory when no other process needs it any more,
 * however the others have ended. Both others hold the other end of its pipe. It has no other
 * file open: a process that waits for iprobe top's files to be closed must not wait for the
 * keeper.
 */
static _Noreturn void keep(const struct cli_top_session *s, int end)
{
	char ignored;

	setpgid(0, 0);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (end > 0)
		close_range(0, end - 1, 0);
	close_range(end + 1, ~0u, 0);
	while (read(end, &ignored, 1) < 0 && errno == EINTR)
		;
	if (*s->own)
		remove_tree(s->own);
	_exit(0);
}

static int start_keeper(struct cli_top_session *s)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return ip_error_errno("cannot make a pipe");
	fflush(NULL);
	s->keeper = fork();
	if (!s->keeper) {
		close(ends[1]);
		keep(s, ends[0]);
	}
	close(ends[0]);
	s->kept = ends[1];
	if (s->keeper > 0)
		return 0;
	s->keeper = 0;
	return ip_error_errno("cannot start the process that cleans up");
}

static int start(struct cli_top_session *s, const struct cli_top_options *o)
{
	pid_t parent = getpid();
	int words[2];

	s->own = mmap(NULL, OWN_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->own == MAP_FAILED) {
		s->own = NULL;
		return ip_error("out of memory");
	}
	if (start_keeper(s) < 0)
		return -1;
	if (pipe2(words, O_CLOEXEC) < 0)
		return ip_error_errno("cannot make a pipe");
	fflush(NULL);
	s->child = fork();
	if (s->child < 0) {
		s->child = 0;
		close(words[0]);
		close(words[1]);
		return ip_error_errno("cannot start the session's process");
	}
	if (!s->child) {
		close(words[0]);
		dup2(words[1], STDERR_FILENO);
		be_session(o, s, parent, words[1]);
	}
	close(words[1]);
	s->words = words[0];
	fcntl(s->words, F_SETFL, O_NONBLOCK);
	return 0;
}

/* Reads what the child prints. Without a terminal it is passed on at once. */
static void listen(struct cli_top_session *s)
{
	char buffer[4097];
	ssize_t n = 0;

	while (s->words >= 0 && (n = read(s->words, buffer, sizeof(buffer) - 1)) > 0) {
		size_t k = 0;
		char *grown;

		for (ssize_t i = 0; i < n; i++)
			if (buffer[i])
				buffer[k++] = buffer[i];
			else
				s->live = true;
		if (!s->terminal || !s->live) {
			buffer[k] = '\0';
			ip_print_lines(stderr, buffer);
			continue;
		}
		grown = realloc(s->said, s->nsaid + k + 1);
		if (!grown)
			continue;
		s->said = grown;
		memcpy(s->said + s->nsaid, buffer, k);
		s->nsaid += k;
		s->said[s->nsaid] = '\0';
	}
	if (s->words >= 0 && (n == 0 || errno != EAGAIN)) {
		close(s->words);
		s->words = -1;
	}
}

static bool reap(struct cli_top_session *s)
{
	if (!s->child)
		return true;
	if (!waitpid(s->child, &s->status, WNOHANG))
		return false;
	s->child = 0;
	listen(s);
	return true;
}

/* Whether a session that belongs to another command goes on. */
static bool joined_lives(const struct cli_top_session *s)
{
	for (size_t i = 0; i < s->counts.n; i++)
		if (s->counts.processes[i].joined && !s->counts.processes[i].ended)
			return true;
	return false;
}

bool cli_top_session_has_ended(struct cli_top_session *s)
{
	if (!s->own)
		return false;
	listen(s);
	return reap(s) && !joined_lives(s);
}

static void wait_a_little(struct cli_top_session *s)
{
	struct pollfd p = {.fd = s->words, .events = POLLIN};

	poll(&p, 1, WAIT_MS);
	listen(s);
}

/* Waits for the end of a session that does not answer any more: most likely it is about to end. */
static bool wait_for_end(struct cli_top_session *s)
{
	for (unsigned i = 0; !reap(s) && !ip_interrupted; i++) {
		if (i == ENDING_MS / WAIT_MS)
			return false;
		wait_a_little(s);
	}
	return true;
}

/* ---- joining, beginning, ending ---- */

/* Joins the sessions that there are. Returns 1 where iprobe top is to begin one, 0 where it is
 * not, -1 with an error. */
static int join(struct cli_top_session *s)
{
	char *dir = NULL;
	int done;

	if (s->several)
		return cli_top_service_begin(&s->service, &s->counts, &s->cpu);
	done = ip_session_join(s->pid, &dir);
	if (done > 0 && cli_top_cpu_begin(&s->cpu, s->pid) < 0)
		return -1;
	return done ? done : cli_live_counts_add(&s->counts, s->pid, dir, true);
}

static int name_own(struct cli_top_session *s)
{
	char *dir;

	if (name_trace(s) < 0)
		return -1;
	if (s->several)
		return 0; /* those of the processes are listed there */
	dir = strdup(s->dir);
	return dir ? cli_live_counts_add(&s->counts, s->pid, dir, false)
		   : ip_error("out of memory");
}

int cli_top_session_begin(const struct cli_top_options *o, bool terminal,
			  struct cli_top_session **ret)
{
	struct cli_top_session *s = calloc(1, sizeof(*s));
	int done;

	*ret = s;
	if (!s)
		return ip_error("out of memory");
	s->pid = o->pid;
	s->several = !o->pid;
	s->service.choice = o->choice;
	s->words = s->kept = -1;
	s->terminal = terminal;
	s->counts.full_names = o->full_names;
	s->has_kernel = o->kernel.groups;
	s->kernel.with_idle = o->with_idle;
	done = join(s);
	if (done <= 0)
		return done;
	if (start(s, o) < 0)
		return -1;
	while (!s->live && s->words >= 0) {
		if (ip_interrupted)
			return 1;
		wait_a_little(s);
	}
	if (!s->live && !joined_lives(s))
		return 1;
	return *s->own ? name_own(s) : 0;
}

int cli_top_session_end(struct cli_top_session *s)
{
	int code = 0;

	if (!s)
		return 0;
	if (s->child) {
		kill(s->child, SIGTERM);
		/* it may need long where threads cannot be stopped, and prints that */
		while (!reap(s))
			wait_a_little(s);
	}
	if (s->kept >= 0)
		close(s->kept);
	if (s->keeper)
		waitpid(s->keeper, NULL, 0);
	if (s->own) {
		code = WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 1;
		if (WIFSIGNALED(s->status) && s->several) {
			ip_error("the process of the sessions was killed (signal %d): iprobe "
				 "status shows where probes are live, iprobe detach puts every "
				 "byte back",
				 WTERMSIG(s->status));
			cli_fail();
		} else if (WIFSIGNALED(s->status)) {
			ip_error("pid %d: the process of the session was killed (signal %d): "
				 "iprobe detach %d puts every byte back",
				 s->pid, WTERMSIG(s->status), s->pid);
			cli_fail();
		}
	}
	if (s->said)
		ip_print_lines(stderr, s->said);
	if (s->words >= 0)
		close(s->words);
	cli_live_counts_clear(&s->counts);
	cli_top_cpu_clear(&s->cpu);
	cli_top_kernel_clear(&s->kernel);
	cli_top_service_clear(&s->service);
	free(s->said);
	if (s->own)
		munmap(s->own, OWN_SIZE);
	free(s->dir);
	free(s);
	return code;
}

bool cli_top_session_is_joined(const struct cli_top_session *s)
{
	return !s->own;
}

size_t cli_top_session_joined(const struct cli_top_session *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->counts.n; i++)
		n += s->counts.processes[i].joined;
	return n;
}

const struct cli_live_counts *cli_top_session_counts(const struct cli_top_session *s)
{
	return &s->counts;
}

int cli_top_session_fd(const struct cli_top_session *s)
{
	return s->words;
}

const char *cli_top_session_without_kernel(struct cli_top_session *s)
{
	static char line[320];
	const size_t n = s->has_kernel && !s->own ? s->counts.n : s->kernel.without;

	if (!n || s->told_kernel)
		return NULL;
	s->told_kernel = true;
	snprintf(line, sizeof(line), "%zu process%s without waits: %s", n, n == 1 ? "" : "es",
		 s->own ? s->kernel.why : "the session was begun by another command");
	return line;
}

const char *cli_top_session_said(struct cli_top_session *s)
{
	static char line[256];
	size_t end = s->nsaid, start;

	if (s->shown == s->nsaid)
		return NULL;
	s->shown = s->nsaid;
	while (end && s->said[end - 1] == '\n')
		end--;
	for (start = end; start && s->said[start - 1] != '\n'; start--)
		;
	snprintf(line, sizeof(line), "%.*s", (int)(end - start), s->said + start);
	return line;
}

/* ---- snapshots ---- */

/* Whether nothing is left that could be asked. It waits for the end of sessions of iprobe top's own
 * that do not answer. Returns 1: they are to be read once more; 0: that was all; -1 with an error.
 */
static int wait_for_answer(struct cli_top_session *s)
{
	if (!s->own)
		return 0;
	if (!wait_for_end(s))
		return -1;
	return !s->child; /* after a signal the user wants no more output */
}

int cli_top_session_read(struct cli_top_session *s, struct cli_top_snapshot *ret)
{
	struct cli_live_counts *c = &s->counts;
	size_t answered;
	int renewed;

	if (s->read_last || (ip_interrupted && s->own && !s->child))
		return 0;
	if (s->several && cli_top_service_look(&s->service, c, s->own ? s->dir : NULL) < 0)
		return -1;
	/* sessions of iprobe top's own that have ended have written all their counts */
	s->read_last = s->own && cli_top_session_has_ended(s);
	if (s->read_last && ip_access(s->dir, F_OK) < 0)
		return 0;
	answered = cli_live_counts_ask(c, s->own && !s->child);
	/* the members of an open service may all have ended, and others come */
	if (!answered && !s->read_last &&
	    !(s->own && ip_service_choice_is_open(&s->service.choice))) {
		renewed = wait_for_answer(s);
		return renewed > 0 ? cli_top_session_read(s, ret) : renewed;
	}
	renewed = cli_live_counts_read(c);
	if (renewed < 0)
		return s->read_last ? 0 : -1;
	if (!c->recording)
		return 0;
	if (cli_top_cpu_read(&s->cpu, c) < 0)
		return -1;
	/* of sessions that have ended there is no snapshot */
	if (s->has_kernel && s->own && !s->read_last) {
		if (cli_top_kernel_read(&s->kernel, c, s->own) < 0)
			return -1;
	} else {
		cli_top_kernel_clear(&s->kernel);
	}
	*ret = (struct cli_top_snapshot){c->recording,
					 c->names,
					 c->now,
					 c->before,
					 renewed,
					 &s->cpu,
					 s->has_kernel ? &s->kernel : NULL};
	return 1;
}
