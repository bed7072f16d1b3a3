/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records into a temporary directory.
 *
 *   1. Directories of the same user that nobody has locked are removed: their iprobe was killed.
 *      They have a name as step 2 makes it, and hold nothing but traces: others are the user's.
 *   2. A directory is made, and locked (flock(2)). If another iprobe was in its step 1 just then,
 *      and has locked or removed it, another one is made.
 *   3. The trace is recorded in it.
 *   4. It is read. A signal may end that: a thread waits for it, which removes the directory and
 *      lets the signal end the process then. All other threads have these signals blocked.
 *   5. The thread is ended, and the directory removed. A signal that comes meanwhile ends the
 *      process afterwards. The lock ends with its descriptor, whatever becomes of this process.
 */
#include "cli/record/temporary_trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/interrupted.h"
#include "common/trace/trace_format.h"

#define PREFIX	   "iprobe-recorded"
#define TRACE	   "trace"
#define TRIES_MOST 16u

static const char *above(void)
{
	const char *at = getenv("TMPDIR");

	return at && *at ? at : "/tmp";
}

/* Whether ip_dir_make_temporary() makes such names. */
static bool is_made(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	const char *suffix = name + strlen(PREFIX ".");

	return !strncmp(name, PREFIX ".", strlen(PREFIX ".")) && strlen(suffix) == 12 &&
	       strspn(suffix, letters) == 12;
}

static bool holds_only_a_trace(int fd)
{
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = own < 0 ? NULL : fdopendir(own);
	if (!dir) {
		if (own >= 0)
			close(own);
		return false;
	}
	errno = 0;
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
		    strncmp(entry->d_name, TRACE, strlen(TRACE)))
			return false;
	return !errno;
}

/* Step 1. What cannot be removed stays: it is not worth a word. */
static void remove_left(void)
{
	_cleanup_closedir_ DIR *dir = opendir(above());
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_close_ int fd = -1;

		if (!is_made(entry->d_name))
			continue;
		fd = ip_dir_open(dirfd(dir), entry->d_name);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && holds_only_a_trace(fd))
			ip_dir_remove(dirfd(dir), entry->d_name);
	}
}

/* Step 2. */
int cli_temporary_trace_make(struct cli_temporary_trace *t)
{
	int fd;

	*t = (struct cli_temporary_trace){.place.parent = -1, .lock = -1};
	remove_left();
	for (unsigned i = 0; i < TRIES_MOST; i++) {
		fd = ip_dir_make_temporary(above(), PREFIX, &t->place);
		if (fd < 0)
			return -1;
		t->lock = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		if (t->lock >= 0 && flock(t->lock, LOCK_EX | LOCK_NB) == 0 &&
		    ip_dir_is_at(t->place.parent, t->place.name, t->lock))
			break;
		if (t->lock >= 0)
			close(t->lock);
		t->lock = -1;
		ip_dir_place_close(&t->place);
		t->place.parent = -1;
	}
	if (t->lock < 0)
		return ip_error("cannot make a directory in %s (TMPDIR names another place)",
				above());
	if ((size_t)snprintf(t->dir, sizeof(t->dir), "%s/%s/" TRACE, above(), t->place.name) >=
	    sizeof(t->dir))
		return ip_error("TMPDIR is too long");
	return 0;
}

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define NENDS (sizeof(ends) / sizeof(ends[0]))

static sigset_t end_set(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < NENDS; i++)
		sigaddset(&set, ends[i]);
	return set;
}

/* Step 4, in the thread. */
static void *guard(void *context)
{
	struct cli_temporary_trace *t = context;
	const sigset_t set = end_set();
	int got;

	while (sigwait(&set, &got) != 0)
		;
	if (__atomic_load_n(&t->over, __ATOMIC_ACQUIRE))
		return NULL;
	ip_dir_remove(t->place.parent, t->place.name);
	kill(getpid(), got);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + got); /* the first process of a pid namespace is not ended by it */
}

