/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker of fperf does for one of several processes. See fperf_worker.h.
 */
#include "cli/fperf/fperf_worker.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fperf/fperf_run.h"
#include "cli/fperf/fperf_service.h"
#include "cli/record/via_daemon.h"
#include "common/error.h"
#include "common/print.h"

static void tell_live(void *context)
{
	ip_service_worker_say_live(*(const int *)context, false);
}

struct service {
	struct fperf_options *options;
	int argc;
	char **argv;
};

/* Has iprobed count one of several processes, in a worker. What it prints is as of one process: its
 * name stands above it. Returns -1: this process is to do it; else the exit code. */
static int ask_daemon_for_one(const struct fperf_options *o, const struct service *s)
{
	const bool table = o->format == FPERF_TABLE;
	int socket = -1, wanted = cli_via_daemon_wanted(o->pid, &socket), code;

	if (wanted <= 0)
		return wanted < 0 ? cli_fail() : -1;
	close(socket);
	if (table)
		ip_print(stdout, "pid %d (%s)\n", o->pid, o->program);
	code = fperf_run_by_daemon(o, s->argc, s->argv);
	if (table && !code)
		ip_print(stdout, "\n");
	return code;
}

/* Counts one of several processes, in a worker. */
static int work(void *context, const struct ip_service_task *task, int socket,
		struct ip_service_worker_result *result)
{
	const struct service *s = context;
	struct fperf_options o = *s->options;
	struct ip_session_summary summary = {0};
	struct fperf_output output = {0};
	int code;

	o.pid = task->pid;
	o.program = task->comm;
	o.found = !task->named;
	o.little = &result->little;
	o.session.duration_ns = task->left_ns;
	if (!o.memory_given)
		o.session.memory = ip_service_memory(o.session.memory, task->n);
	o.session.started = task->started;
	o.session.on_live = tell_live;
	o.session.context = &socket;
	code = ask_daemon_for_one(&o, s);
	if (code < 0)
		code = fperf_run(&o, &output, NULL, &summary);
	result->recorded = !code;
	result->none = summary.nothing;
	if (code)
		snprintf(result->why, sizeof(result->why), "%s", ip_error_message());
	return code;
}

int fperf_worker_run_all(struct fperf_options *o, struct fperf_output *output, int argc,
			 char **argv)
{
	struct service own = {o, argc, argv};
	const struct fperf_service service = {.choice = o->choice,
					      .duration_ns = o->session.duration_ns,
					      .json = o->format == FPERF_JSON,
					      .quiet = o->quiet,
					      .out = output->file ? output->file : stdout,
					      .work = work,
					      .context = &own};
	bool written;
	int code = fperf_service_run(&service, &written);

	fperf_output_close(o, output, written);
	return code;
}
