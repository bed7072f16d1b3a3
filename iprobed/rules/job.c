/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running commands. See job.h.
 */
#include "iprobed/rules/job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/now.h"
#include "iprobed/worker.h"

#define TIMEOUT_NS 30000000000ull
#define VARIABLES  16

static void fail(const char *what)
{
	ip_notice("%s: %s", what, strerror(errno));
	_exit(1);
}

/* Puts n descriptors in their places, from first on. The present numbers may overlap with the
 * places. */
static int put_in_place(const int *fds, size_t n, int first)
{
	_cleanup_free_ int *from = calloc(n + 1, sizeof(*from));

	if (!from)
		return -1;
	for (size_t i = 0; i < n; i++)
		if ((from[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, first + (int)n)) < 0)
			return -1;
	for (size_t i = 0; i < n; i++)
		if (dup2(from[i], first + (int)i) < 0)
			return -1;
	return 0;
}

/* streams: input, output and errors. */
static void run_child(char *const *argv, char **env, const char *directory, const int streams[3],
		      const int *pidfds, size_t n, pid_t parent)
{
	/* the user of the rules has set no limits */
	const struct ip_peer_limits none_of_his = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	sigset_t none;
	int moved[3];

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(077);
	for (int i = 0; i < 3; i++)
		if ((moved[i] = fcntl(streams[i], F_DUPFD_CLOEXEC, IP_RULES_JOB_TARGET + (int)n)) <
		    0)
			_exit(1);
	if (put_in_place(pidfds, n, IP_RULES_JOB_TARGET) < 0 || put_in_place(moved, 3, 0) < 0)
		fail("descriptors");
	if (setsid() < 0 || syscall(SYS_close_range, IP_RULES_JOB_TARGET + n, ~0u, 0) < 0)
		fail("cannot start");
	if (ip_worker_set_limits(&none_of_his) < 0)
		fail("limits");
	if (chdir(directory) < 0)
		fail(directory);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		fail("who started it has ended");
	execve(argv[0], argv, env);
	fail(argv[0]);
}

static int make_pipe(int *ret_read, int *ret_write)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return ip_error_errno("cannot make a pipe");
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	*ret_read = ends[0];
	*ret_write = ends[1];
	return 0;
}

/* Adds NAME=VALUE, or puts it in the place of another value. */
static void set_variable(char *env[VARIABLES], char *variable)
{
	const size_t name = strcspn(variable, "=") + 1;
	size_t i = 0;

	while (env[i] && strncmp(env[i], variable, name))
		i++;
	if (i < VARIABLES - 1)
		env[i] = variable;
}

int ip_rules_job_start(struct ip_rules_job *job, char *const *argv, const char *directory,
		       const int *pidfds, size_t n, char *const *environment)
{
	char *env[VARIABLES] = {IP_WORKER_ENVIRONMENT};
	_cleanup_close_ int null = open("/dev/null", O_RDONLY | O_CLOEXEC), out = -1, err = -1;
	pid_t parent = getpid();

	*job = (struct ip_rules_job){.out = -1, .err = -1, .since_ns = ip_now_ns()};
	for (size_t i = 0; environment && environment[i]; i++)
		set_variable(env, environment[i]);
	if (null < 0 || make_pipe(&job->out, &out) < 0 || make_pipe(&job->err, &err) < 0) {
		ip_rules_job_clear(job);
		return -1;
	}
	fflush(NULL);
	job->pid = fork();
	if (job->pid == 0)
		run_child(argv, env, directory, (const int[3]){null, out, err}, pidfds, n, parent);
	if (job->pid > 0)
		return 0;
	job->pid = 0;
	ip_error_errno("cannot start %s", argv[0]);
	ip_rules_job_clear(job);
	return -1;
}

static void take_word(struct ip_rules_job *job, char c)
{
	if (job->ended_line && c != '\n') {
		job->nword = 0;
		job->ended_line = false;
	}
	if (c == '\n')
		job->ended_line = true;
	else if (job->nword < sizeof(job->word) - 1)
		job->word[job->nword++] = c;
	job->word[job->nword] = '\0';
}

/* Returns what follows the next "key": in the text, without leading blanks. Quotes inside of texts
 * are escaped, so nothing else looks like a key. NULL: there is none. */
static const char *find_next(const char *text, const char *key)
{
	char name[64];
	const char *p;

	snprintf(name, sizeof(name), "\"%s\":", key);
	p = text ? strstr(text, name) : NULL;
	return p ? p + strlen(name) + strspn(p + strlen(name), " ") : NULL;
}

static const char *find(const struct ip_rules_job *job, const char *key)
{
	return find_next(job->text, key);
}

