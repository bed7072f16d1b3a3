/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what the page tells of waits. All of it is bounded: the functions that waited longest, the
 * heaviest call paths, the longest bars.
 *
 *   objects     their names; the last one stands for all that have no room
 *   functions   of each: index, calls, elapsed, cpu, runqueue, unknown, then for each object: its
 *               index, time, times; -1 behind the last
 *   tree        nodes as the flame graph has them. An object, a leaf, is -1 - its index
 *   threads     of each: pid, tid, and bars: each with the time since the begin of the one before
 *               and its length. A state goes on with: the state, then for running the CPU and 0, 0;
 *               for runnable the tid that had the CPU, whether it was taken away, 0; for blocked
 *               the object, the waker (-1: an interrupt, 0: not known), how long before its end
 *               that woke it. A call goes on with its number; an interrupt with its kind and line.
 *   names       of threads that others mention; call_names and interrupt_names have those of
 * numbers
 */
#include "analysis/export/html_waits.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/export/html_waits_private.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

#define FUNCTIONS 1000u
#define OBJECTS	  2000u
#define BY_ONE	  20u /* objects of one function */

static uint64_t blocked(const struct ip_wait_parts *w)
{
	return w->elapsed - w->cpu - w->unknown - w->idle;
}

uint32_t ip_html_waits_object(struct ip_html_waits_writer *p, uint32_t object)
{
	if (object == IP_PATH_RUNQUEUE)
		return 0;
	if (object >= p->nobject_of) {
		p->others = true;
		return OBJECTS;
	}
	if (!p->object_of[object] && p->nlisted < OBJECTS) {
		p->listed[p->nlisted] = object;
		p->object_of[object] = ++p->nlisted;
	}
	if (p->object_of[object])
		return p->object_of[object] - 1;
	p->others = true;
	return OBJECTS;
}

static const struct ip_wait_profile *sorted;

static int by_wait(const void *left, const void *right)
{
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const uint64_t x = blocked(&sorted->functions[a]), y = blocked(&sorted->functions[b]);

	return x != y ? (x > y ? -1 : 1) : a < b ? -1 : a > b;
}

static void put_function(struct ip_html_waits_writer *p, uint32_t f, size_t at)
{
	const struct ip_wait_profile *w = p->paths->profile;
	const struct ip_wait_parts *parts = &w->functions[f];

	ip_json_uint(&p->j, NULL, p->options->shown[f]);
	ip_json_uint(&p->j, NULL, w->function_calls[f]);
	ip_json_uint(&p->j, NULL, ip_html_waits_ns(p, parts->elapsed));
	ip_json_uint(&p->j, NULL, ip_html_waits_ns(p, parts->cpu));
	ip_json_uint(&p->j, NULL, ip_html_waits_ns(p, parts->runqueue));
	ip_json_uint(&p->j, NULL, ip_html_waits_ns(p, parts->unknown));
	for (size_t n = 0; at < w->nwaits && w->waits[at].owner == f && n < BY_ONE; at++, n++) {
		const struct ip_wait_sum *sum = &w->waits[at];

		if (sum->ticks == sum->idle && sum->idle)
			continue;
		ip_json_uint(&p->j, NULL, ip_html_waits_object(p, sum->object));
		ip_json_uint(&p->j, NULL, ip_html_waits_ns(p, sum->ticks - sum->idle));
		ip_json_uint(&p->j, NULL, sum->count - sum->idle_count);
	}
	ip_json_int(&p->j, NULL, -1);
}

