/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page that shows slow calls and a usual one as timelines. Its document has what --json
 * prints, and of each of the calls the bars that are drawn: calls within it, and what its thread
 * did. These are bounded: the longest are kept, and the others counted.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/darc/operation_calls.h"
#include "analysis/export/html_document.h"
#include "cli/darc/compare/compare_calls.h"
#include "cli/darc/darc_html.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

/* Bars of all calls together, and of each one. */
#define CALLS	     100000u
#define CALLS_LEAST  200u
#define STATES	     40000u
#define STATES_LEAST 100u
#define LINES	     500u /* of the list, unless --limit tells another number */

struct bar {
	const struct ip_thread_states *thread;
	const struct ip_thread_span *span;
	uint64_t from, to; /* TSC */
};

static uint64_t ns_of(const struct cli_compare_calls *c, uint64_t ticks)
{
	return ip_recording_ns(c->trace->trace->session, ticks);
}

static int by_length(const void *left, const void *right)
{
	const struct bar *a = left, *b = right;

	if (a->to - a->from != b->to - b->from)
		return a->to - a->from > b->to - b->from ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

static int by_start(const void *left, const void *right)
{
	const struct bar *a = left, *b = right;

	return a->from < b->from ? -1 : a->from > b->from;
}

/* What the thread of a call did: the longest bars, in order of time. The caller frees *ret. */
static int find_bars(const struct cli_compare_calls *c, const struct ip_darc_operation *o,
		     size_t most, struct bar **ret, size_t *ret_n, uint64_t *ret_left_out)
{
	const struct ip_states *states = c->trace->waits->states;
	const struct ip_thread_states *t =
		ip_states_find(states, c->trace->trace->runs[o->run].machine_tid, o->start);
	const uint64_t end = o->start + o->ticks;
	struct bar *bars = NULL;
	size_t n = 0, first = t ? ip_states_span_at(t, o->start) : 0, i;

	*ret = NULL;
	*ret_n = *ret_left_out = 0;
	if (!t)
		return 0;
	i = first < t->nspans ? first : 0; /* else it is before the first one */
	first = i;
	while (i < t->nspans && t->spans[i].from < end)
		i++;
	bars = calloc(i - first + 1, sizeof(*bars));
	if (!bars)
		return ip_error("out of memory");
	for (i = first; i < t->nspans && t->spans[i].from < end; i++) {
		struct bar bar = {.thread = t, .span = &t->spans[i], .from = t->spans[i].from};

		bar.to = i + 1 < t->nspans ? t->spans[i + 1].from : states->end;
		bar.from = bar.from < o->start ? o->start : bar.from;
		bar.to = bar.to > end ? end : bar.to;
		if (bar.to > bar.from && bar.span->state != IP_THREAD_GONE)
			bars[n++] = bar;
	}
	qsort(bars, n, sizeof(*bars), by_length);
	*ret_left_out = n > most ? n - most : 0;
	n -= *ret_left_out;
	qsort(bars, n, sizeof(*bars), by_start);
	*ret = bars;
	*ret_n = n;
	return 0;
}

/* The thread that had the CPU, or ended the wait. */
static void put_thread(struct ip_json *j, const struct cli_compare_calls *c, int32_t tid,
		       uint64_t tsc)
{
	const struct ip_thread_states *t =
		tid > 0 && tid < IP_KERNEL_OTHER ? ip_states_find(c->trace->waits->states, tid, tsc)
						 : NULL;

	ip_json_int(j, "tid", tid);
	if (t && *t->name)
		ip_json_string(j, "thread", t->name);
}

static int put_bar(struct ip_json *j, const struct cli_compare_calls *c,
		   const struct ip_darc_operation *o, const struct bar *bar)
{
	const struct ip_thread_packets *run = &c->trace->trace->runs[o->run];

	ip_json_object(j, NULL);
	ip_json_uint(j, "state", bar->span->state);
	ip_json_uint(j, "start", ns_of(c, bar->from - o->start));
	ip_json_uint(j, "ns", ns_of(c, bar->to - bar->from));
	if (bar->span->state == IP_THREAD_RUNNING)
		ip_json_uint(j, "cpu", bar->span->cpu);
	if (bar->span->state == IP_THREAD_RUNNABLE && bar->span->other)
		put_thread(j, c, bar->span->other, bar->from);
	if (bar->span->state == IP_THREAD_BLOCKED) {
		const struct ip_thread_wait *wait = &bar->thread->waits[bar->span->wait];
		_cleanup_free_ char *name = NULL;
		struct ip_wait_object object;

		ip_wait_object_of(wait, &c->trace->waits->descriptors, run->machine_pid,
				  bar->thread->tid, &object);
		ip_wait_object_in(&object, run->member);
		name = ip_trace_waits_object(c->trace->waits, &object);
		if (!name)
			return -1;
		ip_json_string(j, "object", name);
		if (wait->waking.tsc && wait->waking.context)
			ip_json_bool(j, "interrupt", true);
		else if (wait->waking.tsc)
			put_thread(j, c, wait->waking.waker, wait->waking.tsc);
	}
	ip_json_end_object(j);
	return 0;
}

static int put_states(struct ip_json *j, const struct cli_compare_calls *c,
		      const struct ip_darc_operation *o, size_t most)
{
	_cleanup_free_ struct bar *bars = NULL;
	uint64_t left_out;
	size_t n;

	if (find_bars(c, o, most, &bars, &n, &left_out) < 0)
		return -1;
	ip_json_array(j, "states");
	for (size_t i = 0; i < n; i++)
		if (put_bar(j, c, o, &bars[i]) < 0)
			return -1;
	ip_json_end_array(j);
	ip_json_uint(j, "states_left_out", left_out);
	return 0;
}

/* When the thread of a call was interrupted: the first of them, up to a number. */
static void put_interrupts(struct ip_json *j, const struct cli_compare_calls *c,
			   const struct ip_darc_operation *o, size_t most)
{
	const struct ip_interrupts *all = &c->trace->waits->interrupts;
	const uint64_t end = o->start + o->ticks;
	size_t n, i;
	const struct ip_interrupt *items =
		ip_interrupts_of(all, c->trace->trace->runs[o->run].machine_tid, &n);
	char name[IP_INTERRUPT_NAME_MAX];

	ip_json_array(j, "interrupts");
	i = ip_interrupts_behind(items, n, o->start);
	for (size_t k = 0; i < n && items[i].from < end && k < most; i++, k++) {
		const uint64_t from = items[i].from < o->start ? o->start : items[i].from,
			       to = items[i].to > end ? end : items[i].to;

		ip_json_object(j, NULL);
		ip_json_uint(j, "start", ns_of(c, from - o->start));
		ip_json_uint(j, "ns", ns_of(c, to > from ? to - from : 0));
		ip_json_string(j, "name",
			       ip_interrupt_name(all, items[i].event, items[i].line, name));
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

/* One operation: of each call its node, its start and its length. */
static int put_timeline(struct ip_json *j, const struct cli_compare_calls *c,
			const struct ip_darc_operation *o, const struct ip_operation_calls *calls,
			size_t states)
{
	ip_json_object(j, NULL);
	ip_json_array(j, "calls");
	for (size_t i = 0; i < calls->n; i++) {
		ip_json_uint(j, NULL, calls->items[i].node);
		ip_json_uint(j, NULL, ns_of(c, calls->items[i].start));
		ip_json_uint(j, NULL, ns_of(c, calls->items[i].ticks));
	}
	ip_json_end_array(j);
	ip_json_uint(j, "left_out", calls->left_out);
	if (c->trace->waits) {
		if (put_states(j, c, o, states) < 0)
			return -1;
		put_interrupts(j, c, o, states);
	}
	ip_json_end_object(j);
	return 0;
}

/* Which nodes the calls have: a node is there behind the one above it. The caller frees it. NULL
 * with an error. */
static bool *used_nodes(const struct cli_compare_calls *c,
			const struct ip_darc_operation *const *operations, size_t n)
{
	const struct ip_ftree *ftree = &c->trace->search.ftree;
	bool *used = calloc(ftree->n, sizeof(*used));

	if (!used)
		ip_error("out of memory");
	for (size_t i = 0; used && i < n; i++)
		for (size_t k = 0; k < operations[i]->nown; k++)
			for (uint32_t node = operations[i]->own[k].node;
			     node != IP_FTREE_NONE && !used[node]; node = ftree->nodes[node].parent)
				used[node] = true;
	return used;
}

static void put_ftree(struct ip_json *j, const struct cli_compare_calls *c, const bool *used)
{
	const struct ip_ftree *ftree = &c->trace->search.ftree;

	ip_json_array(j, "ftree");
	for (uint32_t i = 0; i < ftree->n; i++) {
		const uint32_t parent = ftree->nodes[i].parent;

		if (!used[i])
			continue;
		ip_json_uint(j, NULL, i);
		ip_json_int(j, NULL, parent == IP_FTREE_NONE ? -1 : (int64_t)parent);
		ip_json_uint(j, NULL, ftree->nodes[i].function);
	}
	ip_json_end_array(j);
}

static int put_timelines(struct ip_json *j, const struct cli_compare_calls *c,
			 const struct ip_darc_operation *const *operations, size_t n)
{
	const size_t most = CALLS / n > CALLS_LEAST ? CALLS / n : CALLS_LEAST,
		     states = STATES / n > STATES_LEAST ? STATES / n : STATES_LEAST;
	struct ip_operation_calls *calls = calloc(n, sizeof(*calls));
	int ret = calls ? 0 : ip_error("out of memory");

	if (ret == 0)
		ret = ip_operation_calls_read(c->trace->trace,
					      (struct ip_ftree *)&c->trace->search.ftree,
					      c->options->depth, operations, n, most, calls);
	ip_json_array(j, "timelines");
	for (size_t i = 0; ret == 0 && i < n; i++)
		ret = put_timeline(j, c, operations[i], &calls[i], states);
	ip_json_end_array(j);
	ip_operation_calls_clear(calls, n);
	free(calls);
	return ret;
}

static int put_document(FILE *out, const struct cli_compare_calls *c,
			const struct ip_darc_operation *const *operations, size_t n)
{
	const struct ip_ftree *ftree = &c->trace->search.ftree;
	_cleanup_free_ bool *used = used_nodes(c, operations, n);
	struct ip_json j;
	int ret;

	if (!used)
		return -1;
	ip_json_init(&j, out);
	ip_json_object(&j, NULL);
	cli_darc_html_meta(&j, c->trace->trace);
	if (cli_compare_json_put(&j, "result", c) < 0)
		return -1;
	put_ftree(&j, c, used);
	cli_darc_html_names(&j, c->trace->names, ftree, used);
	ret = put_timelines(&j, c, operations, n);
	ip_json_end_object(&j);
	return ret;
}

int cli_compare_html(const struct cli_compare_calls *c, const char *path)
{
	struct cli_filter filter = *c->options->filter;
	struct cli_compare_options options = *c->options;
	struct cli_compare_calls page = *c;
	const size_t n = c->nslow + 1;
	_cleanup_free_ const struct ip_darc_operation **operations = calloc(n, sizeof(*operations));
	_cleanup_free_ char *document = NULL;
	size_t size;
	FILE *memory;
	int ret;

	filter.limit = options.limited ? filter.limit : LINES;
	options.filter = &filter;
	page.options = &options;
	memory = operations ? open_memstream(&document, &size) : NULL;
	if (!memory)
		return ip_error("out of memory");
	memcpy(operations, c->slow, c->nslow * sizeof(*operations));
	operations[c->nslow] = c->usual;
	ret = put_document(memory, &page, operations, n);
	if (fclose(memory) != 0 && ret == 0)
		ret = ip_error("out of memory");
	return ret == 0 ? cli_darc_html_write(path, &ip_html_compare, document) : -1;
}
