/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts together what the workers of several processes print. See fperf_service.h.
 */
#include "cli/fperf/fperf_service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"

struct result {
	pid_t pid;
	char *text;
};

struct results {
	const struct fperf_service *service;
	struct result *items;
	size_t n;
	size_t little;	/* that had little to do */
	bool failed;	/* a result is missing, which has been told */
	char why[1024]; /* of the first process that has nothing to count */
};

static void take_result(void *context, const struct ip_service_worker *worker, const char *name)
{
	struct results *r = context;
	char *text;

	if (!*r->why)
		snprintf(r->why, sizeof(r->why), "%s", worker->result->why);
	if (!worker->result->recorded)
		return;
	r->little += worker->result->little;
	text = ip_service_worker_output(worker);
	if (!text || ip_array_grow(&r->items, r->n, sizeof(*r->items)) < 0) {
		free(text);
		r->failed = true;
		cli_fail();
		return;
	}
	r->items[r->n++] = (struct result){worker->target, text};
}

static int work(void *context, const struct ip_service_task *task, int socket,
		struct ip_service_worker_result *result)
{
	const struct results *r = context;

	return r->service->work(r->service->context, task, socket, result);
}

static int by_pid(const void *a, const void *b)
{
	const struct result *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void print_json(const struct fperf_service *s, const struct results *r)
{
	_cleanup_free_ char *text = ip_service_choice_text(&s->choice);
	struct ip_json j;

	ip_json_init(&j, s->out);
	ip_json_object(&j, NULL);
	ip_json_string(&j, "service", text);
	ip_json_array(&j, "processes");
	for (size_t i = 0; i < r->n; i++) {
		r->items[i].text[strcspn(r->items[i].text, "\n")] = '\0';
		if (*r->items[i].text)
			ip_json_raw(&j, NULL, r->items[i].text);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

/* Prints all results. The texts are harmless: workers have printed them by ip_print(). */
static int print(const struct fperf_service *s, struct results *r)
{
	if (s->out != stdout && ftruncate(fileno(s->out), 0) < 0 && errno != EINVAL)
		return ip_error_errno("cannot write the results");
	qsort(r->items, r->n, sizeof(*r->items), by_pid);
	if (s->json)
		print_json(s, r);
	for (size_t i = 0; i < r->n && !s->json; i++)
		ip_print_lines(s->out, r->items[i].text);
	return fflush(s->out) == 0 && !ferror(s->out) ? 0
						      : ip_error_errno("cannot write the results");
}

int fperf_service_run(const struct fperf_service *s, bool *ret_written)
{
	struct results r = {.service = s};
	const struct ip_service_options options = {.choice = s->choice,
						   .duration_ns = s->duration_ns,
						   .work = work,
						   .on_end = take_result,
						   .context = &r};
	struct ip_service_sum sum;
	int done, code;

	cli_catch_signals();
	done = ip_service_record(&options, &sum);
	if (done == 0 && !r.n)
		done = ip_error("none of these processes can be counted: %s", r.why);
	if (r.little && !s->quiet)
		ip_print(stderr,
			 "fperf: there is little to tell of %zu of %zu process%s: they were on a "
			 "CPU "
			 "for less than a tenth of the time, and few calls were to be sampled: "
			 "count "
			 "for longer (--duration), or while they have work\n",
			 r.little, r.n, r.n == 1 ? "" : "es");
	*ret_written = done >= 0 && r.n && print(s, &r) == 0;
	if (done < 0 || (r.n && !*ret_written))
		code = cli_fail();
	else
		code = done || r.failed;
	for (size_t i = 0; i < r.n; i++)
		free(r.items[i].text);
	free(r.items);
	return code;
}
