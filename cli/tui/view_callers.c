/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callers and callees of one function, as iprobe graph --of has them: above the function its
 * callers, the most expensive one next to it, below it what it calls. Their rows are their share of
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/screen/screen.h"
#include "cli/tui/tui.h"
#include "cli/tui/tui_list.h"
#include "common/array.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

#define FIGURES 33u /* columns before the name */

static const char *const help[] = {
	"Up Down PgUp PgDn Home End, k j   choose a caller or callee",
	"Enter     its callers and callees",
	"Backspace the function before",
	NULL,
};

struct row {
	uint32_t function; /* IP_NO_NODE: a caller that was not recorded */
	uint64_t calls, total, self;
	bool itself; /* the function that the view is about */
};

struct view {
	struct ip_call_arc *arcs;
	size_t narcs;
	struct row *rows;
	struct cli_tui_list list;
	uint32_t *before; /* functions that the view was about before */
	size_t nbefore;
	uint32_t function;
};

static int by_total(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->total != y->total)
		return x->total > y->total ? 1 : -1;
	return (x->function > y->function) - (x->function < y->function);
}

static struct row row_of(const struct ip_call_arc *arc, uint32_t function)
{
	return (struct row){function, arc->calls, arc->total, arc->self, false};
}

/* Makes the rows of a function. There is room for all arcs, each of which is a caller and a callee
 * at most, and the function. */
static void show_function(struct view *v, uint32_t function)
{
	struct row sum = {.function = function, .itself = true};
	size_t n = 0;

	v->function = function;
	for (size_t i = 0; i < v->narcs; i++) {
		const struct ip_call_arc *arc = &v->arcs[i];

		if (arc->callee != function)
			continue;
		v->rows[n++] = row_of(arc, arc->caller);
		sum.calls += arc->calls;
		sum.total += arc->total;
		sum.self += arc->self;
	}
	qsort(v->rows, n, sizeof(*v->rows), by_total);
	v->list = (struct cli_tui_list){.chosen = n};
	v->rows[n++] = sum;
	for (size_t i = 0; i < v->narcs; i++)
		if (v->arcs[i].caller == function)
			v->rows[n++] = row_of(&v->arcs[i], v->arcs[i].callee);
	v->list.n = n;
}

static int open_callers(struct cli_tui *tui)
{
	struct view *v = calloc(1, sizeof(*v));
	uint32_t function;
	ssize_t n;

	tui->views[CLI_TUI_CALLERS] = v;
	if (!v)
		return ip_error("out of memory");
	if (cli_tui_need_tree(tui) < 0)
		return -1;
	n = ip_calltree_arcs(tui->tree, &v->arcs);
	if (n < 0)
		return -1;
	v->narcs = n;
	v->rows = calloc(2 * v->narcs + 1, sizeof(*v->rows));
	if (!v->rows)
		return ip_error("out of memory");
	function = tui->views[CLI_TUI_REPORT] ? cli_tui_report.chosen(tui) : CLI_TUI_NO_FUNCTION;
	if (function == CLI_TUI_NO_FUNCTION && tui->report.nrows)
		function = tui->report.rows[0].function - tui->trace->session->functions;
	if (function == CLI_TUI_NO_FUNCTION)
		return ip_error("%s: no function was called", tui->trace->dir);
	show_function(v, function);
	return 0;
}

static void close_callers(struct cli_tui *tui)
{
	struct view *v = tui->views[CLI_TUI_CALLERS];

	if (v) {
		free(v->arcs);
		free(v->rows);
		free(v->before);
	}
	free(v);
}

static size_t room_of(size_t lines)
{
	return lines > 1 ? lines - 1 : 1; /* without the titles */
}

static int prepare(struct cli_tui *tui, size_t lines, size_t columns)
{
	struct view *v = tui->views[CLI_TUI_CALLERS];

	cli_tui_list_fit(&v->list, room_of(lines));
	return 0;
}

