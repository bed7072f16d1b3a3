/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe top with several processes: which of them have sessions to join, and the sessions of the
 * others.
 *
 * The sessions of iprobe top's own are those of a service (service/service.h): a worker for each
 * process, which tells by the pipe of iprobe top when it is live. A process that has a session
 * already is left to that by the worker. A process that this user may not trace is measured by
 * iprobed (top_daemon.c). iprobe top finds it by asking: at the beginning, and again
 * while it runs, since another iprobe may come to record a process of the choice.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/record/attach.h"
#include "cli/record/daemon_events.h"
#include "cli/record/shared_notice.h"
#include "cli/record/via_daemon.h"
#include "cli/top/top_private.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/trace/trace_members.h"
#include "common/units.h"
#include "service/service.h"

#define LOOKS 3 /* so many times a process that has no session yet is asked for one */

/* ---- the sessions of iprobe top's own ---- */

struct service {
	const struct cli_top_options *options;
	const char *dir;
	int live; /* the pipe */
	uint64_t calls, longest_stop_ns;
	size_t recorded, joined;
	char why[1024]; /* of the first process that has nothing to measure */
};

struct worker_context {
	int socket, live;
};

static void tell_live(void *context)
{
	const struct worker_context *c = context;
	ssize_t ignored = write(c->live, "", 1);

	(void)ignored;
	ip_service_worker_say_live(c->socket, false);
}

static void fill(struct ip_service_worker_result *r, const struct ip_session_summary *s, int code)
{
	r->events = s->calls;
	r->functions = s->functions;
	r->longest_stop_ns = ip_stop_log_longest(&s->stops);
	r->recorded = s->recorded;
	r->followed = s->followed;
	r->none = s->nothing;
	if (code)
		snprintf(r->why, sizeof(r->why), "%s", ip_error_message());
}

/* Each session has a reader of its own where iprobed reads for this user. Where it refuses, calls
 * are measured without what they wait for, which is told once. */
static void open_events(pid_t pid, struct ip_kernel_options *kernel,
			struct cli_daemon_events *events)
{
	*events = (struct cli_daemon_events){.connection = -1};
	if (!kernel->groups)
		return;
	if (cli_daemon_events_open(pid, kernel, true, events) >= 0) {
		kernel->reader = events->reader;
		return;
	}
	kernel->groups = 0;
	if (!cli_told_before(ip_error_message()))
		ip_print(stderr, "iprobe: no waits are shown: %s\n", ip_error_message());
}

static int work(void *context, const struct ip_service_task *task, int socket,
		struct ip_service_worker_result *result)
{
	const struct service *s = context;
	struct worker_context own = {socket, s->live};
	struct ip_session_service service = {.dir = task->dir,
					     .name = task->name,
					     .written = task->written,
					     .parent = getppid(),
					     .own_kernel = true};
	struct ip_session_options options = {.functions = s->options->functions,
					     .own = "iprobe top's own recording",
					     .duration_ns = task->left_ns,
					     .memory = s->options->memory,
					     .max_stop_ns = s->options->max_stop_ns,
					     .marks_tails = true,
					     .kernel = s->options->kernel,
					     .started = task->started,
					     .service = &service,
					     .on_live = tell_live,
					     .context = &own};
	_cleanup_free_ char *dir = NULL, *joined = NULL;
	struct ip_session_summary summary = {0};
	struct cli_daemon_events events;
	int code;

	cli_catch_signals();
	if (asprintf(&dir, "%s/%s", s->dir, task->name) < 0) {
		dir = NULL;
		ip_error("out of memory");
		return cli_fail();
	}
	if (!s->options->memory_asked)
		options.memory = ip_service_memory(options.memory, task->n);
	code = cli_may_trace(task->pid) ? ip_session_join(task->pid, &joined) : 1;
	if (code == 0) {
		result->followed = true; /* its session is joined */
		return 0;
	}
	if (code > 0) {
		int asked = cli_top_via_daemon(s->options, task, dir, tell_live, &own, result);

		if (asked >= 0)
			return asked;
	}
	if (code < 0)
		return cli_fail();
	open_events(task->pid, &options.kernel, &events);
	if (cli_top_choose_payload(&options, task->pid) < 0)
		return cli_fail();
	options.dir = dir;
	code = ip_session_attach(task->pid, &options, &summary) < 0;
	cli_daemon_events_close(&events);
	fill(result, &summary, code);
	/* a process that was found and has nothing to measure is not named */
	if (code && (task->named || !summary.nothing))
		cli_fail();
	return code;
}

static void take_result(void *context, const struct ip_service_worker *worker, const char *name)
{
	struct service *s = context;
	const struct ip_service_worker_result *r = worker->result;

	s->recorded += r->recorded;
	s->joined += r->followed;
	s->calls += r->events;
	if (r->longest_stop_ns > s->longest_stop_ns)
		s->longest_stop_ns = r->longest_stop_ns;
	if (!*s->why)
		snprintf(s->why, sizeof(s->why), "%s", r->why);
}

