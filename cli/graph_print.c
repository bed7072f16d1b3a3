/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the tree of iprobe graph, for people and as JSON. Trees may be as deep as the target's
 * recursions: so all walks are loops.
 */
#include "cli/graph_print.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/filter/filter_note.h"
#include "cli/report/report.h"
#include "cli/report/thread_lines.h"
#include "cli/silent_note.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

/* Deeper rows are not indented further: 100 columns have room for the figures, this indentation
 * and a name. */
#define INDENT_MAX 24u

struct art {
	const char *branch, *last, *through;
};

static const struct art *line_art(void)
{
	static const struct art plain = {"|- ", "`- ", "|  "},
				fine = {"\u251c\u2500 ", "\u2514\u2500 ", "\u2502  "};

	return strcmp(nl_langinfo(CODESET), "UTF-8") ? &plain : &fine;
}

static uint64_t cost(const struct cli_graph *g, const struct ip_call_node *node)
{
	return g->bottom_up ? node->self : node->total;
}

static double percent(const struct cli_graph *g, uint64_t ticks)
{
	return g->tree->ticks ? 100.0 * ticks / g->tree->ticks : 0;
}

static bool is_shown(const struct cli_graph *g, uint32_t node)
{
	return node != IP_NO_NODE && percent(g, cost(g, &g->tree->nodes[node])) >= g->min_percent;
}

/* Prints one row. more: by depth, whether rows of that depth follow. */
static void print_row(const struct cli_graph *g, const struct ip_call_node *node, size_t depth,
		      const bool *more, const struct art *art)
{
	const struct ip_recording *s = g->trace->session;
	_cleanup_free_ char *name = strdup(ip_names_shown(g->names, node->function));
	/* top-down a thread has neither calls nor time of its own */
	const bool own = !ip_tree_thread_of(g->threads, node->function);
	char total[16], self[16], calls[32];

	if (g->bottom_up)
		ip_print(stdout, "%8s %6.1f %13s  ",
			 ip_format_ns(ip_recording_ns(s, node->self), self), percent(g, node->self),
			 ip_format_count(node->calls, calls));
	else
		ip_print(stdout, "%8s %6.1f %8s %13s  ",
			 ip_format_ns(ip_recording_ns(s, node->total), total),
			 percent(g, node->total),
			 own ? ip_format_ns(ip_recording_ns(s, node->self), self) : "",
			 own ? ip_format_count(node->calls, calls) : "");
	for (size_t d = 1; d < depth && d <= INDENT_MAX; d++)
		ip_print(stdout, "%s", more[d] ? art->through : "   ");
	if (depth > INDENT_MAX)
		ip_print(stdout, "(%zu) ", depth);
	if (depth)
		ip_print(stdout, "%s",
			 more[depth <= INDENT_MAX ? depth : 0] ? art->branch : art->last);
	if (name)
		ip_clean(name);
	ip_print(stdout, "%s%s\n", name ? name : "?",
		 g->tree->until_tail[node->function] ? "  (until its tail call)" : "");
}

void cli_graph_print_idle(const struct cli_graph *g)
{
	const struct ip_recording *s = g->trace->session;
	char sum[16];

	if (!g->idle && g->tree->idle)
		ip_print(stdout,
			 "idle: for %s threads waited for new work: that is set aside (--idle "
			 "counts it)\n",
			 ip_format_ns(ip_recording_ns(s, g->tree->idle), sum));
	else if (!g->idle && !g->idle_known && g->waits)
		ip_print(
			stdout,
			"%s itself has most of it: of a trace with events of the kernel (--kernel) "
			"waits for new work\nare set aside\n",
			ip_names_shown(g->names, g->waits));
}

static void print_head(const struct cli_graph *g)
{
	const struct ip_trace_reader *t = g->trace;
	char events[32], threads[32], lost[32], invalid[32], duration[64], sum[16];

	ip_print(stdout, "%s", t->dir);
	if (t->session->command && *t->session->command) {
		ip_print(stdout, ": ");
		ip_print(stdout, "%s", t->session->command);
	}
	ip_print(stdout, "\n%s event%s, %s lost", ip_format_count(g->tree->events, events),
		 ip_plural(g->tree->events), t->lost ? ip_format_count(t->lost, lost) : "none");
	if (t->session->invalid)
		ip_print(stdout, ", %s invalid", ip_format_count(t->session->invalid, invalid));
	ip_print(stdout, ", %s thread%s, %s; 100 %% is %s%s\n",
		 ip_format_count(t->threads, threads), t->threads == 1 ? "" : "s",
		 cli_reader_duration(t, duration),
		 ip_format_ns(ip_recording_ns(t->session, g->tree->ticks), sum),
		 t->threads == 1 || g->tid ? "" : ", of all threads together");
	cli_graph_print_idle(g);
	if (g->tid)
		cli_one_thread_print(g->threads, g->tid);
	cli_silent_note(t);
	cli_filter_note(stdout, "", t->session);
	ip_print(stdout, "\n");
}

/* Returns whether the node's children may have rows. */
static bool goes_down(const struct cli_graph *g, size_t depth)
{
	return depth + 1 < g->max_depth;
}

