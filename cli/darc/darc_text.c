/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the histogram with its peaks, and the root causes, for people.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/darc/darc.h"
#include "cli/darc/darc_state.h"
#include "cli/record/stops.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"

#define BAR	    40u
#define PARTS_SHOWN 4u
#define PART_SHARE  0.05 /* of what a cause is slower by: less is not shown */
#define NODES_SHOWN 20u	 /* by variance */
#define SHARE_SHOWN 0.005

double cli_darc_ns(const struct cli_darc *d, double ticks)
{
	return ticks * 1e9 / (double)d->search->session->tsc_hz;
}

const struct ip_place *cli_darc_place(const struct cli_darc *d, uint32_t node)
{
	const struct ip_ftree_node *n = &d->search->ftree.nodes[node];

	return n->call_site && !ip_ftree_is_elsewhere(n)
		       ? ip_symbolizer_get(d->places, n->member,
					   d->search->session->functions[n->function].module,
					   n->call_site)
		       : NULL;
}

uint32_t *cli_darc_path(const struct cli_darc *d, uint32_t node, size_t *ret_n)
{
	const struct ip_ftree_node *nodes = d->search->ftree.nodes;
	size_t n = nodes[node].depth + 1;
	uint32_t *path = calloc(n, sizeof(*path));

	*ret_n = n;
	if (!path)
		ip_error("out of memory");
	for (; path && n--; node = nodes[node].parent)
		path[n] = node;
	return path;
}

static const char *name_of(const struct cli_darc *d, uint32_t node)
{
	return ip_names_shown(d->names, d->search->ftree.nodes[node].function);
}

/* The peak that a bin is the top of, as a note. */
static void print_peak(const struct ip_darc_search *profile, uint64_t from)
{
	size_t number = 0;

	for (size_t i = 0; i < profile->peaks.n; i++) {
		const struct ip_peak *p = &profile->peaks.items[i];

		number += !p->refused;
		if (from != p->top_from_ns)
			continue;
		if (p->refused)
			ip_print(stdout, " < %" PRIu64 " call%s: too few for a peak", p->count,
				 ip_plural(p->count));
		else
			ip_print(stdout, " < peak %zu%s", number,
				 i + 1 == profile->peak ? ", which is searched" : "");
	}
}

void cli_darc_profile_text(const char *name, const struct ip_darc_search *profile)
{
	const struct ip_peak_bins *b = &profile->latencies.bins;
	const unsigned width = IP_PEAK_STEPS / profile->peaks.steps;
	uint64_t calls[IP_PEAK_BINS] = {0}, most = 1;
	unsigned first = IP_PEAK_BINS, last = 0;
	char count[32], min[16], max[16], mean[16];

	if (!b->count) {
		ip_print(stdout, "%s: no calls\n", name);
		return;
	}
	ip_print(stdout, "%s: %s call%s, %s to %s, %s in the mean\n", name,
		 ip_format_count(b->count, count), ip_plural(b->count), ip_format_ns(b->min, min),
		 ip_format_ns(b->max, max), ip_format_ns((double)b->total / b->count, mean));
	for (unsigned i = 0; i < IP_PEAK_BINS; i++)
		calls[i / width] += b->calls[i];
	for (unsigned i = 0; i < IP_PEAK_BINS / width; i++)
		if (calls[i]) {
			first = first < i ? first : i;
			last = i;
			most = calls[i] > most ? calls[i] : most;
		}
	if (first > last)
		return;
	ip_print(stdout, "%9s   %8s %13s  (a bar is the logarithm)\n", "from", "below", "calls");
	for (unsigned i = first; i <= last; i++) {
		const unsigned length =
			calls[i] ? 1 + (unsigned)(log2(calls[i]) / log2(most + 1.0) * (BAR - 1))
				 : 0;
		const uint64_t to = ip_peak_bin_from((i + 1) * width);

		ip_print(stdout, "%9s - %8s %13s ", ip_format_ns(ip_peak_bin_from(i * width), min),
			 to == UINT64_MAX ? "" : ip_format_ns(to, max),
			 ip_format_count(calls[i], count));
		for (unsigned k = 0; k < length; k++)
			ip_print(stdout, "#");
		print_peak(profile, ip_peak_bin_from(i * width));
		ip_print(stdout, "\n");
	}
}