static void restore(void *context, pid_t pid)
{
	cli_detach_left(pid);
}

/* done: 1: a process that was named could not be measured, which has been told. */
static int tell_sum(const struct service *s, int done)
{
	char count[32], longest[16];

	if (s->recorded) {
		ip_print(stderr,
			 "iprobe: %s call%s of %zu process%s; no stop longer than %s; every byte "
			 "is back\n",
			 ip_format_count(s->calls, count), ip_plural(s->calls), s->recorded,
			 s->recorded == 1 ? "" : "es", ip_format_ns(s->longest_stop_ns, longest));
		return done;
	}
	if (s->joined || done)
		return done;
	ip_error("none of these processes can be measured: %s", s->why);
	return cli_fail();
}

int cli_top_service_run(const struct cli_top_options *o, const char *dir, int live)
{
	struct service s = {.options = o, .dir = dir, .live = live};
	const struct ip_service_options options = {.choice = o->choice,
						   .dir = dir,
						   .duration_ns = o->duration_ns,
						   .work = work,
						   .on_end = take_result,
						   .restore = restore,
						   .context = &s};
	struct ip_service_sum sum;
	int done;

	cli_told_once_begin();
	done = ip_service_record(&options, &sum);
	if (done < 0)
		return cli_fail();
	return tell_sum(&s, done);
}

/* ---- iprobe top's side ---- */

struct cli_top_seen {
	pid_t pid;
	uint64_t started;
	unsigned looks;
};

/* Returns how often the process has been looked at, to be counted up. NULL: out of memory. */
static unsigned *looks_at(struct cli_top_service *s, const struct ip_service_process *p)
{
	for (size_t i = 0; i < s->nseen; i++)
		if (s->seen[i].pid == p->pid && s->seen[i].started == p->started)
			return &s->seen[i].looks;
	if (ip_array_grow(&s->seen, s->nseen, sizeof(*s->seen)) < 0)
		return NULL;
	s->seen[s->nseen] = (struct cli_top_seen){.pid = p->pid, .started = p->started};
	return &s->seen[s->nseen++].looks;
}

int cli_top_service_begin(struct cli_top_service *s, struct cli_live_counts *counts,
			  struct cli_top_cpu *cpu)
{
	struct ip_service_processes found;
	int others = 0;

	if (ip_service_processes_find(&s->choice, &found) < 0)
		return -1;
	for (size_t i = 0; i < found.n; i++) {
		char *dir = NULL;
		unsigned *looks = looks_at(s, &found.items[i]);

		/* the worker says what is wrong with a process */
		if (looks && ip_session_join(found.items[i].pid, &dir) == 0) {
			*looks = LOOKS;
			if (cli_live_counts_add(counts, found.items[i].pid, dir, true) < 0)
				looks = NULL;
		} else {
			others++;
			if (cli_top_cpu_begin(cpu, found.items[i].pid) < 0)
				looks = NULL;
		}
		if (!looks) {
			ip_service_processes_clear(&found);
			return -1;
		}
	}
	/* a pid that does not exist is for the service to tell */
	others += found.n < s->choice.npids;
	ip_service_processes_clear(&found);
	return others || !counts->n;
}

/* Looks for processes whose sessions other commands have begun by now. */
static int look(struct cli_top_service *s, struct cli_live_counts *counts)
{
	struct ip_service_processes found;
	int ret = 0;

	if (!ip_service_choice_is_open(&s->choice))
		return 0;
	if (ip_service_processes_find(&s->choice, &found) < 0)
		return -1;
	for (size_t i = 0; i < found.n && ret == 0; i++) {
		const pid_t pid = found.items[i].pid;
		unsigned *looks = looks_at(s, &found.items[i]);
		char *dir = NULL;

		if (!looks)
			ret = -1;
		else if (*looks < LOOKS && !cli_live_counts_find(counts, pid) && ++*looks &&
			 ip_session_ask_counts(pid, &dir) == 0) {
			*looks = LOOKS;
			ret = cli_live_counts_add(counts, pid, dir, true);
		}
	}
	ip_service_processes_clear(&found);
	return ret;
}

/* Adds the members that the service has announced. */
static int add_members(struct cli_live_counts *counts, const char *dir)
{
	struct ip_trace_members list;
	_cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int ret = 0;

	if (fd < 0 || ip_trace_members_read(fd, dir, &list) != 0)
		return 0; /* it is not there yet, or not any more */
	for (size_t i = 0; i < list.n && ret == 0; i++) {
		char *path;

		if (asprintf(&path, "%s/%s", dir, list.items[i].name) < 0)
			ret = ip_error("out of memory");
		else
			ret = cli_live_counts_add(counts, list.items[i].pid, path, false);
	}
	ip_trace_members_clear(&list);
	return ret;
}

int cli_top_service_look(struct cli_top_service *s, struct cli_live_counts *counts, const char *dir)
{
	if (dir && add_members(counts, dir) < 0)
		return -1;
	return look(s, counts);
}

void cli_top_service_clear(struct cli_top_service *s)
{
	free(s->seen);
}