void cli_graph_tree(const struct cli_graph *g)
{
	const struct ip_call_node *nodes = g->tree->nodes;
	const struct art *art = line_art();
	bool more[INDENT_MAX + 1] = {false};
	size_t depth = 0, shown = 0;
	uint32_t at = nodes[0].first_child;

	print_head(g);
	if (g->bottom_up)
		ip_print(stdout, "%8s %6s %13s  %s\n", "self", "%", "calls",
			 "function, below it its callers");
	else
		ip_print(stdout, "%8s %6s %8s %13s  %s\n", "total", "%", "self", "calls",
			 "function");
	while (at != IP_NO_NODE) {
		uint32_t next = IP_NO_NODE;

		/* siblings are in order of cost: after one that is not shown, none is shown */
		if (is_shown(g, at)) {
			next = nodes[at].next_sibling;
			more[depth <= INDENT_MAX ? depth : 0] = is_shown(g, next);
			print_row(g, &nodes[at], depth, more, art);
			shown++;
			if (goes_down(g, depth) && nodes[at].first_child != IP_NO_NODE) {
				at = nodes[at].first_child;
				depth++;
				continue;
			}
		}
		while (next == IP_NO_NODE && depth) {
			at = nodes[at].parent;
			next = nodes[at].next_sibling;
			depth--;
		}
		at = next;
	}
	if (shown < g->tree->n - 1)
		ip_print(stdout, "\n%zu way%s of calls %s not shown: below %g %%%s\n",
			 g->tree->n - 1 - shown, ip_plural(g->tree->n - 1 - shown),
			 g->tree->n - 1 - shown == 1 ? "is" : "are", g->min_percent,
			 g->max_depth != SIZE_MAX ? ", or too deep" : "");
}

/* Ends the node's object. idle: it is known what was. */
static void json_thread(struct ip_json *j, const struct ip_trace_reader *t,
			const struct ip_call_node *node, const struct ip_tree_thread *thread,
			bool idle)
{
	ip_json_string(j, "function", NULL);
	if (thread->tid) {
		cli_thread_json(j, thread);
	} else {
		ip_json_uint(j, "pid", thread->process->pid);
		ip_json_string(j, "process", thread->process->name);
	}
	ip_json_uint(j, "calls", node->calls);
	ip_json_uint(j, "total_ns", ip_recording_ns(t->session, node->total));
	ip_json_uint(j, "self_ns", ip_recording_ns(t->session, node->self));
	if (idle)
		ip_json_uint(j, "idle_ns", ip_recording_ns(t->session, node->idle));
	ip_json_end_object(j);
}

void cli_graph_json(const struct cli_graph *g)
{
	const struct ip_trace_reader *t = g->trace;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", g->tree->events);
	cli_silent_json(&j, t);
	ip_json_uint(&j, "lost", t->lost);
	ip_json_uint(&j, "invalid", t->session->invalid);
	ip_json_uint(&j, "threads", t->threads);
	ip_json_uint(&j, "duration_ns", ip_recording_ns(t->session, ip_trace_reader_recorded(t)));
	cli_reader_json_kept(&j, t);
	ip_json_uint(&j, "total_ns", ip_recording_ns(t->session, g->tree->ticks));
	if (g->idle_known)
		ip_json_uint(&j, "idle_ns", ip_recording_ns(t->session, g->tree->idle));
	ip_json_string(&j, "direction", g->bottom_up ? "bottom-up" : "top-down");
	if (g->by_thread || g->by_process)
		ip_json_string(&j, "by", g->by_process ? "process" : "thread");
	if (g->tid)
		cli_one_thread_json(&j, g->threads, g->tid);
	/* not nested: a recursion may be deeper than a parser allows */
	ip_json_array(&j, "nodes");
	for (uint32_t i = 1; i < g->tree->n; i++) {
		const struct ip_call_node *node = &g->tree->nodes[i];
		const struct ip_tree_thread *thread = ip_tree_thread_of(g->threads, node->function);
		const struct ip_recording_function *f;

		ip_json_object(&j, NULL);
		ip_json_uint(&j, "id", i);
		ip_json_uint(&j, "parent", node->parent); /* 0: none */
		if (thread) {
			json_thread(&j, t, node, thread, g->idle_known);
			continue;
		}
		f = &t->session->functions[node->function];
		ip_json_string(&j, "function", ip_names_get(g->names, node->function));
		ip_json_string(&j, "module", ip_recording_module_name(t->session, f));
		ip_json_uint(&j, "calls", node->calls);
		ip_json_uint(&j, "total_ns", ip_recording_ns(t->session, node->total));
		ip_json_uint(&j, "self_ns", ip_recording_ns(t->session, node->self));
		if (g->idle_known) {
			ip_json_uint(&j, "idle_ns", ip_recording_ns(t->session, node->idle));
			ip_json_uint(&j, "self_idle_ns",
				     ip_recording_ns(t->session, node->idle_self));
		}
		cli_json_dropped(&j, t->session, node->function);
		if (g->tree->until_tail[node->function])
			ip_json_bool(&j, "until_tail_call", true);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}
