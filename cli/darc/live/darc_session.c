/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the session of a live search.
 */
#include "cli/darc/live/darc_session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/darc/darc_state.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/now.h"
#include "common/selection/selection.h"
#include "fperf/recording_budget.h"
#include "session/session.h"

#define WAIT_MS	       100
#define DESCRIPTION    "trace.search" /* its name begins as the trace's */
#define SELECTION_MOST 60000u	      /* bytes of one change: a packet is not split */
/* A change that stopped the process in vain is tried once more after a pause, for so long. */
#define VAIN_NAP_NS 250000000ull
#define VAIN_NS	    10000000000ull

/* What the session's process needs when it is called back. */
struct callback {
	int live; /* the pipe to the search */
	int dir;  /* of the traces */
};

static void tell_live(void *context)
{
	ssize_t ignored = write(((struct callback *)context)->live, "", 1);

	(void)ignored;
}

/* Copies the description that the search has written last. */
static int describe(void *context, int memory)
{
	_cleanup_close_ int fd = openat(((struct callback *)context)->dir, DESCRIPTION,
					O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	off_t at = 0;
	ssize_t n = 1;

	if (fd < 0)
		return ip_error("the search has only begun: try again");
	while (n > 0 && at < CLI_DARC_STATE_SIZE_MAX)
		n = sendfile(memory, fd, &at, CLI_DARC_STATE_SIZE_MAX - (size_t)at);
	return n < 0 ? ip_error_errno("cannot write the description of the search") : 0;
}

static _Noreturn void be_session(const struct cli_darc_session *s, const char *functions,
				 pid_t parent, int live)
{
	const struct cli_darc_session_options *o = &s->options;
	struct callback callback = {live, s->trace.lock};
	struct ip_session_options options = {
		.functions = functions,
		.dir = s->trace.dir,
		.own = "iprobe darc's own recording",
		.memory = o->memory,
		.max_stop_ns = o->max_stop_ns,
		.overwrite = true,
		.marks_tails = true,
		.filters = {.callsite = true, .requests = o->values},
		.values = {.string_limit = IP_STRING_LIMIT, .requests = o->values},
		.kernel = o->kernel,
		.on_live = tell_live,
		.on_describe = describe,
		.context = &callback};
	struct ip_recording_budget *budget = NULL;
	struct ip_session_summary summary = {0};
	int done;

	/* Ctrl-C is for the search, which ends the session */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	cli_catch_signals();
	if (getppid() != parent)
		_exit(1);
	if (o->budget > 0) {
		budget = ip_recording_budget_create(o->budget);
		if (!budget)
			_exit(cli_fail());
		options.controller = ip_recording_budget_controller(budget);
	}
	done = ip_session_attach(o->pid, &options, &summary);
	*s->stops = summary.stops;
	_exit(done < 0 ? cli_fail() : 0);
}

/* The selection of what is live at first; NULL with an error. */
static char *first_selection(const struct cli_darc_session_options *o)
{
	char *text = strdup(o->functions);

	for (size_t i = 0; text && i < o->nmore; i++) {
		_cleanup_free_ char *item = ip_selection_quote(o->more[i], strlen(o->more[i]));
		char *whole = NULL;

		if (item && asprintf(&whole, "%s,%s", text, item) < 0)
			whole = NULL;
		free(text);
		text = whole;
	}
	if (!text)
		ip_error("out of memory");
	return text;
}

static char **copy_names(char *const *names, size_t n)
{
	char **ret = calloc(n + 1, sizeof(*ret));
	size_t k = 0;

	while (ret && k < n && (ret[k] = strdup(names[k])))
		k++;
	if (ret && k == n)
		return ret;
	while (k)
		free(ret[--k]);
	free(ret);
	ip_error("out of memory");
	return NULL;
}

int cli_darc_session_begin(const struct cli_darc_session_options *options,
			   struct cli_darc_session *ret, bool *ret_told)
{
	const pid_t parent = getpid();
	_cleanup_free_ char *functions = first_selection(options);
	_cleanup_close_ int live = -1;
	int ends[2];
	void *stops;
	ssize_t n = -1;
	char c;

	*ret_told = false;
	*ret = (struct cli_darc_session){.options = *options, .trace.lock = -1};
	ret->live = functions ? copy_names(options->more, options->nmore) : NULL;
	if (!ret->live)
		return -1;
	ret->nlive = options->nmore;
	if (cli_temporary_trace_make(&ret->trace) < 0)
		return -1;
	/* the child tells its stops in it */
	stops = mmap(NULL, sizeof(*ret->stops), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (stops == MAP_FAILED)
		return ip_error("out of memory");
	ret->stops = stops;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return ip_error_errno("cannot make a pipe");
	live = ends[0];
	fflush(NULL);
	ret->child = fork();
	if (!ret->child) {
		close(ends[0]);
		be_session(ret, functions, parent, ends[1]);
	}
	close(ends[1]);
	if (ret->child < 0) {
		ret->child = 0;
		return ip_error_errno("cannot start the session's process");
	}
	while (!ip_interrupted && n < 0) {
		struct pollfd p = {.fd = live, .events = POLLIN};

		if (poll(&p, 1, WAIT_MS) > 0)
			n = read(live, &c, 1);
	}
	if (n == 1)
		return 0;
	*ret_told = n == 0; /* the child has ended, and has told why */
	return n == 0 ? -1 : ip_error("interrupted before anything was recorded");
}

bool cli_darc_session_has_ended(struct cli_darc_session *s)
{
	if (s->child && waitpid(s->child, &s->status, WNOHANG) == s->child)
		s->child = 0;
	return !s->child;
}

/* The session of another iprobe may have come after it, which is none of ours. */
static int check_session(struct cli_darc_session *s)
{
	return cli_darc_session_has_ended(s)
		       ? ip_error("pid %d: the session of iprobe darc has ended", s->options.pid)
		       : 0;
}

/* On a busy machine threads may get no CPU for a while: a search does not end for that. */
static int change(struct cli_darc_session *s, const char *selection)
{
	const uint64_t end = ip_now_ns() + VAIN_NS;
	struct ip_session_summary done;

	for (;;) {
		if (check_session(s) < 0)
			return -1;
		if (ip_session_ask_change(s->options.pid, s->child, selection,
					  s->options.max_stop_ns, &done) == 0)
			break;
		if (!done.in_vain || ip_now_ns() >= end ||
		    !s->options.rest(s->options.context, VAIN_NAP_NS))
			return -1;
	}
	s->changes++;
	ip_clock_read(&s->changed);
	free(done.change.dir);
	free(done.change.unused);
	return 0;
}

/* Asks for names that are in one list and not in the other. before: what stands before each. */
static int ask(struct cli_darc_session *s, char *const *names, size_t n, char *const *others,
	       size_t nothers, const char *before)
{
	size_t size = 0, used = 0, k = 0;
	_cleanup_free_ char *text = NULL;

	for (size_t i = 0; i < n; i++)
		size += 2 * strlen(names[i]) + 3;
	text = malloc(size + 1);
	if (!text)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *item = NULL;

		while (k < nothers && strcmp(others[k], names[i]) < 0)
			k++;
		if (k < nothers && !strcmp(others[k], names[i]))
			continue;
		item = ip_selection_quote(names[i], strlen(names[i]));
		if (!item)
			return -1;
		used += sprintf(text + used, "%s%s%s", used ? "," : "", before, item);
		if (used >= SELECTION_MOST) {
			if (change(s, text) < 0)
				return -1;
			used = 0;
		}
	}
	return used ? change(s, text) : 0;
}

static void free_live(struct cli_darc_session *s)
{
	for (size_t i = 0; i < s->nlive; i++)
		free(s->live[i]);
	free(s->live);
	s->live = NULL;
	s->nlive = 0;
}

int cli_darc_session_select(struct cli_darc_session *s, char *const *names, size_t n)
{
	char **live = copy_names(names, n);

	if (!live)
		return -1;
	/* first away with what is not needed: so there are never more than wanted */
	if (ask(s, s->live, s->nlive, names, n, "!") < 0 ||
	    ask(s, names, n, s->live, s->nlive, "") < 0) {
		while (n)
			free(live[--n]);
		free(live);
		return -1;
	}
	free_live(s);
	s->live = live;
	s->nlive = n;
	s->nmost = n > s->nmost ? n : s->nmost;
	return 0;
}

void cli_darc_session_describe(struct cli_darc_session *s, const char *text, size_t size)
{
	const struct ip_dir_place place = {s->trace.lock, DESCRIPTION};

	cli_darc_state_put(&place, text, size, false);
}

int cli_darc_session_write(struct cli_darc_session *s, uint64_t *ret_overwritten)
{
	struct ip_session_snapshot done;
	char next[sizeof(s->moment)];

	/* the moment before stays: it is what is known where the session has ended */
	do
		snprintf(next, sizeof(next), "%s.moment%zu", s->trace.dir, s->moments++ % 3);
	while (!strcmp(next, s->moment) || !strcmp(next, s->kept));
	ip_dir_remove(s->trace.lock, strrchr(next, '/') + 1);
	if (check_session(s) < 0 ||
	    ip_session_ask_snapshot(s->options.pid, s->child, next, &s->changed, &done) < 0)
		return -1;
	memcpy(s->moment, next, sizeof(s->moment));
	*ret_overwritten = done.overwritten;
	return 0;
}

void cli_darc_session_keep(struct cli_darc_session *s)
{
	memcpy(s->kept, s->moment, sizeof(s->kept));
}

void cli_darc_session_detach(struct cli_darc_session *s)
{
	if (!s->child)
		return;
	kill(s->child, SIGTERM);
	while (waitpid(s->child, &s->status, 0) < 0 && errno == EINTR)
		;
	s->child = 0;
}

int cli_darc_session_end(struct cli_darc_session *s)
{
	cli_darc_session_detach(s);
	if (WIFSIGNALED(s->status)) {
		ip_error("pid %d: the process of the session was killed (signal %d): iprobe "
			 "detach %d puts every byte back",
			 s->options.pid, WTERMSIG(s->status), s->options.pid);
		cli_fail();
	}
	free_live(s);
	if (s->stops)
		munmap(s->stops, sizeof(*s->stops));
	s->stops = NULL;
	cli_temporary_trace_clear(&s->trace);
	return WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 1;
}
