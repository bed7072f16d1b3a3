/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of calls of iprobe tui. A node is opened and closed by keys. Below a node lie the
 * functions that it calls, or, bottom-up, its callers. Trees may be as deep as the target's
 * recursions: so all walks are loops.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/elide.h"
#include "cli/screen/screen.h"
#include "cli/tui/tui.h"
#include "cli/tui/tui_list.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

#define FIGURES	   40u /* columns before the tree */
#define NAME_LEAST 24u
#define LEVELS_MAX 64u /* levels of indentation */

static const char *const help[] = {
	"Up Down PgUp PgDn Home End, k j   choose a node",
	"Right + Enter   open the node; Left - close it, or go to the node above",
	"e         open the most expensive way down from here",
	"b         bottom-up: below each function its callers; and back",
	"t         below each thread, with its name, what was called in it; and back",
	"n N       the next node that was searched for, the one before",
	NULL,
};

struct row {
	uint32_t node;
	uint32_t depth;
};

/* The trees. */
enum side_kind { TOP_DOWN, BOTTOM_UP, BY_THREAD, SIDES };

/* One of the trees, and what is open of it. */
struct side {
	const struct ip_calltree *tree;
	bool *open; /* by node */
	struct cli_tui_list list;
	struct row *rows;
};

struct view {
	struct side sides[SIDES];
	enum side_kind kind;
	bool *wanted;	/* by function: what was searched for; NULL: nothing */
	uint32_t begin; /* node that was chosen before / */
};

static struct side *side_of(struct cli_tui *tui)
{
	struct view *v = tui->views[CLI_TUI_GRAPH];

	return &v->sides[v->kind];
}

/* Makes the rows of the nodes that are visible. chosen: the node that is to be chosen. */
static int make_rows(struct side *s, uint32_t chosen)
{
	const struct ip_call_node *nodes = s->tree->nodes;
	uint32_t at = nodes[0].first_child, depth = 0;

	s->list.n = 0;
	while (at != IP_NO_NODE) {
		uint32_t next;

		if (ip_array_grow(&s->rows, s->list.n, sizeof(*s->rows)) < 0)
			return -1;
		if (at == chosen)
			s->list.chosen = s->list.n;
		s->rows[s->list.n++] = (struct row){at, depth};
		if (s->open[at] && nodes[at].first_child != IP_NO_NODE) {
			at = nodes[at].first_child;
			depth++;
			continue;
		}
		while ((next = nodes[at].next_sibling) == IP_NO_NODE && depth) {
			at = nodes[at].parent;
			depth--;
		}
		at = next;
	}
	return 0;
}

static void remake_rows(struct cli_tui *tui, uint32_t chosen)
{
	struct side *s = side_of(tui);

	/* the array grows by doubling from nothing */
	free(s->rows);
	s->rows = NULL;
	if (make_rows(s, chosen) < 0)
		cli_tui_say_error(tui);
}

static int open_side(struct side *s, const struct ip_calltree *tree)
{
	s->tree = tree;
	s->open = calloc(tree->n, sizeof(*s->open));
	return s->open ? make_rows(s, IP_NO_NODE) : ip_error("out of memory");
}

static int open_graph(struct cli_tui *tui)
{
	struct view *v = calloc(1, sizeof(*v));

	tui->views[CLI_TUI_GRAPH] = v;
	if (!v)
		return ip_error("out of memory");
	if (cli_tui_need_tree(tui) < 0 || open_side(&v->sides[0], tui->tree) < 0)
		return -1;
	/* something of the tree is to be seen at once */
	for (uint32_t at = 0; (at = tui->tree->nodes[at].first_child) != IP_NO_NODE;)
		v->sides[0].open[at] = true;
	remake_rows(tui, IP_NO_NODE);
	return 0;
}

static void close_graph(struct cli_tui *tui)
{
	struct view *v = tui->views[CLI_TUI_GRAPH];

	for (size_t i = 0; v && i < SIDES; i++) {
		free(v->sides[i].open);
		free(v->sides[i].rows);
	}
	if (v)
		free(v->wanted);
	free(v);
}