static void listen(struct ip_rules_job *job)
{
	char buffer[4096], *grown;
	ssize_t n;

	while (job->err >= 0 && (n = read(job->err, buffer, sizeof(buffer))) > 0)
		for (ssize_t i = 0; i < n; i++)
			take_word(job, buffer[i]);
	while (job->out >= 0 && (n = read(job->out, buffer, sizeof(buffer))) > 0) {
		if (job->ntext + n > IP_RULES_JOB_TEXT)
			continue;
		grown = realloc(job->text, job->ntext + n + 1);
		if (!grown)
			continue;
		job->text = grown;
		memcpy(job->text + job->ntext, buffer, n);
		job->ntext += n;
		job->text[job->ntext] = '\0';
	}
	job->live = job->live || find(job, "live");
}

void ip_rules_job_end(struct ip_rules_job *job, uint64_t now_ns)
{
	if (!job->pid || job->told_ns)
		return;
	/* it has not been reaped, so the pid is its own */
	kill(job->pid, SIGTERM);
	job->told_ns = now_ns;
}

bool ip_rules_job_step(struct ip_rules_job *job, uint64_t now_ns)
{
	int status;
	pid_t done = waitpid(job->pid, &status, WNOHANG | WUNTRACED);

	listen(job);
	if (done == job->pid && WIFSTOPPED(status)) {
		/* It might keep the target stopped. When a tracer is killed, the kernel lets its
		 * tracees go. */
		kill(job->pid, SIGKILL);
	} else if (done == job->pid || (done < 0 && errno == ECHILD)) {
		job->status = done < 0 ? 0 : status;
		job->pid = 0;
		return true;
	}
	if (job->limit_ns && now_ns >= job->limit_ns)
		ip_rules_job_end(job, now_ns);
	if (job->told_ns && now_ns - job->told_ns > TIMEOUT_NS)
		kill(job->pid, SIGKILL);
	return false;
}

bool ip_rules_job_ended_unbegun(const struct ip_rules_job *job)
{
	return job->told_ns && WIFSIGNALED(job->status) && WTERMSIG(job->status) == SIGTERM;
}

void ip_rules_job_clear(struct ip_rules_job *job)
{
	if (job->out >= 0)
		close(job->out);
	if (job->err >= 0)
		close(job->err);
	free(job->text);
	*job = (struct ip_rules_job){.out = -1, .err = -1};
}

double ip_rules_job_figure(const struct ip_rules_job *job, const char *key)
{
	const char *p = find(job, key);
	double sum = 0;
	char *end;

	if (!p)
		return 0;
	if (*p != '[')
		return strtod(p, NULL);
	for (p++;; p = end + 1) {
		double one = strtod(p, &end);

		if (end == p)
			return sum;
		sum += one;
		if (*end != ',')
			return sum;
	}
}

double ip_rules_job_figure_in(const struct ip_rules_job *job, const char *object, const char *key)
{
	const char *p = find_next(find(job, object), key);

	return p ? strtod(p, NULL) : 0;
}

double ip_rules_job_sum(const struct ip_rules_job *job, const char *key)
{
	double sum = 0;

	for (const char *p = job->text; (p = find_next(p, key));)
		sum += strtod(p, NULL);
	return sum;
}

pid_t ip_rules_job_taken_by(const struct ip_rules_job *job)
{
	const double iprobe = ip_rules_job_figure(job, "taken_by");

	return WIFEXITED(job->status) && WEXITSTATUS(job->status) && iprobe >= 1 &&
			       iprobe <= INT_MAX
		       ? (pid_t)iprobe
		       : 0;
}

/* Copies a text that begins at p, with its quote. */
static bool copy_string(const char *p, char *buffer, size_t size)
{
	size_t n = 0;

	*buffer = '\0';
	if (!p || *p++ != '"')
		return false;
	for (; *p && *p != '"' && n < size - 1; p++) {
		if (*p == '\\' && p[1])
			p++;
		buffer[n++] = *p;
	}
	buffer[n] = '\0';
	return true;
}

bool ip_rules_job_is(const struct ip_rules_job *job, const char *key, const char *word)
{
	const char *p = find(job, key);

	return p && !strncmp(p, word, strlen(word));
}

bool ip_rules_job_string(const struct ip_rules_job *job, const char *key, char *buffer, size_t size)
{
	const char *p = find(job, key);

	return p && *p == '"' && copy_string(p, buffer, size);
}

bool ip_rules_job_absent(const struct ip_rules_job *job, size_t i, size_t *ret_condition,
			 char *nearest, size_t size)
{
	const char *p = find(job, "until_absent");

	if (!WIFEXITED(job->status) || !WEXITSTATUS(job->status))
		return false;
	for (size_t k = 0; p && k <= i; k++)
		p = find_next(p, "condition");
	if (!p)
		return false;
	*ret_condition = strtoul(p, NULL, 10);
	copy_string(find_next(p, "nearest"), nearest, size);
	return true;
}
