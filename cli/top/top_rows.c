/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the rows of iprobe top: what was counted between two moments.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/top/top.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"

static const char *const names[CLI_TOP_COLUMNS] = {
	[CLI_TOP_RATE] = "rate",	[CLI_TOP_CALLS] = "calls", [CLI_TOP_SELF] = "self",
	[CLI_TOP_TOTAL] = "total",	[CLI_TOP_AVG] = "avg",	   [CLI_TOP_P50] = "p50",
	[CLI_TOP_P99] = "p99",		[CLI_TOP_MAX] = "max",	   [CLI_TOP_WAIT] = "wait",
	[CLI_TOP_FUNCTION] = "function"};

const char *cli_top_column_name(enum cli_top_column column)
{
	return names[column];
}

enum cli_top_column cli_top_column_of(const char *name)
{
	enum cli_top_column column = 0;

	while (column < CLI_TOP_COLUMNS && strcmp(names[column], name))
		column++;
	return column;
}

bool *cli_top_select(const struct ip_recording *s, const char *text, size_t *ret_n)
{
	struct ip_selection *selection;
	bool *selected;

	if (ip_selection_parse(text, &selection) < 0)
		return NULL;
	selected = cli_match_functions(s, selection, ret_n);
	ip_selection_destroy(selection);
	return selected;
}

/* A figure of a function does not shrink, unless the target has overwritten it. */
static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static struct ip_count difference(const struct ip_count *now, const struct ip_count *before)
{
	struct ip_count d = *now;

	if (!before)
		return d;
	d.calls = since(now->calls, before->calls);
	d.ended = since(now->ended, before->ended);
	d.sum = since(now->sum, before->sum);
	d.self = since(now->self, before->self);
	d.tailed = since(now->tailed, before->tailed);
	for (unsigned i = 0; i < IP_COUNT_BUCKETS; i++)
		d.buckets[i] = since(now->buckets[i], before->buckets[i]);
	return d;
}

/* The shortest and the longest call are known only for all calls since the beginning. They still
 * bound the calls of the interval. */
static void fill(struct cli_top_row *row, const struct cli_top_snapshot *s,
		 const struct ip_count *d, double seconds)
{
	const struct ip_recording *r = s->recording;

	row->calls = d->calls;
	row->rate = seconds > 0 ? d->calls / seconds : 0;
	row->timed = d->ended;
	row->has_self = d->ended && d->has_self;
	row->tails = d->measured && r->functions[row->function].tails;
	row->tailed = d->tailed;
	row->has_tailed = d->has_tailed;
	if (!d->ended)
		return;
	row->total_ns = ip_recording_ns(r, d->sum);
	row->self_ns = ip_recording_ns(r, d->self);
	row->avg_ns = ip_recording_ns(r, d->sum / d->ended);
	row->max_ns = ip_recording_ns(r, d->max);
	ip_counts_percentile(s->now, r, d, 0.5, &row->p50_from, &row->p50);
	ip_counts_percentile(s->now, r, d, 0.99, &row->p99_from, &row->p99);
}

static double key_of(const struct cli_top_row *r, enum cli_top_column column)
{
	switch (column) {
	case CLI_TOP_RATE:
		return r->rate;
	case CLI_TOP_CALLS:
		return r->all_calls;
	case CLI_TOP_SELF:
		return r->self_ns;
	case CLI_TOP_TOTAL:
		return r->total_ns;
	case CLI_TOP_AVG:
		return r->avg_ns;
	case CLI_TOP_P50:
		return r->p50;
	case CLI_TOP_P99:
		return r->p99;
	case CLI_TOP_MAX:
		return r->max_ns;
	case CLI_TOP_WAIT:
		return r->has_wait && r->wait.waited_ns > r->wait.idle_ns
			       ? r->wait.waited_ns - r->wait.idle_ns
			       : 0;
	default:
		return 0;
	}
}