static int put_functions(struct ip_html_waits_writer *p)
{
	const struct ip_wait_profile *w = p->paths->profile;
	const uint32_t all = p->trace->session->nfunctions;
	_cleanup_free_ uint32_t *order = calloc(all + 1ul, sizeof(*order));
	_cleanup_free_ size_t *first = calloc(all + 1ul, sizeof(*first));
	uint32_t n = 0;

	if (!order || !first)
		return ip_error("out of memory");
	for (size_t i = w->nwaits; i--;)
		first[w->waits[i].owner] = i;
	for (uint32_t f = 0; f < all; f++)
		if (w->functions[f].elapsed && p->options->export->selected[f] &&
		    p->options->shown[f] != IP_HTML_NO_FUNCTION)
			order[n++] = f;
	sorted = w;
	if (n)
		qsort(order, n, sizeof(*order), by_wait);
	ip_json_array(&p->j, "functions");
	for (uint32_t i = 0; i < n && i < FUNCTIONS; i++)
		put_function(p, order[i], w->nwaits ? first[order[i]] : 0);
	ip_json_end_array(&p->j);
	ip_json_array(&p->j, "functions_idle"); /* in the same order */
	for (uint32_t i = 0; i < n && i < FUNCTIONS; i++)
		ip_json_uint(&p->j, NULL, ip_html_waits_ns(p, w->functions[order[i]].idle));
	ip_json_end_array(&p->j);
	ip_json_uint(&p->j, "idle", ip_html_waits_ns(p, ip_wait_profile_idle(w)));
	ip_json_uint(&p->j, "functions_left_out", n > FUNCTIONS ? n - FUNCTIONS : 0);
	return 0;
}

static int put_objects(struct ip_html_waits_writer *p)
{
	ip_json_array(&p->j, "objects");
	for (size_t i = 0; i < p->nlisted; i++) {
		const uint32_t object = p->listed[i];
		_cleanup_free_ char *made = NULL;
		const char *text = "runqueue";

		if (i && object < p->paths->profile->nobjects)
			text = ip_wait_paths_object(p->paths, object);
		else if (i)
			text = made = ip_trace_waits_object(p->waits, &p->objects.items[object]);
		if (!text)
			return -1;
		ip_json_string(&p->j, NULL, text);
	}
	if (p->others)
		ip_json_string(&p->j, NULL, "other objects");
	ip_json_end_array(&p->j);
	return 0;
}

/* Objects have the numbers of the profile, and those of waits outside of calls the next ones. */
static int list_objects(struct ip_html_waits_writer *p)
{
	const struct ip_wait_profile *w = p->paths->profile;

	for (size_t i = 0; i < w->nobjects; i++)
		if (ip_wait_objects_add(&p->objects, &w->objects[i]) != i)
			return ip_error("out of memory");
	p->nobject_of = w->nobjects + p->bars->states.n;
	p->object_of = calloc(p->nobject_of + 1, sizeof(*p->object_of));
	p->listed = calloc(OBJECTS + 1, sizeof(*p->listed));
	if (!p->object_of || !p->listed)
		return ip_error("out of memory");
	p->nlisted = 1; /* the run queue */
	return 0;
}

static int put_all(struct ip_html_waits_writer *p)
{
	const uint64_t end = p->waits->states->end;

	ip_json_object(&p->j, NULL);
	ip_json_uint(&p->j, "events", p->waits->states->events);
	ip_json_uint(&p->j, "lost", p->waits->states->lost);
	ip_json_uint(&p->j, "end",
		     end > p->bars->begin ? ip_html_waits_ns(p, end - p->bars->begin) : 0);
	if (put_functions(p) < 0 || ip_html_waits_put_tree(p) < 0 ||
	    ip_html_waits_put_threads(p) < 0 || put_objects(p) < 0)
		return -1;
	ip_json_end_object(&p->j);
	return 0;
}

char *ip_html_waits(struct ip_trace_reader *trace, const struct ip_html_waits_options *options)
{
	struct ip_html_waits_writer p = {
		.trace = trace, .options = options, .waits = options->export->waits};
	const struct ip_wait_paths_options paths = {.roots = options->export->selected,
						    .tid = options->export->tid,
						    .threads = options->threads,
						    .idle = options->idle};
	char *json = NULL;
	FILE *memory = NULL;
	size_t size;
	int ret = -1;

	p.paths = ip_wait_paths_make(trace, p.waits, &paths);
	if (p.paths)
		p.bars = ip_thread_bars_collect(trace, p.waits->states, options->export->tid);
	if (p.bars && list_objects(&p) == 0) {
		memory = open_memstream(&json, &size);
		if (!memory)
			ip_error("out of memory");
	}
	if (memory) {
		ip_json_init(&p.j, memory);
		ret = put_all(&p);
		json = ip_print_end_text(memory, &json);
	}
	ip_thread_bars_destroy(p.bars);
	ip_wait_objects_clear(&p.objects);
	ip_wait_paths_destroy(p.paths);
	free(p.object_of);
	free(p.listed);
	free(p.names);
	if (ret == 0)
		return json;
	free(json);
	return NULL;
}
