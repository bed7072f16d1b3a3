/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints where the time of functions went.
 */
#include "cli/wait/wait_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/wait/wait_tree.h"
#include "cli/trace_args.h"
#include "cli/wait/wait_load.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

struct report {
	const struct cli_wait_options *options;
	struct cli_wait_trace t;
	struct ip_wait_profile *profile;
	uint32_t *order; /* functions, those that waited longest first */
	size_t n;
};

static uint64_t blocked(const struct ip_wait_parts *p)
{
	return p->elapsed - p->cpu - p->runqueue - p->unknown;
}

/* For qsort(), which passes no context. */
static const struct ip_wait_parts *sorted;

static int by_wait(const void *left, const void *right)
{
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const uint64_t x = sorted[a].elapsed - sorted[a].cpu - sorted[a].unknown,
		       y = sorted[b].elapsed - sorted[b].cpu - sorted[b].unknown;

	if (x != y)
		return x > y ? -1 : 1;
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

static int print_json(struct report *r)
{
	const struct ip_wait_profile *p = r->profile;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", p->events);
	ip_json_uint(&j, "lost", r->t.trace->lost);
	ip_json_uint(&j, "kernel_events", r->t.states->events);
	ip_json_uint(&j, "kernel_lost", r->t.states->lost);
	ip_json_uint(&j, "unknown_threads", p->unknown_threads);
	ip_json_array(&j, "functions");
	for (size_t i = 0; i < r->n; i++) {
		const uint32_t f = r->order[i];
		const struct ip_wait_parts *parts = &p->functions[f];
		const struct ip_wait_sum *waits;
		size_t n;

		waits = waits_of(p, f, &n);
		ip_json_object(&j, NULL);
		ip_json_string(&j, "function", ip_names_get(r->t.names, f));
		ip_json_string(&j, "module", module_of(r, f));
		ip_json_uint(&j, "calls", p->function_calls[f]);
		ip_json_uint(&j, "elapsed_ns", cli_wait_ns(&r->t, parts->elapsed) + 0.5);
		ip_json_uint(&j, "cpu_ns", cli_wait_ns(&r->t, parts->cpu) + 0.5);
		ip_json_uint(&j, "runqueue_ns", cli_wait_ns(&r->t, parts->runqueue) + 0.5);
		ip_json_array(&j, "blocked");
		for (size_t k = 0; k < n && k < r->options->objects; k++) {
			const struct ip_wait_object *o = &p->objects[waits[k].object];

			ip_json_object(&j, NULL);
			ip_json_string(&j, "kind", ip_wait_kind_name(o->kind));
			ip_json_string(&j, "object", ip_object_name(r->t.object_names, o));
			ip_json_uint(&j, "ns", cli_wait_ns(&r->t, waits[k].ticks) + 0.5);
			ip_json_uint(&j, "count", waits[k].count);
			ip_json_end_object(&j);
		}
		ip_json_end_array(&j);
		ip_json_uint(&j, "unknown_ns", cli_wait_ns(&r->t, parts->unknown) + 0.5);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
	return 0;
}

static int print_text(struct report *r)
{
	const struct ip_wait_profile *p = r->profile;
	char t[5][32];

	cli_wait_print_head(&r->t, p->events);
	if (!r->n) {
		ip_print(stdout, "No calls were recorded.\n");
		return 0;
	}
	ip_print(stdout, "%10s %10s %10s %10s %10s %10s  FUNCTION\n", "CALLS", "ELAPSED", "CPU",
		 "RUN QUEUE", "BLOCKED", "UNKNOWN");
	for (size_t i = 0; i < r->n; i++) {
		const uint32_t f = r->order[i];
		const struct ip_wait_parts *parts = &p->functions[f];
		const struct ip_wait_sum *waits;
		size_t n;

		waits = waits_of(p, f, &n);
		ip_print(stdout, "%10" PRIu64 " %10s %10s %10s %10s %10s  %s\n",
			 p->function_calls[f],
			 ip_format_ns(cli_wait_ns(&r->t, parts->elapsed), t[0]),
			 ip_format_ns(cli_wait_ns(&r->t, parts->cpu), t[1]),
			 ip_format_ns(cli_wait_ns(&r->t, parts->runqueue), t[2]),
			 ip_format_ns(cli_wait_ns(&r->t, blocked(parts)), t[3]),
			 ip_format_ns(cli_wait_ns(&r->t, parts->unknown), t[4]),
			 ip_names_shown(r->t.names, f));
		for (size_t k = 0; k < n && k < r->options->objects; k++) {
			const struct ip_wait_object *o = &p->objects[waits[k].object];

			ip_print(stdout, "%43s %10s %10s  %s %s (%" PRIu64 " time%s)\n", "",
				 ip_format_ns(cli_wait_ns(&r->t, waits[k].ticks), t[0]), "",
				 ip_wait_kind_name(o->kind), ip_object_name(r->t.object_names, o),
				 waits[k].count, ip_plural(waits[k].count));
		}
	}
	return 0;
}

int cli_wait_report(const char *dir, const struct cli_wait_options *o)
{
	struct report r = {.options = o};
	int ret = cli_wait_load(dir, o, &r.t);

	if (ret == 0) {
		r.profile = ip_wait_profile_make(r.t.trace, r.t.states, &r.t.descriptors,
						 o->filter.tid);
		ret = r.profile ? sort(&r) : -1;
	}
	if (ret == 0) {
		cli_reader_warn(r.t.trace);
		ret = o->json ? print_json(&r) : print_text(&r);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	free(r.order);
	ip_wait_profile_destroy(r.profile);
	cli_wait_clear(&r.t);
	return ret;
}
