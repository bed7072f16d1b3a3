/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks of the time off the CPU, as off-CPU and off-wake flame graphs are made of them
 * (Gregg: Off-CPU Analysis, 2015).
 */
#include <inttypes.h>

#include "analysis/export/export.h"
#include "analysis/export/stack_text.h"
#include "analysis/profile/deep_paths.h"
#include "analysis/read/names.h"
#include "analysis/wait/wait_paths.h"

struct off_cpu {
	const struct ip_recording *session;
	struct ip_names *names;
	struct ip_wait_paths *paths;
	FILE *out;
	uint64_t idle; /* ticks that are left out */
};

/* Writes the calls down to a node, or with up the other way round. Of more than IP_WAY_MAX calls
 * the innermost are written. */
static void print_calls(struct off_cpu *o, const struct ip_calltree *tree, uint32_t node, bool up)
{
	uint32_t way[IP_WAY_MAX], at = node;
	size_t n = 0;

	for (; at && n < IP_WAY_MAX; at = tree->nodes[at].parent)
		way[n++] = tree->nodes[at].function;
	if (at && !up)
		fputs("[...];", o->out);
	for (size_t i = 0; i < n; i++) {
		ip_stack_text_name(o->out, ip_names_shown(o->names, way[up ? i : n - 1 - i]), ';');
		putc(';', o->out);
	}
	if (at && up)
		fputs("[...];", o->out);
}

static void print_waker(struct off_cpu *o, const struct ip_waker *waker)
{
	fputs(";--;", o->out);
	if (waker->node)
		print_calls(o, o->paths->wakers->tree, waker->node, true);
	if (!waker->name)
		fputs("[interrupt]", o->out);
	else if (!*waker->name)
		fputs("[unknown]", o->out);
	else
		ip_stack_text_name(o->out, waker->name, ';');
}

static int print_paths(struct off_cpu *o)
{
	const struct ip_wait_paths *p = o->paths;

	for (size_t i = 0; i < p->n; i++) {
		const struct ip_wait_path *path = &p->items[i];
		const char *object;
		const uint64_t us = (ip_recording_ns(o->session, path->ticks) + 500) / 1000;

		if (path->object == IP_PATH_IDLE)
			o->idle += path->ticks;
		if (!us || path->object == IP_PATH_CPU || path->object == IP_PATH_UNKNOWN ||
		    path->object == IP_PATH_IDLE)
			continue;
		object = ip_wait_paths_object(o->paths, path->object);
		if (!object)
			return -1;
		print_calls(o, p->tree, path->node, false);
		ip_stack_text_name(o->out, object, ';');
		if (path->waker)
			print_waker(o, &p->waker_list[path->waker]);
		fprintf(o->out, " %" PRIu64 "\n", us);
	}
	return 0;
}

int ip_export_off_cpu(struct ip_trace_reader *trace, const struct ip_export_options *options,
		      FILE *out)
{
	struct ip_wait_paths_options wanted = {
		.roots = options->selected, .tid = options->tid, .wakers = options->off_wake};
	struct off_cpu o = {
		.session = trace->session, .names = ip_names_create(trace->session), .out = out};
	struct ip_tree_threads *threads = NULL;
	struct ip_idle_waits idle = {0};
	int ret = o.names ? 0 : -1;

	if (ret == 0 && options->full_names)
		ip_names_use_full(o.names);
	if (ret == 0 && (options->by_thread || options->by_process)) {
		ret = ip_tree_threads_create(trace, options->by_process, &threads);
		if (ret == 0)
			ret = ip_tree_threads_name(threads, o.names);
	}
	if (ret == 0 && !options->idle) {
		ret = ip_idle_waits_find(trace, options->waits->states,
					 &options->waits->descriptors, &idle);
		wanted.idle = &idle;
	}
	if (ret == 0) {
		wanted.threads = threads;
		o.paths = ip_wait_paths_make(trace, options->waits, &wanted);
		ret = o.paths ? 0 : -1;
	}
	if (ret == 0) {
		ret = print_paths(&o);
		*options->unchosen = o.paths->tree->n > 1 ? 0 : o.paths->profile->events;
		*options->unknown = ip_recording_ns(trace->session, o.paths->unknown);
		*options->idle_ns = ip_recording_ns(trace->session, o.idle);
	}
	ip_idle_waits_clear(&idle);
	ip_wait_paths_destroy(o.paths);
	ip_tree_threads_destroy(threads);
	ip_names_destroy(o.names);
	return ret;
}