static void print_chosen(const struct cli_darc *d)
{
	const struct ip_darc_search *s = d->search;
	const struct ip_darc_range *r = s->ranges;
	char from[16], to[16], count[32];

	ip_print(stdout, "\nSearched: %s call%s of ", ip_format_count(r[0].seen, count),
		 ip_plural(r[0].seen));
	if (r[0].to_ns == UINT64_MAX)
		ip_print(stdout, "%s or more", ip_format_ns(r[0].from_ns, from));
	else
		ip_print(stdout, "%s to %s", ip_format_ns(r[0].from_ns, from),
			 ip_format_ns(r[0].to_ns, to));
	if (r[0].operations.n < r[0].seen)
		ip_print(stdout, ", %s of them looked at",
			 ip_format_count(r[0].operations.n, count));
	if (r[1].most)
		ip_print(stdout, "; usual: %s call%s of %s to %s",
			 ip_format_count(r[1].seen, count), ip_plural(r[1].seen),
			 ip_format_ns(r[1].from_ns, from), ip_format_ns(r[1].to_ns, to));
	ip_print(stdout, "\n");
}

static void print_thread(FILE *out, const struct ip_thread_states *t)
{
	if (t->tid >= IP_KERNEL_OTHER)
		ip_print(out, "another process on CPU %d", t->tid - IP_KERNEL_OTHER);
	else if (*t->name)
		ip_print(out, "%s (%d)", t->name, t->tid);
	else
		ip_print(out, "thread %d", t->tid);
}

void cli_darc_print_part(FILE *out, const struct cli_darc *d, const struct ip_cause_part *p)
{
	char name[IP_INTERRUPT_NAME_MAX];

	switch (p->kind) {
	case IP_CAUSE_SELF:
		ip_print(out, "on a CPU");
		break;
	case IP_CAUSE_PREEMPTED:
		ip_print(out, "waiting for a CPU");
		if (p->thread) {
			ip_print(out, ", which ");
			print_thread(out, p->thread);
			ip_print(out, " had");
		}
		break;
	case IP_CAUSE_INTERRUPT:
		ip_print(out, "interrupted: %s",
			 ip_interrupt_name(&d->waits->interrupts, p->interrupt, p->line, name));
		break;
	case IP_CAUSE_FAULT:
		ip_print(out, "in page faults");
		break;
	case IP_CAUSE_BLOCKED:
		ip_print(out, "blocked on %s %s", ip_wait_kind_name(p->object.kind),
			 ip_object_name(d->waits->names, &p->object));
		if (!p->thread)
			break;
		ip_print(out, p->is_lock ? ", held by " : ", ended by ");
		print_thread(out, p->thread);
		if (p->in != IP_NO_FUNCTION)
			ip_print(out, " in %s", ip_names_shown(d->names, p->in));
		break;
	default:
		ip_print(out, "not known");
	}
}

static void print_parts(const struct cli_darc *d, size_t cause, int indent)
{
	const struct ip_cause_waits *w = &d->search->waits[cause];
	const struct ip_darc_cause *c = &d->search->causes.items[cause];
	double all = 0;
	char time[16];

	for (size_t i = 0; i < w->n; i++)
		all += fmax(0, ip_cause_part_excess(c, &w->parts[i]));
	for (size_t i = 0; i < w->n && i < PARTS_SHOWN; i++) {
		const double excess = ip_cause_part_excess(c, &w->parts[i]);

		if (excess <= 0 || excess < PART_SHARE * all)
			break;
		ip_print(stdout, "%*s%9s%s  ", indent, "",
			 ip_format_ns(cli_darc_ns(d, excess), time),
			 d->search->ranges[1].most ? " more" : "");
		cli_darc_print_part(stdout, d, &w->parts[i]);
		ip_print(stdout, "\n");
	}
}

static void print_loop(const struct cli_darc *d, const struct ip_darc_loop *l, int indent)
{
	char time[16];

	if (l->node == IP_FTREE_NONE)
		return;
	ip_print(stdout, "%*sa loop: %.0f calls of %s", indent, "", l->calls, name_of(d, l->node));
	if (d->search->ranges[1].most)
		ip_print(stdout, " (usually %.0f)", l->reference_calls);
	ip_print(stdout, " take %s together\n", ip_format_ns(cli_darc_ns(d, l->ticks), time));
}

/* The name of a node, for people, with what it is where it is no call of the node above. */
static void print_name(const struct cli_darc *d, uint32_t node)
{
	const uint64_t site = d->search->ftree.nodes[node].call_site;

	ip_print(stdout, "%s%s%s", site == IP_FTREE_QUEUED ? "waits to be served by " : "",
		 name_of(d, node),
		 site == IP_FTREE_SERVED   ? ", in the thread that serves it"
		 : site == IP_FTREE_QUEUED ? ", whose thread does meanwhile:"
					   : "");
}