/* Without it a signal ends the process at once, and the next iprobe removes the directory. */
static void begin_guard(struct cli_temporary_trace *t)
{
	const sigset_t set = end_set();

	pthread_sigmask(SIG_BLOCK, &set, NULL);
	t->guarded = pthread_create(&t->guard, NULL, guard, t) == 0;
	if (!t->guarded)
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Step 5. */
void cli_temporary_trace_clear(struct cli_temporary_trace *t)
{
	const sigset_t set = end_set();

	if (t->lock < 0)
		return;
	if (t->guarded) {
		__atomic_store_n(&t->over, true, __ATOMIC_RELEASE);
		pthread_kill(t->guard, ends[0]);
		pthread_join(t->guard, NULL);
	}
	ip_dir_remove(t->place.parent, t->place.name);
	if (t->guarded)
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	t->guarded = false;
	ip_dir_place_close(&t->place);
	close(t->lock);
	t->lock = -1;
}

/* Another iprobe's session would be changed, and there would be no trace here. */
static int check_session(pid_t pid)
{
	char *dir = NULL;
	int found = ip_session_join(pid, &dir);

	if (found == 0)
		ip_error("pid %d is recorded by another iprobe already, into %s: look at that "
			 "trace when it has ended",
			 pid, dir);
	free(dir);
	return found > 0 ? 0 : -1;
}

/* A process that is named is checked even if it is not there: that tells it. */
static int check_sessions(const struct ip_service_choice *choice)
{
	struct ip_service_processes found;
	int ret = 0;

	if (cli_is_one_process(choice))
		return check_session(choice->pids[0]);
	if (ip_service_processes_find(choice, &found) < 0)
		return -1;
	for (size_t i = 0; ret == 0 && i < found.n; i++)
		ret = check_session(found.items[i].pid);
	ip_service_processes_clear(&found);
	return ret;
}

int cli_recording_word(struct cli_recording_request *request, const char *word)
{
	if (ip_array_grow(&request->words, request->n, sizeof(*request->words)) < 0)
		return -1;
	request->words[request->n++] = word;
	return 0;
}

/* An iprobe attach with the words of the request. What -p, --name and the like have chosen is known
 * to it already (cli/args/processes.h). */
static int attach(const struct cli_recording_request *request, char *dir)
{
	char command[] = "attach", quiet[] = "-q", kernel[] = "--kernel", output[] = "-o";
	char *const first[] = {command, quiet, kernel, output, dir};
	const size_t n = sizeof(first) / sizeof(*first);
	_cleanup_free_ char **words = calloc(n + request->n + 1, sizeof(*words));

	if (!words) {
		ip_error("out of memory");
		return cli_fail();
	}
	memcpy(words, first, sizeof(first));
	for (size_t i = 0; i < request->n; i++)
		words[n + i] = (char *)request->words[i];
	optind = 0; /* getopt_long() begins anew */
	return cmd_attach((int)(n + request->n), words);
}

int cli_record_first(const struct cli_recording_request *request,
		     const struct ip_service_choice *choice, struct cli_temporary_trace *ret)
{
	struct stat st;
	int code;

	*ret = (struct cli_temporary_trace){.place.parent = -1, .lock = -1};
	if (check_sessions(choice) < 0)
		return cli_fail();
	if (request->output)
		snprintf(ret->dir, sizeof(ret->dir), "%s", request->output);
	if (request->output && strlen(request->output) >= sizeof(ret->dir)) {
		ip_error("-o: the path is too long");
		return cli_fail();
	}
	if (!request->output && cli_temporary_trace_make(ret) < 0)
		return cli_fail();
	code = attach(request, ret->dir);
	/* of several, others may have been recorded */
	if (code && (cli_is_one_process(choice) || stat(ret->dir, &st) < 0))
		return code;
	ret->code = code;
	if (stat(ret->dir, &st) < 0) {
		ip_error("nothing was recorded");
		return cli_fail();
	}
	/* what follows is over at once when the user wants that */
	signal(SIGPIPE, SIG_IGN);
	if (ret->lock >= 0)
		begin_guard(ret);
	ip_interrupted = 0;
	for (size_t i = 0; i < NENDS; i++)
		signal(ends[i], SIG_DFL);
	return -1;
}