static int by_name(const struct cli_top_row *x, const struct cli_top_row *y)
{
	int order = strcmp(x->name, y->name);

	if (order)
		return order;
	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

/* Sorts the largest first, and equal ones by name from A to Z. */
static int downwards(const void *a, const void *b)
{
	const struct cli_top_row *x = a, *y = b;

	if (x->below != y->below)
		return x->below ? 1 : -1;
	return x->key != y->key ? (x->key < y->key ? 1 : -1) : by_name(x, y);
}

static int upwards(const void *a, const void *b)
{
	const struct cli_top_row *x = a, *y = b;

	if (x->below != y->below)
		return x->below ? 1 : -1;
	return x->key != y->key ? (x->key > y->key ? 1 : -1) : -by_name(x, y);
}

/* log_too: what a session of iprobe top's own measures is logged as well. */
static void count_payloads(const struct ip_recording *s, bool log_too, struct cli_top_rows *ret)
{
	_cleanup_free_ uint8_t *seen = calloc(1, s->nfunctions);

	for (uint32_t i = 1; seen && i < s->nnumbers; i++) {
		const struct ip_recording_number *n = &s->numbers[i];

		if (n->silent || !n->function || seen[n->function]++)
			continue;
		const bool own = log_too && n->payload == IP_RECORDING_LOG;

		ret->functions +=
			n->payload == IP_RECORDING_HIST || n->payload == IP_RECORDING_COUNT || own;
		ret->logged +=
			(n->payload == IP_RECORDING_LOG && !own) || n->payload == IP_RECORDING_USER;
	}
	ip_recording_silent_names(s, &ret->silent);
}

struct making {
	const struct cli_top_order *order;
	double seconds;
	struct cli_top_rows *rows;
};

static void clear_row(struct cli_top_row *row)
{
	free(row->text);
	for (size_t i = 0; row->has_wait && i < row->wait.nobjects; i++)
		free(row->wait.objects[i].name);
}

/* The next reading clears what the objects were taken from; the screen may still show the row. */
static int own_objects(struct cli_top_row *row)
{
	const size_t n = row->has_wait ? row->wait.nobjects : 0;

	for (size_t i = 0; i < n; i++) {
		struct cli_top_object *object = &row->wait.objects[i];

		row->wait.nobjects = i + 1;
		if (!object->name)
			continue;
		object->name = strdup(object->name);
		if (!object->name) {
			clear_row(row);
			return ip_error("out of memory");
		}
	}
	return 0;
}

/* Adds the rows of one process (by index), or of all together (pid 0). */
static int add_rows(const struct making *m, const struct cli_top_snapshot *s, pid_t pid,
		    size_t process)
{
	const struct cli_top_order *o = m->order;
	const struct ip_counts *before = o->since_start ? NULL : s->before;
	struct cli_top_rows *rows = m->rows;
	struct cli_top_row *items =
		reallocarray(rows->items, rows->n + s->now->nfunctions, sizeof(*rows->items));

	if (!items)
		return ip_error("out of memory");
	rows->items = items;
	for (size_t i = 0; i < s->now->nfunctions; i++) {
		struct ip_count d =
			difference(&s->now->functions[i], before ? &before->functions[i] : NULL);
		struct cli_top_row *row = &rows->items[rows->n];
		const struct ip_count *all = &s->now->functions[i];
		struct cli_top_wait wait;
		const bool has_wait =
			rows->has_waits && cli_top_kernel_wait(s->kernel, i, pid, &wait);

		/* a call that waits all the time has neither begun nor ended */
		if ((!d.calls && !(has_wait && wait.open)) || (o->wanted && !o->wanted[i]))
			continue;
		*row = (struct cli_top_row){.function = i,
					    .pid = pid,
					    .name = ip_names_get(s->names, i),
					    .shown = ip_names_shown(s->names, i),
					    .all_calls = all->calls,
					    .has_wait = has_wait};
		if (has_wait)
			row->wait = wait; /* its objects are not the row's yet */
		fill(row, s, &d, m->seconds);
		row->key = key_of(row, o->sort);
		row->waits = all->has_self &&
			     cli_top_cpu_is_wait(s->cpu, process,
						 ip_recording_ns(s->recording, all->self));
		row->below =
			row->waits && o->waits == CLI_TOP_WAITS_BELOW && o->sort == CLI_TOP_SELF;
		rows->calls += row->calls;
		rows->self_ns += row->self_ns;
		rows->waits_ns += row->waits ? row->self_ns : 0;
		if (row->waits && o->waits == CLI_TOP_WAITS_HIDE)
			rows->hidden++;
		else if (own_objects(row) == 0)
			rows->n++;
		else
			return -1;
	}
	return 0;
}

static int add_processes(const struct making *m, const struct cli_top_snapshot *s,
			 const struct cli_live_counts *processes)
{
	int ret = 0;

	for (size_t i = 0; i < processes->n && ret >= 0; i++) {
		struct cli_top_snapshot own = *s;
		struct ip_counts *now, *before;

		ret = cli_live_counts_of(processes, i, &now, &before);
		own.now = now;
		own.before = before;
		if (ret > 0)
			ret = add_rows(m, &own, processes->processes[i].pid, i);
		ip_counts_destroy(now);
		ip_counts_destroy(before);
	}
	return ret < 0 ? -1 : 0;
}

int cli_top_rows_make(const struct cli_top_snapshot *s, const struct cli_live_counts *processes,
		      const struct cli_top_order *order, struct cli_top_rows *ret)
{
	const struct ip_counts *before = order->since_start ? NULL : s->before;
	uint64_t begin = before ? before->tsc : s->recording->tsc_start;
	struct making m = {.order = order, .rows = ret};
	int done;

	*ret = (struct cli_top_rows){
		.interval_ns = ip_recording_ns(s->recording, since(s->now->tsc, begin)),
		.by_process = order->by_process && !order->by_thread,
		.by_thread = order->by_thread,
		.has_cpu = s->cpu->known && !order->since_start,
		.cpu_ns = since(s->cpu->used_ns, s->cpu->before_ns)};
	ret->has_waits = s->kernel && !order->since_start && !order->by_thread;
	ret->kernel_lost = ret->has_waits ? s->kernel->lost : 0;
	ret->kept_ns = ret->has_waits && s->kernel->kept_ns < ret->interval_ns ? s->kernel->kept_ns
									       : ret->interval_ns;
	m.seconds = ret->interval_ns / 1e9;
	if (order->by_thread)
		done = cli_top_threads_add(s, processes, order->filter, order->since_start,
					   m.seconds, ret);
	else if (order->by_process)
		done = add_processes(&m, s, processes);
	else
		done = add_rows(&m, s, 0, SIZE_MAX);
	for (size_t i = 0; order->by_thread && i < ret->n; i++)
		ret->items[i].key = key_of(&ret->items[i], order->sort);
	if (done < 0) {
		cli_top_rows_clear(ret);
		return -1;
	}
	count_payloads(s->recording, s->kernel, ret);
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items),
		      order->reverse ? upwards : downwards);
	return 0;
}

void cli_top_rows_clear(struct cli_top_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		clear_row(&rows->items[i]);
	free(rows->items);
	*rows = (struct cli_top_rows){0};
}