static size_t room_of(size_t lines)
{
	return lines > 1 ? lines - 1 : 1; /* without the titles */
}

static int prepare(struct cli_tui *tui, size_t lines, size_t columns)
{
	cli_tui_list_fit(&side_of(tui)->list, room_of(lines));
	return 0;
}

static double percent(const struct side *s, uint64_t ticks)
{
	return s->tree->ticks ? 100.0 * ticks / s->tree->ticks : 0;
}

static bool is_thread(const struct cli_tui *tui, const struct ip_call_node *node)
{
	return ip_tree_thread_of(tui->threads, node->function);
}

static void print_figures(const struct cli_tui *tui, FILE *out, const struct side *s,
			  const struct ip_call_node *node, enum side_kind kind)
{
	const struct ip_recording *session = tui->trace->session;
	char total[16], self[16], calls[32];

	ip_format_ns(ip_recording_ns(session, node->total), total);
	ip_format_ns(ip_recording_ns(session, node->self), self);
	ip_format_count(node->calls, calls);
	if (is_thread(tui, node))
		*self = *calls = '\0'; /* it has none of its own */
	if (kind == BOTTOM_UP)
		ip_print(out, "%8s %6.1f %8s %13s  ", self, percent(s, node->self), "", calls);
	else
		ip_print(out, "%8s %6.1f %8s %13s  ", total, percent(s, node->total), self, calls);
}

/* Prints the lines that lead to a node. Returns their columns. */
static size_t print_levels(const struct cli_tui *tui, FILE *out, const struct side *s,
			   const struct row *row, size_t columns)
{
	size_t most = columns > FIGURES + NAME_LEAST ? (columns - FIGURES - NAME_LEAST) / 2 : 0;
	const char *through = tui->utf8 ? "\u2502 " : "| ";
	bool more[LEVELS_MAX] = {false};
	uint32_t at = row->node;
	size_t width;

	most = most < LEVELS_MAX ? most : LEVELS_MAX;
	for (uint32_t d = row->depth; d > 0; d--) {
		at = s->tree->nodes[at].parent;
		if (d - 1 < most)
			more[d - 1] = s->tree->nodes[at].next_sibling != IP_NO_NODE;
	}
	for (uint32_t d = 0; d < row->depth && d < most; d++)
		ip_print(out, "%s", more[d] ? through : "  ");
	width = 2 * (row->depth < most ? row->depth : most);
	if (row->depth > most) {
		char deeper[16];

		snprintf(deeper, sizeof(deeper), "(%u) ", row->depth);
		ip_print(out, "%s", deeper);
		width += strlen(deeper);
	}
	return width;
}

static void print_thread(const struct cli_tui *tui, FILE *out, const struct ip_call_node *node,
			 size_t width)
{
	_cleanup_free_ char *text =
		ip_tree_thread_text(tui->threads, ip_tree_thread_of(tui->threads, node->function));

	if (!text)
		return;
	cli_fit_name(text, width);
	ip_print(out, "%s", text);
}

static void print_row(struct cli_tui *tui, FILE *out, const struct side *s, const struct row *row,
		      size_t columns)
{
	const struct view *v = tui->views[CLI_TUI_GRAPH];
	const struct ip_call_node *node = &s->tree->nodes[row->node];
	bool leaf = node->first_child == IP_NO_NODE, open = s->open[row->node];
	size_t used = FIGURES + 2;

	print_figures(tui, out, s, node, v->kind);
	used += print_levels(tui, out, s, row, columns);
	if (tui->utf8)
		ip_print(out, "%s ", leaf ? "\u00b7" : open ? "\u25be" : "\u25b8");
	else
		ip_print(out, "%s ", leaf ? " " : open ? "-" : "+");
	if (is_thread(tui, node))
		print_thread(tui, out, node, columns > used + 3 ? columns - used : 3);
	else
		cli_tui_print_function(tui, out, node->function,
				       columns > used + 3 ? columns - used : 3);
	ip_print(out, "\n");
}

