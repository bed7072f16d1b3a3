/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command for several processes. See each_process.h.
 */
#include "cli/args/each_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args/processes.h"
#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/proc.h"
#include "service/workers.h"

#define POLL_MS 100
#define AT_ONCE 64u /* workers: each has two descriptors, and memory of its own */

struct errand {
	int (*one)(void *context, const struct ip_service_process *process);
	void *context;
	const struct ip_service_process *process;
	struct ip_service_worker *workers; /* of all; started: so many were started before */
	size_t started;
};

static int work(void *context, pid_t target, int socket, struct ip_service_worker_result *result)
{
	const struct errand *e = context;

	for (size_t i = 0; i < e->started; i++)
		ip_service_worker_release(&e->workers[i]);
	/* the kernel may have given the number to another process since it was chosen */
	if (ip_proc_started_at(target) != e->process->started) {
		ip_error("pid %d has ended", target);
		return cli_fail();
	}
	return e->one(e->context, e->process);
}

/* What a worker has written, once it has ended. */
static void take_output(struct ip_service_worker *worker, char **text)
{
	*text = ip_service_worker_output(worker);
	if (!*text)
		cli_fail();
	ip_service_worker_release(worker);
}

/* Fills in the texts, and the codes of the workers. */
static int run(const struct ip_service_processes *found, struct errand *e, char **texts)
{
	struct ip_service_worker *now[AT_ONCE]; /* that have not ended */
	size_t n = 0;

	while (e->started < found->n || n) {
		for (; e->started < found->n && n < AT_ONCE; e->started++) {
			struct ip_service_worker *worker = &e->workers[e->started];

			e->process = &found->items[e->started];
			if (ip_service_worker_start(worker, e->process->pid, work, e) == 0)
				now[n++] = worker;
			else
				worker->code = cli_fail();
		}
		if (ip_service_workers_poll(now, n, POLL_MS) < 0)
			return -1;
		for (size_t i = 0; i < n;) {
			if (now[i]->pid) {
				i++;
				continue;
			}
			take_output(now[i], &texts[now[i] - e->workers]);
			now[i] = now[--n];
		}
	}
	return 0;
}

/* Whether one of the texts has the line, which ends with a newline. */
static bool had(char *const *texts, size_t n, const char *line, size_t length)
{
	for (size_t i = 0; i < n; i++)
		for (const char *at = texts[i]; at && *at;) {
			const char *end = strchr(at, '\n');

			if (end && (size_t)(end - at) + 1 == length && !memcmp(at, line, length))
				return true;
			at = end ? end + 1 : NULL;
		}
	return false;
}

/* Takes the lines that begin with a blank out of a text, where an earlier one has them. */
static void leave_out(char *const *texts, size_t n, char *text)
{
	char *to = text;

	for (const char *at = text; *at;) {
		const size_t length = strcspn(at, "\n") + 1;
		const bool whole = at[length - 1] == '\n';

		if (!whole || *at != ' ' || !had(texts, n, at, length)) {
			memmove(to, at, whole ? length : length - 1);
			to += whole ? length : length - 1;
		}
		at += whole ? length : length - 1;
	}
	*to = '\0';
}

static void print(char **texts, size_t n, bool json, bool once)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	if (json)
		ip_json_array(&j, NULL);
	for (size_t i = n; once && !json && i-- > 0;)
		if (texts[i])
			leave_out(texts, i, texts[i]);
	for (size_t i = 0; i < n; i++) {
		char *text = texts[i];

		if (text && json && *text)
			ip_json_raw(&j, NULL, (text[strcspn(text, "\n")] = '\0', text));
		else if (text && !json)
			ip_print_lines(stdout, text);
	}
	if (json)
		ip_json_end_array(&j);
}

int cli_each_process(const struct ip_service_choice *choice, bool json, bool once,
		     int (*one)(void *context, const struct ip_service_process *process),
		     void *context)
{
	struct errand e = {.one = one, .context = context};
	struct ip_service_processes found;
	_cleanup_free_ char **texts = NULL;
	bool failed = false, any = false;
	size_t at = 0;
	pid_t missing;
	int code = 0;

	if (ip_service_processes_find(choice, &found) < 0)
		return cli_fail();
	if (!found.n) {
		ip_service_none_found(choice);
		return cli_fail();
	}
	while ((missing = ip_service_next_missing(choice, &found, &at))) {
		ip_error("pid %d does not exist (any more)", missing);
		cli_fail();
		failed = true;
	}
	e.workers = calloc(found.n + 1, sizeof(*e.workers));
	texts = calloc(found.n + 1, sizeof(*texts));
	for (size_t i = 0; e.workers && i < found.n; i++)
		e.workers[i] = (struct ip_service_worker){.socket = -1, .out = -1};
	if (!e.workers || !texts) {
		ip_error("out of memory");
		code = cli_fail();
	} else if (run(&found, &e, texts) < 0) {
		code = cli_fail();
	} else {
		print(texts, found.n, json, once);
	}
	for (size_t i = 0; e.workers && i < found.n; i++) {
		failed |= e.workers[i].code && found.items[i].named;
		any |= !e.workers[i].code;
		ip_service_worker_clear(&e.workers[i]);
	}
	for (size_t i = 0; texts && i < found.n; i++)
		free(texts[i]);
	free(e.workers);
	code = code || failed || !any;
	ip_service_processes_clear(&found);
	return code;
}

int cli_serve_processes(int argc, char **argv, bool json,
			int (*one)(void *context, const struct ip_service_process *process),
			void *context)
{
	struct ip_service_process process = {.named = true};
	struct ip_service_choice choice;
	int code = cli_process_choice(argc, argv, optind, &choice);

	if (code >= 0)
		return code;
	if (!cli_is_one_process(&choice))
		return cli_each_process(&choice, json, false, one, context);
	process.pid = choice.pids[0];
	return one(context, &process);
}
