/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command for several processes. See each_process.h.
 */
#include "cli/args/each_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "service/workers.h"

#define POLL_MS 100

struct errand {
	int (*one)(void *context, const struct ip_service_process *process);
	void *context;
	const struct ip_service_process *process;
};

static int work(void *context, pid_t target, int socket, struct ip_service_worker_result *result)
{
	static char line[65536];
	const struct errand *e = context;

	setvbuf(stderr, line, _IOLBF, sizeof(line)); /* lines of several must not mix */
	return e->one(e->context, e->process);
}

static int run(const struct ip_service_processes *found, struct ip_service_worker *workers,
	       struct errand *e)
{
	_cleanup_free_ struct ip_service_worker **all = calloc(found->n + 1, sizeof(*all));
	size_t started = 0, ended = 0;
	int ret = all ? 0 : ip_error("out of memory");

	for (; ret == 0 && started < found->n; started++) {
		e->process = &found->items[started];
		ret = ip_service_worker_start(&workers[started], e->process->pid, work, e);
		if (ret < 0)
			break;
		all[started] = &workers[started];
	}
	while (all && ended < started) {
		int n = ip_service_workers_poll(all, started, POLL_MS);

		if (n < 0)
			return -1;
		ended += n;
	}
	return ret;
}

static void print(const struct ip_service_processes *found, struct ip_service_worker *workers,
		  bool json)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	if (json)
		ip_json_array(&j, NULL);
	for (size_t i = 0; i < found->n; i++) {
		_cleanup_free_ char *text = ip_service_worker_output(&workers[i]);

		if (!text)
			cli_fail();
		else if (json && *text)
			ip_json_raw(&j, NULL, (text[strcspn(text, "\n")] = '\0', text));
		else if (!json)
			ip_print_lines(stdout, text);
	}
	if (json)
		ip_json_end_array(&j);
}

/* Processes that are named by pid and do not exist. Returns whether there are any. */
static bool tell_missing(const struct ip_service_choice *choice,
			 const struct ip_service_processes *found)
{
	bool any = false;

	for (size_t i = 0; i < choice->npids; i++)
		if (!ip_service_processes_get(found, choice->pids[i])) {
			ip_error("pid %d does not exist (any more)", choice->pids[i]);
			cli_fail();
			any = true;
		}
	return any;
}

int cli_each_process(const struct ip_service_choice *choice, bool json,
		     int (*one)(void *context, const struct ip_service_process *process),
		     void *context)
{
	struct errand e = {.one = one, .context = context};
	struct ip_service_processes found;
	struct ip_service_worker *workers;
	bool failed, any = false;
	int code = 0;

	if (ip_service_processes_find(choice, &found) < 0)
		return cli_fail();
	failed = tell_missing(choice, &found);
	if (!found.n && !failed) {
		_cleanup_free_ char *text = ip_service_choice_text(choice);

		ip_error("no process matches %s", text ? text : "this");
		return cli_fail();
	}
	workers = calloc(found.n + 1, sizeof(*workers));
	for (size_t i = 0; workers && i < found.n; i++)
		workers[i] = (struct ip_service_worker){.socket = -1, .out = -1};
	if (!workers || run(&found, workers, &e) < 0)
		code = cli_fail();
	else
		print(&found, workers, json);
	for (size_t i = 0; workers && i < found.n; i++) {
		failed |= workers[i].code && found.items[i].named;
		any |= !workers[i].code;
		ip_service_worker_clear(&workers[i]);
	}
	free(workers);
	code = code || failed || !any;
	ip_service_processes_clear(&found);
	return code;
}
