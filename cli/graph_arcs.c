/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of iprobe graph that are made of pairs of caller and callee.
 *
 * In a recursion the times are those of outermost calls, as in report; the calls are all calls.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/graph_print.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

/* The sum of the arcs that lead to a function. */
struct sum {
	uint64_t calls, total, self;
	uint32_t function;
	bool reached; /* by calls; no thread is */
};

static void print_name(const struct cli_graph *g, uint32_t function)
{
	ip_print(stdout, "%s%s\n",
		 function == IP_NO_NODE ? "(not recorded)" : ip_names_shown(g->names, function),
		 function != IP_NO_NODE && g->tree->until_tail[function] ? "  (until its tail call)"
									 : "");
}

static void print_figures(const struct cli_graph *g, uint64_t total, uint64_t self, uint64_t calls)
{
	const struct ip_recording *s = g->trace->session;
	char buffers[2][16], count[32];

	ip_print(stdout, "%8s %8s %13s  ", ip_format_ns(ip_recording_ns(s, total), buffers[0]),
		 ip_format_ns(ip_recording_ns(s, self), buffers[1]), ip_format_count(calls, count));
}

static bool is_thread(const struct cli_graph *g, uint32_t function)
{
	return function != IP_NO_NODE && ip_tree_thread_of(g->threads, function);
}

/* Returns how many numbers functions and threads have. */
static size_t count_numbers(const struct cli_graph *g)
{
	return g->trace->session->nfunctions + (g->by_thread || g->by_process ? g->threads->n : 0);
}

static struct sum *add_up(const struct cli_graph *g, const struct ip_call_arc *arcs, size_t n)
{
	struct sum *sums = calloc(count_numbers(g), sizeof(*sums));

	/* nothing leads to a thread: its sum is that of what begins in it */
	for (uint32_t i = 1; sums && i < g->tree->n; i++) {
		const struct ip_call_node *node = &g->tree->nodes[i];

		if (!is_thread(g, node->function))
			continue;
		sums[node->function].function = node->function;
		sums[node->function].total = node->total;
	}
	for (size_t i = 0; sums && i < n; i++) {
		struct sum *sum = &sums[arcs[i].callee];

		sum->function = arcs[i].callee;
		sum->reached = true;
		sum->calls += arcs[i].calls;
		sum->total += arcs[i].total;
		sum->self += arcs[i].self;
	}
	return sums;
}

static int by_total(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->function > y->function) - (x->function < y->function);
}

static void print_block(const struct cli_graph *g, const struct sum *sum,
			const struct ip_call_arc *arcs, size_t n)
{
	const struct ip_call_arc **callers = calloc(n ? n : 1, sizeof(*callers));
	size_t ncallers = 0;

	for (size_t i = 0; callers && i < n; i++)
		if (arcs[i].callee == sum->function)
			callers[ncallers++] = &arcs[i];
	/* the most expensive caller comes last, next to the function */
	for (size_t i = 1; i < ncallers; i++)
		for (size_t k = i; k && callers[k - 1]->total > callers[k]->total; k--) {
			const struct ip_call_arc *swapped = callers[k];

			callers[k] = callers[k - 1];
			callers[k - 1] = swapped;
		}
	for (size_t i = 0; i < ncallers; i++) {
		print_figures(g, callers[i]->total, callers[i]->self, callers[i]->calls);
		ip_print(stdout, "    ");
		print_name(g, callers[i]->caller);
	}
	print_figures(g, sum->total, sum->self, sum->calls);
	print_name(g, sum->function);
	for (size_t i = 0; i < n; i++)
		if (arcs[i].caller == sum->function) {
			print_figures(g, arcs[i].total, arcs[i].self, arcs[i].calls);
			ip_print(stdout, "    ");
			print_name(g, arcs[i].callee);
		}
	free(callers);
}

static void print_callers_head(const struct cli_graph *g)
{
	ip_print(stdout, "Above each function its callers, below it what it calls; their rows are "
			 "its share of them.\n");
	cli_graph_print_idle(g);
	ip_print(stdout, "\n");
	ip_print(stdout, "%8s %8s %13s  %s\n", "total", "self", "calls", "function");
}

