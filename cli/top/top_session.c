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
 *   3. For each snapshot the session is asked to write its counts, which are read from its
 *      directory. The list of functions is read again when its file has changed. Functions may
 *      have other numbers then, so the counts of the snapshot before are parsed again from their
 *      text.
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
#include "cli/top/top.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/file.h"
#include "common/interrupted.h"
#include "common/print.h"
#include "common/trace/trace_format.h"
#include "common/units.h"

#define COUNTS_MAX (1ull << 30)
#define WAIT_MS	   100 /* time between checks for signals */
#define ENDING_MS  10000
#define OWN_SIZE   4096

struct cli_top_session {
	int pid;
	char *dir; /* directory of the trace */
	/* The directory above dir. Its text is in memory shared with the child, which makes the
	 * directory. NULL: another iprobe has the session. */
	char *own;
	pid_t child;  /* 0: there is no child, or it has ended */
	pid_t keeper; /* 0: there is no keeper */
	int kept;     /* pipe of the keeper; -1: none */
	int status;   /* as from waitpid() */
	/* Pipe with what the child prints; its first byte tells that it is live. -1: closed. */
	int words;
	bool live, terminal, read_last, full_names;
	char *said; /* all that the child has printed */
	size_t nsaid, shown;

	struct ip_recording *recording;
	struct stat seen; /* state of the recording's file when it was read */
	struct ip_names *names;
	struct ip_counts *now, *before;
	char *text; /* text of now */
	size_t ntext;
};

/* ---- the child ---- */

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
		at = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
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
	if (make_directory(s) < 0 || ip_payload_rules_add(&options.payloads, "hist") < 0)
		_exit(cli_fail());
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

bool cli_top_session_has_ended(struct cli_top_session *s)
{
	if (!s->own)
		return false;
	listen(s);
	return reap(s);
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

int cli_top_session_begin(const struct cli_top_options *o, bool terminal,
			  struct cli_top_session **ret)
{
	struct cli_top_session *s = calloc(1, sizeof(*s));
	int done;

	*ret = s;
	if (!s)
		return ip_error("out of memory");
	s->pid = o->pid;
	s->words = s->kept = -1;
	s->terminal = terminal;
	s->full_names = o->full_names;
	done = ip_session_join(s->pid, &s->dir);
	if (done <= 0)
		return done;
	if (start(s, o) < 0)
		return -1;
	while (!s->live && s->words >= 0) {
		if (ip_interrupted)
			return 1;
		wait_a_little(s);
	}
	return !s->live ? 1 : name_trace(s);
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
		if (WIFSIGNALED(s->status)) {
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
	ip_counts_destroy(s->now);
	ip_counts_destroy(s->before);
	ip_names_destroy(s->names);
	ip_recording_destroy(s->recording);
	free(s->text);
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

int cli_top_session_fd(const struct cli_top_session *s)
{
	return s->words;
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

/* Reads the session file where it has changed. Returns 1 where it was read again, 0 where it is
 * the same, -1 with an error. */
static int read_recording(struct cli_top_session *s)
{
	_cleanup_free_ char *path = NULL;
	struct ip_recording *recording;
	struct ip_names *names;
	struct stat st;

	if (asprintf(&path, "%s/%s", s->dir, IP_TRACE_SESSION) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if (stat(path, &st) < 0)
		return ip_error_errno("cannot read %s", path);
	if (s->recording && st.st_ino == s->seen.st_ino && st.st_size == s->seen.st_size &&
	    st.st_mtim.tv_sec == s->seen.st_mtim.tv_sec &&
	    st.st_mtim.tv_nsec == s->seen.st_mtim.tv_nsec)
		return 0;
	if (ip_recording_load(s->dir, &recording) < 0)
		return -1;
	names = ip_names_create(recording);
	if (!names) {
		ip_recording_destroy(recording);
		return -1;
	}
	if (s->full_names)
		ip_names_use_full(names);
	ip_names_destroy(s->names);
	ip_recording_destroy(s->recording);
	s->recording = recording;
	s->names = names;
	s->seen = st;
	return 1;
}

static int read_counts(struct cli_top_session *s, bool renewed)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	struct ip_counts *counts, *before = s->now;
	size_t size;

	if (asprintf(&path, "%s/%s", s->dir, IP_TRACE_COUNTS) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if (ip_read_regular_text(path, COUNTS_MAX, &text, &size) < 0 ||
	    ip_counts_parse(path, text, size, s->recording, &counts) < 0)
		return -1;
	if (renewed && before) {
		if (ip_counts_parse(path, s->text, s->ntext, s->recording, &before) < 0) {
			ip_counts_destroy(counts);
			return -1;
		}
		ip_counts_destroy(s->now);
	}
	ip_counts_destroy(s->before);
	s->before = before;
	s->now = counts;
	free(s->text);
	s->text = ip_steal_ptr(text);
	s->ntext = size;
	return 0;
}

int cli_top_session_read(struct cli_top_session *s, struct cli_top_snapshot *ret)
{
	_cleanup_free_ char *dir = NULL;
	int renewed;

	if (s->read_last || (ip_interrupted && s->own && !s->child))
		return 0;
	if (s->own && cli_top_session_has_ended(s)) {
		s->read_last = true; /* it has written all its counts */
		if (access(s->dir, F_OK) < 0)
			return 0;
	} else if (ip_session_ask_counts(s->pid, &dir) < 0) {
		if (!s->own)
			return 0;
		if (!wait_for_end(s))
			return -1;
		return s->child ? 0
				: cli_top_session_read(
					  /* after a signal the user wants no more output */
					  s, ret);
	}
	renewed = read_recording(s);
	if (renewed < 0 || read_counts(s, renewed) < 0)
		return s->read_last ? 0 : -1;
	*ret = (struct cli_top_snapshot){s->recording, s->names, s->now, s->before, renewed};
	return 1;
}