/* One line of a path: the node with its times. */
static int print_node(const struct cli_darc *d, uint32_t node, size_t depth)
{
	const struct ip_darc_search *s = d->search;
	const struct ip_darc_figures *f = &s->causes.figures[node];
	const struct ip_place *place = cli_darc_place(d, node);
	_cleanup_free_ char *at = place ? ip_place_text(place) : NULL;
	char time[16], usual[16];

	if (place && !at)
		return ip_error("out of memory");
	ip_print(stdout, "%9s", ip_format_ns(cli_darc_ns(d, f->longest), time));
	if (s->ranges[1].most)
		ip_print(stdout, " %9s", ip_format_ns(cli_darc_ns(d, f->reference_longest), usual));
	ip_print(stdout, "  %*s", (int)(2 * depth), "");
	print_name(d, node);
	if (at)
		ip_print(stdout, "  at %s", at);
	if (depth)
		ip_print(stdout, "  (largest in %" PRIu64 " of %" PRIu64 "%s", f->maxcount,
			 f->operations, f->calls >= 1.5 ? "" : ")");
	if (depth && f->calls >= 1.5)
		ip_print(stdout, "; of %.0f calls, %s together)", f->calls,
			 ip_format_ns(cli_darc_ns(d, f->sum), time));
	ip_print(stdout, "\n");
	return 0;
}

static int print_cause(const struct cli_darc *d, size_t cause)
{
	const struct ip_darc_search *s = d->search;
	const struct ip_darc_cause *c = &s->causes.items[cause];
	const struct ip_darc_figures *f = &s->causes.figures[c->node];
	const struct ip_cause_part *part;
	_cleanup_free_ uint32_t *path = NULL;
	size_t n;
	char time[16], usual[16];
	int indent;

	path = cli_darc_path(d, c->node, &n);
	if (!path)
		return -1;
	ip_print(stdout, "\nRoot cause of %.0f %% of them:\n%9s", 100 * c->share, "LONGEST");
	if (s->ranges[1].most)
		ip_print(stdout, " %9s", "USUALLY");
	ip_print(stdout, "  CALL PATH\n");
	for (size_t i = 0; i < n; i++)
		if (print_node(d, path[i], i) < 0)
			return -1;
	indent = (s->ranges[1].most ? 21 : 11) + 2 * (int)n;
	if (c->stop == IP_DARC_DEPTH && s->state == IP_DARC_IN_PROGRESS)
		ip_print(stdout, "%*sthe search was ended before it looked below this\n", indent,
			 "");
	else if (c->stop == IP_DARC_DEPTH)
		ip_print(stdout, "%*sthe search ends here: --depth %u\n", indent, "",
			 s->options.depth);
	else if (c->stop == IP_DARC_PREEMPTED)
		ip_print(stdout, "%*s%s, wherever it was\n", indent, "",
			 !strcmp(ip_darc_cause_kind(s, cause, &part), "interrupt")
				 ? "interrupts had the CPU of the thread"
				 : "the thread had to wait for a CPU");
	else if (c->stop == IP_DARC_SPREAD)
		ip_print(stdout,
			 "%*sall that it calls is slower, in proportion: none of it is the "
			 "cause\n",
			 indent, "");
	else if (s->ftree.nodes[c->node].call_site == IP_FTREE_QUEUED)
		ip_print(stdout, "%*snothing that was recorded\n", indent, "");
	else if (s->ranges[1].most)
		ip_print(stdout, "%*sitself, outside of its callees: %s, usually %s\n", indent, "",
			 ip_format_ns(cli_darc_ns(d, f->own), time),
			 ip_format_ns(cli_darc_ns(d, f->reference_own), usual));
	else
		ip_print(stdout, "%*sitself, outside of its callees: %s\n", indent, "",
			 ip_format_ns(cli_darc_ns(d, f->own), time));
	print_loop(d, &c->loop, indent);
	if (s->waits)
		print_parts(d, cause, indent);
	return cli_darc_print_stretches(d, cause, indent + 2);
}

