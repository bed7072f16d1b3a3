/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints where the time of functions went.
 */
#include "cli/wait/wait_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/wait/wait_culprits.h"
#include "analysis/wait/wait_tree.h"
#include "cli/trace_args.h"
#include "cli/wait/wait_culprit_print.h"
#include "cli/wait/wait_load.h"
#include "cli/wait/wait_rows.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

struct report {
	const struct cli_wait_options *options;
	struct cli_wait_trace t;
	struct ip_wait_profile *profile;
	struct ip_waker_paths *wakers;
	struct ip_wait_culprits culprits;
	uint32_t *order; /* functions, those that waited longest first */
	size_t n;
	uint64_t events;
	uint64_t idle; /* in calls, set aside; TSC */
};

/* For qsort(), which passes no context. */
static const struct ip_wait_parts *sorted;

static int by_wait(const void *left, const void *right)
{
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const uint64_t x = ip_wait_parts_waited(&sorted[a]), y = ip_wait_parts_waited(&sorted[b]);

	if (x != y)
		return x > y ? -1 : 1;
	if (sorted[a].elapsed - sorted[a].idle != sorted[b].elapsed - sorted[b].idle)
		return sorted[a].elapsed - sorted[a].idle > sorted[b].elapsed - sorted[b].idle ? -1
											       : 1;
	if (sorted[a].elapsed != sorted[b].elapsed)
		return sorted[a].elapsed > sorted[b].elapsed ? -1 : 1;
	return a < b ? -1 : 1;
}

static int sort(struct report *r)
{
	const struct ip_recording *s = r->t.trace->session;

	r->order = calloc(s->nfunctions, sizeof(*r->order));
	if (!r->order)
		return ip_error("out of memory");
	for (uint32_t f = 0; f < s->nfunctions; f++)
		if (r->t.selected[f] &&
		    (r->profile->function_calls[f] || r->profile->functions[f].elapsed))
			r->order[r->n++] = f;
	sorted = r->profile->functions;
	if (r->n)
		qsort(r->order, r->n, sizeof(*r->order), by_wait);
	if (r->n > r->options->filter.limit)
		r->n = r->options->filter.limit;
	return 0;
}

static const struct ip_wait_sum *waits_of(const struct ip_wait_profile *p, uint32_t function,
					  size_t *ret_n)
{
	return ip_wait_sums_of(p->waits, p->nwaits, function, ret_n);
}

