/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what was measured in an interval: the difference of two readings.
 */
#include "cli/hist/hist_live_lines.h"

#include <stdlib.h>
#include <string.h>

#include "cli/elide.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

#define NAME_ROOM 25u /* columns of the functions' names behind the lines */

static void clear_functions(struct cli_hist_live_function *functions, size_t n)
{
	for (size_t i = 0; functions && i < n; i++) {
		free(functions[i].key);
		free(functions[i].intervals);
	}
	free(functions);
}

void cli_hist_live_lines_clear(struct cli_hist_live_lines *l)
{
	clear_functions(l->functions, l->n);
	*l = (struct cli_hist_live_lines){0};
}

static int by_key(const void *a, const void *b)
{
	const struct cli_hist_live_function *x = a, *y = b;

	return strcmp(x->key, y->key);
}

/* Gives each function of the recording its place, and what it had in the reading before. */
static int renew(struct cli_hist_live_lines *l, const struct ip_recording *s)
{
	struct cli_hist_live_function *functions = calloc(s->nfunctions + 1, sizeof(*functions));

	if (!functions)
		return ip_error("out of memory");
	if (l->n)
		qsort(l->functions, l->n, sizeof(*l->functions), by_key);
	for (size_t i = 0; i < s->nfunctions; i++) {
		const struct ip_recording_function *f = &s->functions[i];
		struct cli_hist_live_function *old = NULL;

		if (asprintf(&functions[i].key, "%s\n%s", f->linker_name ? f->linker_name : "",
			     ip_recording_module_name(s, f)) < 0) {
			functions[i].key = NULL;
			clear_functions(functions, i);
			return ip_error("out of memory");
		}
		if (l->n)
			old = bsearch(&functions[i], l->functions, l->n, sizeof(*l->functions),
				      by_key);
		if (old)
			functions[i].intervals = ip_steal_ptr(old->intervals);
	}
	clear_functions(l->functions, l->n);
	l->functions = functions;
	l->n = s->nfunctions;
	return 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Returns what was counted between two readings, *ret_calls of it in selected functions; NULL with
 * an error. What is known of all calls only, such as the longest, is left out. */
static struct ip_counts *difference(const struct cli_live_counts *c, const struct ip_recording *s,
				    const bool *selected, uint64_t *ret_calls)
{
	struct ip_counts *d = ip_counts_create(s);

	*ret_calls = 0;
	if (!d)
		return NULL;
	d->tsc = c->now->tsc;
	d->nbuckets = c->now->nbuckets;
	d->shift = c->now->shift;
	for (size_t i = 0; i < d->nfunctions; i++) {
		const struct ip_count *now = &c->now->functions[i],
				      *before = &c->before->functions[i];
		struct ip_count *f = &d->functions[i];

		f->ended = less(now->ended, before->ended);
		f->sum = less(now->sum, before->sum);
		for (unsigned b = 0; b < d->nbuckets; b++)
			f->buckets[b] = less(now->buckets[b], before->buckets[b]);
		*ret_calls += selected[i] ? f->ended : 0;
	}
	return d;
}

/* Makes the line of a function. calls must live as long as the line. */
static int make_line(struct cli_hist_live_lines *l, uint32_t function,
		     const struct cli_histogram *f, uint64_t begin_ns, struct cli_hist_line *ret)
{
	struct ip_profile_intervals **intervals = &l->functions[function].intervals;

	if (!*intervals)
		*intervals = calloc(1, sizeof(**intervals));
	if (!*intervals)
		return ip_error("out of memory");
	cli_hist_line_make(*intervals, begin_ns, f->calls, ret);
	return 0;
}

/* Has the axis show all calls of the functions. Returns whether it is another one then. */
static bool fit_axis(struct cli_hist_live_lines *l, const struct cli_hist *h,
		     const struct cli_hist_options *o, unsigned others)
{
	struct cli_hist_axis *axis = &l->axis;
	bool renewed = !l->has_axis;

	for (size_t i = 0; i < h->n; i++) {
		struct cli_histogram f;

		cli_hist_make(h, h->order[i], &f);
		memcpy(axis->from, f.from, sizeof(axis->from));
		for (unsigned b = 0; b < f.nbuckets; b++) {
			if (!f.calls[b] || (l->has_axis && b >= axis->first && b <= axis->last))
				continue;
			axis->first = l->has_axis && axis->first < b ? axis->first : b;
			axis->last = l->has_axis && axis->last > b ? axis->last : b;
			l->has_axis = renewed = true;
		}
	}
	if (renewed)
		cli_hist_axis_fit(axis, o->interval_ns, others);
	return renewed;
}

static int show_text(struct cli_hist_live_lines *l, const struct cli_hist *h,
		     const struct cli_hist_options *o, bool one, uint64_t begin_ns)
{
	const bool is_first = !l->has_axis;

	if (fit_axis(l, h, o, one ? 0 : NAME_ROOM)) {
		if (is_first)
			cli_hist_print_line_note();
		cli_hist_print_axis(&l->axis);
	}
	for (size_t i = 0; i < h->n; i++) {
		struct cli_histogram f;
		struct cli_hist_line line;
		_cleanup_free_ char *name = NULL;

		cli_hist_make(h, h->order[i], &f);
		if (make_line(l, h->order[i], &f, begin_ns, &line) < 0)
			return -1;
		cli_hist_print_line(&l->axis, &line);
		if (!one) {
			name = strdup(ip_names_shown(h->names, h->order[i]));
			if (!name)
				return ip_error("out of memory");
			if (cli_name_width(0, 1) != SIZE_MAX)
				cli_fit_name(name, NAME_ROOM - 1);
			ip_print(stdout, " %s", name);
		}
		ip_print(stdout, "\n");
	}
	return 0;
}

static int show_json(struct cli_hist_live_lines *l, const struct cli_hist *h, uint64_t begin_ns,
		     uint64_t interval_ns)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	cli_hist_processes_json(&j, h);
	ip_json_uint(&j, "ts", begin_ns + interval_ns);
	ip_json_uint(&j, "interval_ns", interval_ns);
	ip_json_array(&j, "functions");
	for (size_t i = 0; i < h->n; i++) {
		const uint32_t function = h->order[i];
		const struct ip_recording *s = h->session;
		struct cli_histogram f;
		struct cli_hist_line line;

		cli_hist_make(h, function, &f);
		if (make_line(l, function, &f, begin_ns, &line) < 0)
			return -1;
		ip_json_object(&j, NULL);
		ip_json_string(&j, "function", ip_names_get(h->names, function));
		cli_json_short(&j, ip_names_get(h->names, function),
			       ip_names_short(h->names, function));
		ip_json_string(&j, "module", ip_recording_module_name(s, &s->functions[function]));
		ip_json_uint(&j, "calls", f.count);
		ip_json_uint(&j, "total_ns", f.total);
		cli_hist_line_json(&j, &line);
		cli_hist_buckets_json(&j, &f);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
	return 0;
}

int cli_hist_live_lines_show(struct cli_hist_live_lines *l, const struct cli_hist *base,
			     const struct cli_hist_options *o, const bool *selected, bool renewed)
{
	const struct cli_live_counts *c = base->live;
	struct cli_hist h = *base;
	struct ip_counts *counts;
	uint64_t calls, begin_ns, end_ns;
	size_t nselected = 0;
	int ret = 0;

	if ((renewed || !l->functions) && renew(l, h.session) < 0)
		return -1;
	if (!c->before)
		return 0;
	counts = difference(c, h.session, selected, &calls);
	if (!counts)
		return -1;
	h.counts = counts;
	begin_ns = ip_recording_since_start(h.session, c->before->tsc);
	end_ns = ip_recording_since_start(h.session, c->now->tsc);
	for (size_t i = 0; i < h.session->nfunctions; i++)
		nselected += selected[i];
	if (calls)
		ret = cli_hist_order(&h, selected, o->filter.limit);
	if (ret == 0)
		ret = o->json ? show_json(l, &h, begin_ns, less(end_ns, begin_ns))
		      : calls ? show_text(l, &h, o, nselected == 1, begin_ns)
			      : 0;
	free(h.order);
	ip_counts_destroy(counts);
	return ret;
}