static void print_row(struct cli_tui *tui, FILE *out, const struct row *row, size_t columns)
{
	const struct ip_recording *s = tui->trace->session;
	size_t indent = row->itself ? 0 : 4;
	char total[16], self[16], calls[32];

	ip_print(out, "%8s %8s %13s  %*s", ip_format_ns(ip_recording_ns(s, row->total), total),
		 ip_format_ns(ip_recording_ns(s, row->self), self),
		 ip_format_count(row->calls, calls), (int)indent, "");
	if (row->function == IP_NO_NODE)
		ip_print(out, "(not recorded)");
	else
		cli_tui_print_function(tui, out, row->function,
				       columns > FIGURES + indent ? columns - FIGURES - indent : 3);
	ip_print(out, "\n");
}

static void draw(struct cli_tui *tui, FILE *out, size_t lines, size_t columns)
{
	struct view *v = tui->views[CLI_TUI_CALLERS];

	ip_print(out, CLI_SCREEN_BOLD);
	ip_print(out, "%8s %8s %13s  %s\n", "total", "self", "calls",
		 "callers, the function, what it calls");
	for (size_t i = 0; i < room_of(lines); i++) {
		size_t at = v->list.first + i;

		if (at >= v->list.n) {
			ip_print(out, "\n");
			continue;
		}
		if (at == v->list.chosen)
			ip_print(out, CLI_SCREEN_REVERSE);
		else if (v->rows[at].itself)
			ip_print(out, CLI_SCREEN_BOLD);
		print_row(tui, out, &v->rows[at], columns);
	}
}

static uint32_t chosen(struct cli_tui *tui)
{
	const struct view *v = tui->views[CLI_TUI_CALLERS];

	if (!v || v->list.chosen >= v->list.n || v->rows[v->list.chosen].function == IP_NO_NODE)
		return CLI_TUI_NO_FUNCTION;
	return v->rows[v->list.chosen].function;
}

void cli_tui_go_callers(struct cli_tui *tui, uint32_t function)
{
	struct view *v;

	if (!cli_tui_go(tui, CLI_TUI_CALLERS))
		return;
	v = tui->views[CLI_TUI_CALLERS];
	if (function == v->function)
		return;
	if (ip_array_grow(&v->before, v->nbefore, sizeof(*v->before)) == 0)
		v->before[v->nbefore++] = v->function;
	show_function(v, function);
}

static void key(struct cli_tui *tui, int key, size_t lines)
{
	struct view *v = tui->views[CLI_TUI_CALLERS];
	uint32_t function = chosen(tui);

	if (cli_tui_list_key(&v->list, key, room_of(lines)))
		return;
	if (key == '\r' && function != CLI_TUI_NO_FUNCTION)
		cli_tui_go_callers(tui, function);
	else if ((key == 0x7f || key == '\b' || key == CLI_KEY_LEFT) && v->nbefore)
		show_function(v, v->before[--v->nbefore]);
}

/* Goes to the first function that is found, in the order of the report. */
static void search(struct cli_tui *tui, const char *text, enum cli_tui_search how)
{
	bool *wanted;
	size_t n;

	if (how == CLI_TUI_LEFT || !*text)
		return;
	wanted = cli_tui_match(tui, text, &n);
	if (!wanted) {
		cli_tui_say_error(tui);
		return;
	}
	for (size_t i = 0; i < tui->report.nrows; i++) {
		uint32_t function = tui->report.rows[i].function - tui->trace->session->functions;

		if (!wanted[function])
			continue;
		if (how == CLI_TUI_TYPED)
			cli_tui_go_callers(tui, function);
		else
			cli_tui_say(tui, "%s", ip_names_text(tui->report.names, function));
		free(wanted);
		return;
	}
	free(wanted);
	cli_tui_say(tui, "no function that was called is meant");
}

const struct cli_tui_view_ops cli_tui_callers = {
	.name = "callers",
	.keys = "q quit  ? help  Enter that function  Backspace back  / search  g graph  x slowest "
		" 1-5 views",
	.help = help,
	.open = open_callers,
	.close = close_callers,
	.prepare = prepare,
	.draw = draw,
	.key = key,
	.search = search,
	.chosen = chosen,
};