static int print_search(const struct cli_darc *d)
{
	const struct ip_darc_search *s = d->search;
	double told = 0;

	cli_darc_profile_text(name_of(d, 0), d->profile);
	if (s->state == IP_DARC_IN_PROGRESS) {
		ip_print(stdout, "\nThe search was ended before it was over.\n");
		if (*s->reason)
			ip_print(stdout, "So far: %s.\n", s->reason);
		if (d->kept)
			cli_darc_kept_text(d->kept);
		if (!s->ranges[0].most)
			return 0;
	}
	if (s->state == IP_DARC_CHANGED) {
		ip_print(stdout,
			 "\nThe profile has changed: %s.\nNothing is searched; with another file, "
			 "or "
			 "without --resume, a new search begins.\n",
			 s->reason);
		return 0;
	}
	if (s->state == IP_DARC_NO_PEAK) {
		ip_print(stdout, "\nNo peak: %s.\n", s->reason);
		if (s->latencies.bins.count >= IP_PEAK_SAMPLES &&
		    s->options.choice == IP_DARC_RIGHTMOST)
			ip_print(stdout,
				 "--percentile p99 or --slower-than T searches the slowest calls "
				 "all the same, --peak 1 where the time goes.\n");
		return 0;
	}
	print_chosen(d);
	if (s->state == IP_DARC_NO_DIFFERENCE)
		ip_print(stdout, "\n%s.\n",
			 s->causes.n ? "Software cannot tell these calls apart from the usual "
				       "ones: they go the same way, and all of it is slower"
				     : "No call path is the cause of enough of them");
	for (size_t i = 0; i < s->causes.n; i++) {
		if (s->state == IP_DARC_NO_DIFFERENCE) {
			if (s->waits)
				print_parts(d, i, 2);
			continue;
		}
		if (print_cause(d, i) < 0)
			return -1;
		told += s->causes.items[i].share;
	}
	if (s->state != IP_DARC_NO_DIFFERENCE && s->causes.n && told < 0.995)
		ip_print(stdout, "\nThe other %.0f %% have no common cause.\n", 100 * (1 - told));
	if (!d->waits)
		ip_print(stdout, "\nThe trace has no events of the kernel (--kernel): whether the "
				 "threads ran or waited is not known.\n");
	return 0;
}

static void print_all_stops(const struct ip_stop_log *stops)
{
	const size_t n = stops->n + stops->more;
	char together[16];

	if (!n)
		return;
	ip_print(stdout, "\nThe process was stopped %zu time%s, together %s:", n, ip_plural(n),
		 ip_format_ns(stops->ns, together));
	cli_print_stops(stdout, stops);
	ip_print(stdout, "\n");
}

int cli_darc_text(const struct cli_darc *d)
{
	if (print_search(d) < 0)
		return -1;
	if (d->stops)
		print_all_stops(d->stops);
	return 0;
}

int cli_darc_variance_text(const struct cli_darc *d)
{
	const struct ip_variances *v = &d->search->variances;
	char time[16], mean[16];
	size_t shown = 0;

	cli_darc_profile_text(name_of(d, 0), d->profile);
	if (d->search->state == IP_DARC_NO_PEAK) {
		ip_print(stdout, "\n%s.\n", d->search->reason);
		return 0;
	}
	ip_print(stdout,
		 "\nStandard deviation %s, mean %s (%zu looked at). SHARE: the covariance with the "
		 "latency, of 100 %%.\n\n%7s %10s %10s  CALL PATH\n",
		 ip_format_ns(cli_darc_ns(d, sqrt(v->variance)), time),
		 ip_format_ns(cli_darc_ns(d, v->mean), mean), v->operations, "SHARE", "DEVIATION",
		 "OWN MEAN");
	for (size_t i = 0; i < v->n && shown < NODES_SHOWN; i++) {
		const struct ip_node_variance *x = &v->nodes[i];
		_cleanup_free_ uint32_t *path = NULL;
		size_t n;

		if (fabs(x->share) < SHARE_SHOWN)
			continue;
		path = cli_darc_path(d, x->node, &n);
		if (!path)
			return -1;
		ip_print(stdout, "%6.1f%% %10s %10s  ", 100 * x->share,
			 ip_format_ns(cli_darc_ns(d, sqrt(x->variance)), time),
			 ip_format_ns(cli_darc_ns(d, x->mean), mean));
		for (size_t k = 0; k < n; k++) {
			ip_print(stdout, "%s", k ? " > " : "");
			print_name(d, path[k]);
		}
		ip_print(stdout, "\n");
		shown++;
	}
	if (v->npairs)
		ip_print(stdout, "\nTwice the covariances, of the variance:\n");
	for (size_t i = 0; i < v->npairs && i < NODES_SHOWN; i++)
		ip_print(stdout, "%6.1f%%  %s and %s vary together\n", 100 * v->pairs[i].share,
			 name_of(d, v->pairs[i].a), name_of(d, v->pairs[i].b));
	return 0;
}