static const char *const titles[SIDES] = {
	"function, below it what it calls",
	"function, below it its callers",
	"thread, below it what it calls",
};

static void draw(struct cli_tui *tui, FILE *out, size_t lines, size_t columns)
{
	const struct view *v = tui->views[CLI_TUI_GRAPH];
	const struct side *s = side_of(tui);

	ip_print(out, CLI_SCREEN_BOLD);
	ip_print(out, "%8s %6s %8s %13s  %s\n", v->kind == BOTTOM_UP ? "self" : "total", "%",
		 v->kind == BOTTOM_UP ? "" : "self", "calls", titles[v->kind]);
	for (size_t i = 0; i < room_of(lines); i++) {
		if (s->list.first + i >= s->list.n) {
			ip_print(out, "\n");
			continue;
		}
		if (s->list.first + i == s->list.chosen)
			ip_print(out, CLI_SCREEN_REVERSE);
		print_row(tui, out, s, &s->rows[s->list.first + i], columns);
	}
}

static uint32_t chosen_node(struct cli_tui *tui)
{
	const struct side *s = side_of(tui);

	return s->list.chosen < s->list.n ? s->rows[s->list.chosen].node : IP_NO_NODE;
}

static uint32_t chosen(struct cli_tui *tui)
{
	uint32_t node = tui->views[CLI_TUI_GRAPH] ? chosen_node(tui) : IP_NO_NODE;

	if (node == IP_NO_NODE || is_thread(tui, &side_of(tui)->tree->nodes[node]))
		return CLI_TUI_NO_FUNCTION;
	return side_of(tui)->tree->nodes[node].function;
}

/* Chooses a node. All nodes above it are opened. */
static void choose(struct cli_tui *tui, uint32_t node)
{
	struct side *s = side_of(tui);

	for (uint32_t up = s->tree->nodes[node].parent; up; up = s->tree->nodes[up].parent)
		s->open[up] = true;
	remake_rows(tui, node);
}

static void expand(struct cli_tui *tui, uint32_t node)
{
	struct side *s = side_of(tui);

	if (s->open[node] || s->tree->nodes[node].first_child == IP_NO_NODE)
		return;
	s->open[node] = true;
	remake_rows(tui, node);
}

static void collapse(struct cli_tui *tui, uint32_t node)
{
	struct side *s = side_of(tui);

	if (!s->open[node] || s->tree->nodes[node].first_child == IP_NO_NODE)
		node = s->tree->nodes[node].parent ? s->tree->nodes[node].parent : node;
	else
		s->open[node] = false;
	remake_rows(tui, node);
}

/* Goes to a tree; to the first one where that one is shown. */
static void turn_to(struct cli_tui *tui, enum side_kind kind)
{
	struct view *v = tui->views[CLI_TUI_GRAPH];
	struct side *s = &v->sides[kind];
	int done = 0;

	if (kind == v->kind) {
		v->kind = TOP_DOWN;
		return;
	}
	if (!s->tree && kind == BOTTOM_UP)
		done = cli_tui_need_callers_tree(tui) < 0 ? -1 : open_side(s, tui->callers_tree);
	else if (!s->tree)
		done = cli_tui_need_thread_tree(tui) < 0 ? -1 : open_side(s, tui->thread_tree);
	if (done < 0) {
		cli_tui_say_error(tui);
		free(s->open);
		*s = (struct side){0};
		return;
	}
	v->kind = kind;
}

/* Returns the node behind another one in the order of the whole tree; 0: there is none. */
static uint32_t behind(const struct ip_calltree *tree, uint32_t node)
{
	if (tree->nodes[node].first_child != IP_NO_NODE)
		return tree->nodes[node].first_child;
	while (node && tree->nodes[node].next_sibling == IP_NO_NODE)
		node = tree->nodes[node].parent;
	return node ? tree->nodes[node].next_sibling : 0;
}

