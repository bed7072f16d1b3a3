/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a search as JSON. The ftree is a list: a node names the one above it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/darc/darc.h"
#include "cli/darc/darc_state.h"
#include "cli/record/stops.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/trace/kernel_format.h"

static uint64_t ns_of(const struct cli_darc *d, double ticks)
{
	return ticks > 0 ? (uint64_t)(cli_darc_ns(d, ticks) + 0.5) : 0;
}

static const char *name_of(const struct cli_darc *d, uint32_t node)
{
	return ip_names_get(d->names, d->search->ftree.nodes[node].function);
}

static void json_to(struct ip_json *j, const char *key, uint64_t ns)
{
	if (ns == UINT64_MAX)
		ip_json_string(j, key, NULL);
	else
		ip_json_uint(j, key, ns);
}

static void json_profile(struct ip_json *j, const struct cli_darc *d)
{
	const struct ip_darc_search *s = d->profile;
	const struct ip_peak_bins *b = &s->latencies.bins;
	const unsigned width = IP_PEAK_STEPS / s->peaks.steps;
	size_t number = 0, searched = 0;

	ip_json_uint(j, "calls", b->count);
	ip_json_uint(j, "left_out", s->latencies.left_out);
	ip_json_uint(j, "min_ns", b->min);
	ip_json_uint(j, "max_ns", b->max);
	ip_json_uint(j, "total_ns", b->total);
	ip_json_array(j, "buckets");
	for (unsigned i = 0; i < IP_PEAK_BINS; i += width) {
		uint64_t calls = 0;

		for (unsigned k = 0; k < width; k++)
			calls += b->calls[i + k];
		if (!calls)
			continue;
		ip_json_object(j, NULL);
		ip_json_uint(j, "from_ns", ip_peak_bin_from(i));
		json_to(j, "to_ns", ip_peak_bin_from(i + width));
		ip_json_uint(j, "calls", calls);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_array(j, "peaks");
	for (size_t i = 0; i < s->peaks.n; i++) {
		const struct ip_peak *p = &s->peaks.items[i];

		number += !p->refused;
		searched = i + 1 == s->peak ? number : searched;
		ip_json_object(j, NULL);
		if (p->refused)
			ip_json_string(j, "number", NULL);
		else
			ip_json_uint(j, "number", number);
		ip_json_uint(j, "from_ns", p->from_ns);
		json_to(j, "to_ns", p->to_ns);
		ip_json_uint(j, "top_ns", p->top_from_ns);
		ip_json_uint(j, "count", p->count);
		ip_json_bool(j, "refused", p->refused);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	if (searched)
		ip_json_uint(j, "peak", searched);
	else
		ip_json_string(j, "peak", NULL);
}

static void json_range(struct ip_json *j, const char *key, const struct ip_darc_range *r)
{
	ip_json_object(j, key);
	ip_json_uint(j, "from_ns", r->from_ns);
	json_to(j, "to_ns", r->to_ns);
	ip_json_uint(j, "count", r->seen);
	ip_json_uint(j, "looked_at", r->operations.n);
	ip_json_end_object(j);
}

/* The thread and the function that another thread was in. */
void cli_darc_json_who(struct ip_json *j, const struct cli_darc *d, const struct ip_cause_part *p)
{
	const bool other = p && p->thread && p->thread->tid >= IP_KERNEL_OTHER;

	if (p && p->thread && !other)
		ip_json_int(j, "tid", p->thread->tid);
	else
		ip_json_string(j, "tid", NULL);
	ip_json_string(j, "thread", p && p->thread && !other ? p->thread->name : NULL);
	ip_json_string(j, "in",
		       p && p->in != IP_NO_FUNCTION ? ip_names_get(d->names, p->in) : NULL);
	ip_json_bool(j, "holder", p && p->is_lock);
}

/* What a part was for: "futex:&log.lock"; of a preemption, the thread that had the CPU; of an
 * interrupt, which. */
int cli_darc_json_object(struct ip_json *j, const struct cli_darc *d, const struct ip_cause_part *p)
{
	_cleanup_free_ char *object = NULL;
	char interrupt[IP_INTERRUPT_NAME_MAX];

	if (p && p->kind == IP_CAUSE_BLOCKED) {
		object = ip_trace_waits_object(d->waits, &p->object);
		if (!object)
			return -1;
	}
	ip_json_string(
		j, "object",
		object						  ? object
		: p && p->kind == IP_CAUSE_PREEMPTED && p->thread ? p->thread->name
		: p && p->kind == IP_CAUSE_INTERRUPT
			? ip_interrupt_name(&d->waits->interrupts, p->interrupt, p->line, interrupt)
			: NULL);
	return 0;
}

static int json_parts(struct ip_json *j, const struct cli_darc *d, size_t cause)
{
	const struct ip_cause_waits *w = &d->search->waits[cause];
	const struct ip_darc_cause *c = &d->search->causes.items[cause];

	ip_json_array(j, "parts");
	for (size_t i = 0; i < w->n; i++) {
		const struct ip_cause_part *p = &w->parts[i];
		const double excess = ip_cause_part_excess(c, p);

		ip_json_object(j, NULL);
		ip_json_string(j, "kind", ip_cause_kind_name(p->kind));
		if (cli_darc_json_object(j, d, p) < 0)
			return -1;
		cli_darc_json_who(j, d, p);
		ip_json_uint(j, "ns", ns_of(d, c->n ? (double)p->ticks / c->n : 0));
		ip_json_int(j, "excess_ns", (int64_t)llround(cli_darc_ns(d, excess)));
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	return 0;
}

static int json_cause(struct ip_json *j, const struct cli_darc *d, size_t cause)
{
	const struct ip_darc_cause *c = &d->search->causes.items[cause];
	const struct ip_cause_part *part;
	const char *kind = ip_darc_cause_kind(d->search, cause, &part);
	_cleanup_free_ uint32_t *path = NULL;
	size_t n;

	path = cli_darc_path(d, c->node, &n);
	if (!path)
		return -1;
	ip_json_object(j, NULL);
	ip_json_array(j, "path");
	for (size_t i = 0; i < n; i++)
		ip_json_string(j, NULL, name_of(d, path[i]));
	ip_json_end_array(j);
	ip_json_uint(j, "node", c->node);
	ip_json_double(j, "share", c->share);
	ip_json_uint(j, "calls", c->n);
	ip_json_object(j, "cause");
	ip_json_string(j, "kind", kind);
	if (cli_darc_json_object(j, d, part) < 0)
		return -1;
	cli_darc_json_who(j, d, part);
	if (c->loop.node != IP_FTREE_NONE) {
		ip_json_object(j, "loop");
		ip_json_string(j, "function", name_of(d, c->loop.node));
		ip_json_uint(j, "node", c->loop.node);
		ip_json_double(j, "calls", c->loop.calls);
		ip_json_double(j, "usual_calls", c->loop.reference_calls);
		ip_json_uint(j, "sum_ns", ns_of(d, c->loop.ticks));
		ip_json_uint(j, "usual_sum_ns", ns_of(d, c->loop.reference_ticks));
		ip_json_end_object(j);
	}
	ip_json_end_object(j);
	if ((d->search->waits && json_parts(j, d, cause) < 0) ||
	    cli_darc_json_stretches(j, d, cause) < 0)
		return -1;
	ip_json_end_object(j);
	return 0;
}

static int json_node(struct ip_json *j, const struct cli_darc *d, uint32_t node)
{
	const struct ip_darc_search *s = d->search;
	const struct ip_ftree_node *n = &s->ftree.nodes[node];
	const struct ip_darc_figures *f = &s->causes.figures[node];
	const struct ip_place *place = cli_darc_place(d, node);
	_cleanup_free_ char *at = place ? ip_place_text(place) : NULL;

	if (place && !at)
		return ip_error("out of memory");
	ip_json_object(j, NULL);
	ip_json_uint(j, "node", node);
	if (n->parent == IP_FTREE_NONE)
		ip_json_string(j, "parent", NULL);
	else
		ip_json_uint(j, "parent", n->parent);
	ip_json_uint(j, "depth", n->depth);
	ip_json_string(j, "function", name_of(d, node));
	ip_json_string(j, "module",
		       ip_recording_module_name(s->session, &s->session->functions[n->function]));
	ip_json_string(j, "call_site", at);
	if (ip_ftree_is_elsewhere(n))
		ip_json_string(j, "handover",
			       n->call_site == IP_FTREE_QUEUED ? "queued" : "served");
	ip_json_bool(j, "root_cause", f->cause);
	ip_json_uint(j, "looked_at", f->operations);
	ip_json_uint(j, "maxcount", f->maxcount);
	ip_json_uint(j, "own_maxcount", f->own_maxcount);
	ip_json_double(j, "calls", f->calls);
	ip_json_uint(j, "longest_ns", ns_of(d, f->longest));
	ip_json_uint(j, "sum_ns", ns_of(d, f->sum));
	ip_json_uint(j, "own_ns", ns_of(d, f->own));
	ip_json_double(j, "usual_calls", f->reference_calls);
	ip_json_uint(j, "usual_longest_ns", ns_of(d, f->reference_longest));
	ip_json_uint(j, "usual_sum_ns", ns_of(d, f->reference_sum));
	ip_json_uint(j, "usual_own_ns", ns_of(d, f->reference_own));
	ip_json_end_object(j);
	return 0;
}

static int json_search(struct ip_json *j, const struct cli_darc *d, size_t most)
{
	const struct ip_darc_search *s = d->search;
	size_t n = 0;

	if (s->ranges[0].most)
		json_range(j, "searched", &s->ranges[0]);
	if (s->ranges[1].most)
		json_range(j, "usual", &s->ranges[1]);
	ip_json_uint(j, "functions_at_once", s->causes.functions);
	ip_json_array(j, "paths");
	for (size_t i = 0; i < s->causes.n; i++)
		if (json_cause(j, d, i) < 0)
			return -1;
	ip_json_end_array(j);
	ip_json_array(j, "ftree");
	for (uint32_t i = 0; s->causes.figures && i < s->causes.nfigures; i++)
		if (s->causes.figures[i].looked && (!d->used || d->used[i]) &&
		    (n++ < most || s->causes.figures[i].cause) && json_node(j, d, i) < 0)
			return -1;
	ip_json_end_array(j);
	return 0;
}

static int json_variance(struct ip_json *j, const struct cli_darc *d)
{
	const struct ip_variances *v = &d->search->variances;

	ip_json_uint(j, "looked_at", v->operations);
	ip_json_uint(j, "mean_ns", ns_of(d, v->mean));
	ip_json_uint(j, "deviation_ns", ns_of(d, sqrt(v->variance)));
	ip_json_array(j, "nodes");
	for (size_t i = 0; i < v->n; i++) {
		const struct ip_node_variance *x = &v->nodes[i];
		_cleanup_free_ uint32_t *path = NULL;
		size_t n;

		path = cli_darc_path(d, x->node, &n);
		if (!path)
			return -1;
		ip_json_object(j, NULL);
		ip_json_uint(j, "node", x->node);
		ip_json_array(j, "path");
		for (size_t k = 0; k < n; k++)
			ip_json_string(j, NULL, name_of(d, path[k]));
		ip_json_end_array(j);
		ip_json_double(j, "share", x->share);
		ip_json_uint(j, "own_mean_ns", ns_of(d, x->mean));
		ip_json_uint(j, "own_deviation_ns", ns_of(d, sqrt(x->variance)));
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_array(j, "covariances");
	for (size_t i = 0; i < v->npairs; i++) {
		ip_json_object(j, NULL);
		ip_json_array(j, "nodes");
		ip_json_uint(j, NULL, v->pairs[i].a);
		ip_json_uint(j, NULL, v->pairs[i].b);
		ip_json_end_array(j);
		ip_json_double(j, "share", v->pairs[i].share);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	return 0;
}

int cli_darc_json_members(struct ip_json *j, const struct cli_darc *d, size_t most)
{
	const struct ip_darc_search *s = d->search;

	ip_json_string(j, "function", name_of(d, 0));
	ip_json_string(
		j, "module",
		ip_recording_module_name(s->session, &s->session->functions[s->options.function]));
	ip_json_uint(j, "events", d->profile->latencies.events);
	ip_json_uint(j, "lost", d->lost);
	ip_json_bool(j, "kernel", d->waits != NULL);
	json_profile(j, d);
	ip_json_string(j, "state", ip_darc_state_name(s->state));
	ip_json_string(j, "reason", *s->reason ? s->reason : NULL);
	return s->options.variance ? json_variance(j, d) : json_search(j, d, most);
}

int cli_darc_json(const struct cli_darc *d)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	return cli_darc_json_put(&j, NULL, d);
}

int cli_darc_json_put(struct ip_json *j, const char *key, const struct cli_darc *d)
{
	int ret;

	ip_json_object(j, key);
	ret = cli_darc_json_members(j, d, SIZE_MAX);
	if (d->kept)
		cli_darc_kept_json(j, d->kept);
	if (d->stops)
		cli_json_stops(j, d->stops);
	ip_json_end_object(j);
	return ret;
}