static const char *module_of(const struct report *r, uint32_t function)
{
	const struct ip_recording *s = r->t.trace->session;
	const uint32_t module = s->functions[function].module;
	const char *path = module < s->nmodules ? s->modules[module].path : NULL;

	return path && strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

static int json_function(struct report *r, struct ip_json *j, uint32_t f)
{
	const struct ip_wait_profile *p = r->profile;
	const struct ip_wait_parts *parts = &p->functions[f];
	const struct ip_wait_culprit *had;
	struct cli_wait_row *rows;
	size_t n, nhad;
	const struct ip_wait_sum *waits = waits_of(p, f, &n);
	int ret = cli_wait_rows_make(&r->t, p, &r->culprits, waits, n, r->options->objects, &rows,
				     &n);

	ip_json_object(j, NULL);
	ip_json_string(j, "function", ip_names_get(r->t.names, f));
	ip_json_string(j, "module", module_of(r, f));
	ip_json_uint(j, "calls", p->function_calls[f]);
	ip_json_uint(j, "elapsed_ns", cli_wait_ns(&r->t, parts->elapsed) + 0.5);
	ip_json_uint(j, "cpu_ns", cli_wait_ns(&r->t, parts->cpu) + 0.5);
	ip_json_uint(j, "runqueue_ns", cli_wait_ns(&r->t, parts->runqueue) + 0.5);
	had = ip_wait_culprits_of(&r->culprits, f, IP_RUN_QUEUE, &nhad);
	cli_wait_json_culprits(j, &r->t, had, nhad, "cpu_had");
	ip_json_array(j, "blocked");
	for (size_t k = 0; ret == 0 && k < n; k++) {
		ip_json_object(j, NULL);
		ip_json_string(j, "kind", ip_wait_kind_name(rows[k].kind));
		ip_json_string(j, "object", rows[k].name);
		ip_json_uint(j, "ns", cli_wait_ns(&r->t, rows[k].ticks) + 0.5);
		ip_json_uint(j, "count", rows[k].count);
		ip_json_uint(j, "idle_ns", cli_wait_ns(&r->t, rows[k].idle) + 0.5);
		cli_wait_json_culprits(j, &r->t, rows[k].by, rows[k].nby, "by");
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_uint(j, "unknown_ns", cli_wait_ns(&r->t, parts->unknown) + 0.5);
	ip_json_uint(j, "idle_ns", cli_wait_ns(&r->t, parts->idle) + 0.5);
	ip_json_end_object(j);
	cli_wait_rows_clear(rows, n);
	return ret;
}

static int json_functions(struct report *r, struct ip_json *j)
{
	int ret = 0;

	ip_json_uint(j, "unknown_threads", r->profile->unknown_threads);
	ip_json_uint(j, "idle_ns", cli_wait_ns(&r->t, ip_wait_profile_idle(r->profile)) + 0.5);
	ip_json_array(j, "functions");
	for (size_t i = 0; ret == 0 && i < r->n; i++)
		ret = json_function(r, j, r->order[i]);
	ip_json_end_array(j);
	return ret;
}

static void json_head(const struct report *r, struct ip_json *j)
{
	ip_json_init(j, stdout);
	ip_json_object(j, NULL);
	ip_json_uint(j, "events", r->events);
	ip_json_uint(j, "lost", r->t.trace->lost);
	ip_json_uint(j, "kernel_events", r->t.states->events);
	ip_json_uint(j, "kernel_lost", r->t.states->lost);
}

/* What a function waited for: objects, and CPUs, the longest first. */
static void print_waits(const struct report *r, uint32_t function, const struct cli_wait_row *rows,
			size_t n)
{
	const uint64_t runqueue = r->profile->functions[function].runqueue;
	bool queue_shown = !runqueue || !r->options->objects;
	char t[32];

	for (size_t k = 0; k <= n; k++) {
		const uint64_t ticks = k < n ? rows[k].ticks - rows[k].idle : 0,
			       count = k < n ? rows[k].count - rows[k].idle_count : 0;

		if (!queue_shown && (k == n || ticks < runqueue)) {
			cli_wait_print_cpu_users(&r->t, &r->culprits, function, runqueue,
						 r->idle > 0);
			queue_shown = true;
		}
		if (k == n)
			return;
		if (!ticks) /* it was idle */
			continue;
		ip_print(stdout, "%43s %10s %*s  %s %s", "",
			 ip_format_ns(cli_wait_ns(&r->t, ticks), t), r->idle ? 21 : 10, "",
			 ip_wait_kind_name(rows[k].kind), rows[k].name);
		cli_wait_print_times(count);
		cli_wait_print_ender(&r->t, rows[k].by, rows[k].nby);
		ip_print(stdout, "\n");
	}
}

static int text_function(struct report *r, uint32_t f)
{
	const struct ip_wait_profile *p = r->profile;
	const struct ip_wait_parts *parts = &p->functions[f];
	struct cli_wait_row *rows;
	size_t n, nwaits;
	const struct ip_wait_sum *waits = waits_of(p, f, &nwaits);
	int ret = cli_wait_rows_make(&r->t, p, &r->culprits, waits, nwaits, r->options->objects,
				     &rows, &n);

	cli_wait_print_parts(&r->t, p->function_calls[f], parts, r->idle > 0);
	ip_print(stdout, "%s\n", ip_names_shown(r->t.names, f));
	if (ret == 0)
		print_waits(r, f, rows, n);
	if (ret == 0 && r->options->objects)
		cli_wait_print_idle(&r->t, p, waits, nwaits, 0, "");
	cli_wait_rows_clear(rows, n);
	return ret;
}

static int text_functions(struct report *r)
{
	int ret = 0;

	if (!r->n) {
		ip_print(stdout, "No calls were recorded.\n");
		return 0;
	}
	cli_wait_print_columns("CALLS", "FUNCTION", r->idle > 0);
	for (size_t i = 0; ret == 0 && i < r->n; i++)
		ret = text_function(r, r->order[i]);
	return ret;
}

/* Reads in which calls threads woke others, of the chosen processes, once. */
static int read_wakers(struct report *r)
{
	if (!r->wakers)
		r->wakers = ip_waker_paths_read(r->t.trace, r->t.states);
	return r->wakers ? 0 : -1;
}

/* Reads the calls of the chosen processes, and who is to blame. */
static int make(struct report *r)
{
	const struct ip_wait_observer observer = {ip_wait_culprits_part, &r->culprits};

	ip_wait_culprits_begin(r->t.states, &r->t.users, &r->culprits);
	r->profile =
		ip_wait_profile_observe(r->t.trace, r->t.states, &r->t.descriptors,
					r->options->filter.tid, cli_wait_idle(&r->t), &observer);
	if (!r->profile || (ip_wait_culprits_need_wakers(&r->culprits) && read_wakers(r) < 0) ||
	    ip_wait_culprits_end(&r->culprits, r->profile, r->wakers) < 0)
		return -1;
	r->events = r->profile->events;
	r->idle = ip_wait_profile_idle(r->profile);
	return sort(r);
}

static void unmake(struct report *r)
{
	free(r->order);
	ip_wait_culprits_clear(&r->culprits);
	ip_wait_profile_destroy(r->profile);
	r->order = NULL;
	r->profile = NULL;
	r->n = 0;
}

static int report_all(struct report *r)
{
	struct ip_json j;
	int ret = make(r);

	if (ret < 0)
		return -1;
	cli_reader_warn(r->t.trace);
	if (!r->options->json) {
		cli_wait_print_head(&r->t, r->events, r->idle);
		return text_functions(r);
	}
	json_head(r, &j);
	ret = json_functions(r, &j);
	ip_json_end_object(&j);
	return ret;
}

/* For how long threads were idle in calls, in all processes. */
static uint64_t idle_of_all(const struct report *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->t.idle.n; i++)
		sum += r->t.idle.items[i].to - r->t.idle.items[i].from;
	return sum;
}

/* One process of those that the user has chosen. */
static int report_process(struct report *r, struct ip_json *j, const struct ip_trace_process *p)
{
	char pid[16];
	int ret;

	snprintf(pid, sizeof(pid), "%u", p->pid);
	ret = ip_trace_reader_choose(r->t.trace, pid);
	if (ret == 0)
		ret = make(r);
	if (ret == 0 && r->options->json) {
		ip_json_object(j, NULL);
		ip_json_uint(j, "pid", p->pid);
		ip_json_string(j, "name", p->name);
		ip_json_uint(j, "events", r->events);
		ret = json_functions(r, j);
		ip_json_end_object(j);
	} else if (ret == 0) {
		ip_print(stdout, "process %u %s\n", p->pid, p->name);
		ret = text_functions(r);
		ip_print(stdout, "\n");
	}
	unmake(r);
	return ret;
}

static int report_processes(struct report *r)
{
	const struct ip_trace_reader *t = r->t.trace;
	_cleanup_free_ bool *chosen = calloc(t->nprocesses + 1, sizeof(*chosen));
	struct ip_json j;
	int ret = chosen ? ip_trace_reader_count(r->t.trace, &r->events) : -1;

	if (!chosen)
		return ip_error("out of memory");
	for (size_t i = 0; i < t->nprocesses; i++)
		chosen[i] = !t->process_list[i].off;
	if (ret == 0 && r->options->json) {
		json_head(r, &j);
		ip_json_array(&j, "processes");
	} else if (ret == 0) {
		cli_wait_print_head(&r->t, r->events, idle_of_all(r));
	}
	for (size_t i = 0; ret == 0 && i < t->nprocesses; i++)
		if (chosen[i])
			ret = report_process(r, &j, &t->process_list[i]);
	if (ret < 0)
		return -1;
	if (r->options->json) {
		ip_json_end_array(&j);
		ip_json_end_object(&j);
	}
	cli_reader_warn(r->t.trace);
	return 0;
}

int cli_wait_report(const char *dir, const struct cli_wait_options *o)
{
	struct report r = {.options = o};
	int ret = cli_wait_load(dir, o, &r.t);

	if (ret == 0)
		ret = cli_wait_find_idle(&r.t);
	/* one process may be woken by another one */
	if (ret == 0 && o->filter.by_process)
		ret = read_wakers(&r);
	if (ret == 0)
		ret = o->filter.by_process ? report_processes(&r) : report_all(&r);
	if (ret == 0)
		ret = cli_reader_check_stdout();
	unmake(&r);
	ip_waker_paths_destroy(r.wakers);
	cli_wait_clear(&r.t);
	return ret;
}