/* Chooses the next wanted node behind one, or the last one before it; beyond the end it goes on at
 * the other one. own: the node itself counts, too. */
static void find(struct cli_tui *tui, uint32_t from, bool backwards, bool own)
{
	struct view *v = tui->views[CLI_TUI_GRAPH];
	const struct ip_calltree *tree = side_of(tui)->tree;
	uint32_t first = 0, last = 0, before = 0, after = 0;
	bool passed = false;

	for (uint32_t at = behind(tree, 0); at; at = behind(tree, at)) {
		passed |= own && at == from;
		if (!is_thread(tui, &tree->nodes[at]) && v->wanted[tree->nodes[at].function]) {
			first = first ? first : at;
			last = at;
			if (at != from && !passed)
				before = at;
			if (passed && !after)
				after = at;
		}
		passed |= at == from;
	}
	if (!first) {
		cli_tui_say(tui, "no call of it in the tree");
		return;
	}
	choose(tui, backwards ? (before ? before : last) : (after ? after : first));
}

static void key(struct cli_tui *tui, int key, size_t lines)
{
	struct view *v = tui->views[CLI_TUI_GRAPH];
	struct side *s = side_of(tui);
	uint32_t node = chosen_node(tui);

	if (cli_tui_list_key(&s->list, key, room_of(lines)))
		return;
	if (key == 'b' || key == 't') {
		turn_to(tui, key == 'b' ? BOTTOM_UP : BY_THREAD);
		return;
	}
	if (node == IP_NO_NODE)
		return;
	if (key == CLI_KEY_RIGHT || key == '+' || key == '\r') {
		expand(tui, node);
	} else if (key == CLI_KEY_LEFT || key == '-') {
		collapse(tui, node);
	} else if (key == 'e') {
		for (uint32_t at = node; at != IP_NO_NODE; at = s->tree->nodes[at].first_child)
			s->open[at] = true;
		remake_rows(tui, node);
	} else if ((key == 'n' || key == 'N') && v->wanted) {
		find(tui, node, key == 'N', false);
	} else if (key == 'n' || key == 'N') {
		cli_tui_say(tui, "nothing was searched for yet: / does");
	}
}

static void search(struct cli_tui *tui, const char *text, enum cli_tui_search how)
{
	struct view *v = tui->views[CLI_TUI_GRAPH];
	bool *wanted;
	size_t n;

	if (how == CLI_TUI_TYPING && !*text) {
		v->begin = chosen_node(tui);
		return;
	}
	if (how == CLI_TUI_LEFT || !*text) {
		if (v->begin != IP_NO_NODE)
			choose(tui, v->begin);
		return;
	}
	wanted = cli_tui_match(tui, text, &n);
	if (!wanted) {
		cli_tui_say_error(tui);
		return;
	}
	free(v->wanted);
	v->wanted = wanted;
	find(tui, v->begin, false, true);
}

void cli_tui_go_graph(struct cli_tui *tui, uint32_t function)
{
	struct view *v;

	if (!cli_tui_go(tui, CLI_TUI_GRAPH))
		return;
	v = tui->views[CLI_TUI_GRAPH];
	free(v->wanted);
	v->wanted = calloc(tui->trace->session->nfunctions, sizeof(*v->wanted));
	if (!v->wanted)
		return;
	v->wanted[function] = true;
	if (chosen(tui) != function)
		find(tui, 0, false, false);
}

const struct cli_tui_view_ops cli_tui_graph = {
	.name = "graph",
	.keys = "q quit  ? help  Right open  Left close  e way down  b bottom-up  t threads  "
		"/ search  c callers  x slowest",
	.help = help,
	.open = open_graph,
	.close = close_graph,
	.prepare = prepare,
	.draw = draw,
	.key = key,
	.search = search,
	.chosen = chosen,
};