ssize_t cli_graph_callers(const struct cli_graph *g, const bool *wanted)
{
	_cleanup_free_ struct ip_call_arc *arcs = NULL;
	_cleanup_free_ struct sum *sums = NULL;
	size_t nfunctions = g->trace->session->nfunctions, blocks = 0;
	ssize_t n = ip_calltree_arcs(g->tree, &arcs);

	if (n < 0)
		return -1;
	sums = add_up(g, arcs, n);
	if (!sums)
		return ip_error("out of memory");
	qsort(sums, nfunctions, sizeof(*sums), by_total);
	for (size_t i = 0; i < nfunctions; i++)
		if (sums[i].reached && wanted[sums[i].function]) {
			if (!blocks++)
				print_callers_head(g);
			else
				ip_print(stdout,
					 "--------------------------------------------------\n");
			print_block(g, &sums[i], arcs, n);
		}
	return blocks;
}

/* Prints a name within "" of the DOT language. */
static void print_quoted(const char *text)
{
	_cleanup_free_ char *clean = strdup(text);

	if (clean)
		ip_clean(clean);
	ip_print(stdout, "\"");
	for (const char *p = clean ? clean : "?"; *p;) {
		int n = strcspn(p, "\"\\");

		ip_print(stdout, "%.*s", n, p);
		p += n;
		if (*p)
			ip_print(stdout, "\\%c", *p++);
	}
	ip_print(stdout, "\"");
}

int cli_graph_dot(const struct cli_graph *g)
{
	const struct ip_recording *s = g->trace->session;
	_cleanup_free_ struct ip_call_arc *arcs = NULL;
	_cleanup_free_ struct sum *sums = NULL;
	ssize_t n = ip_calltree_arcs(g->tree, &arcs);
	double all = g->tree->ticks ? g->tree->ticks : 1;
	char buffers[2][16], count[32];

	if (n < 0)
		return -1;
	sums = add_up(g, arcs, n);
	if (!sums)
		return ip_error("out of memory");
	ip_names_mark_tails(g->names, g->tree->until_tail);
	ip_print(stdout, "digraph calls {\n\tnode [shape=box, fontname=\"sans-serif\"];\n\tedge "
			 "[fontname=\"sans-serif\"];\n");
	for (uint32_t f = 0; f < count_numbers(g); f++) {
		_cleanup_free_ char *label = NULL, *name = NULL;

		if ((!sums[f].reached && !is_thread(g, f)) ||
		    100 * sums[f].total / all < g->min_percent)
			continue;
		name = strdup(ip_names_shown(g->names, f));
		if (!name)
			return ip_error("out of memory");
		ip_clean(name); /* lines of the label are its own */
		ip_format_ns(ip_recording_ns(s, sums[f].total), buffers[0]);
		ip_format_ns(ip_recording_ns(s, sums[f].self), buffers[1]);
		ip_format_count(sums[f].calls, count);
		if (is_thread(g, f)
			    ? asprintf(&label, "%s\ntotal %s", name, buffers[0]) < 0
			    : asprintf(&label, "%s\ntotal %s, self %s\n%s call%s", name, buffers[0],
				       buffers[1], count, ip_plural(sums[f].calls)) < 0)
			return ip_error("out of memory");
		ip_print(stdout, "\tf%u [label=", f);
		/* a newline in a label is written as the two characters \n */
		for (char *line = label, *next; line; line = next) {
			next = strchr(line, '\n');
			if (next)
				*next++ = '\0';
			print_quoted(line);
			ip_print(stdout, "%s", next ? " + \"\\n\" + " : "");
		}
		ip_print(stdout, "%s, penwidth=%.1f];\n", is_thread(g, f) ? ", shape=ellipse" : "",
			 1 + 4 * sums[f].self / all);
	}
	for (ssize_t i = 0; i < n; i++) {
		const struct ip_call_arc *a = &arcs[i];

		if (a->caller != IP_NO_NODE &&
		    100 * sums[a->caller].total / all >= g->min_percent &&
		    100 * sums[a->callee].total / all >= g->min_percent)
			ip_print(stdout, "\tf%u -> f%u [label=\"%s\\n%s\"];\n", a->caller,
				 a->callee, ip_format_count(a->calls, count),
				 ip_format_ns(ip_recording_ns(s, a->total), buffers[0]));
	}
	ip_print(stdout, "}\n");
	return 0;
}
