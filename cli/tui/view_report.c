/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of iprobe tui: the functions of the trace with the figures of iprobe report.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/screen/screen.h"
#include "cli/tui/tui.h"
#include "cli/tui/tui_list.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

#define NAME_LEAST 24u
#define TAIL	   " [tail]"
#define OPEN	   " [open]"
#define COLUMNS	   CLI_BY_FUNCTION /* those before the name */

static const char *const help[] = {
	"Up Down PgUp PgDn Home End, k j   choose a function",
	"s S       sort by the next column, the one before (it has a *); > < too",
	"r         the other way round",
	"Enter     callers and callees of the function",
	NULL,
};

struct view {
	struct cli_tui_list list;
	size_t *rows; /* those that are shown, as indexes into the report's rows */
	enum cli_report_column sort;
	bool reverse;
	char filter[256], before[256]; /* before: the filter before / */
};

/* Where a terminal is narrow, the columns with the least weight are left out. */
static const unsigned weights[COLUMNS] = {
	[CLI_BY_CALLS] = 10, [CLI_BY_TOTAL] = 12, [CLI_BY_SELF] = 11,  [CLI_BY_MIN] = 5,
	[CLI_BY_AVG] = 7,    [CLI_BY_P50] = 6,	  [CLI_BY_P90] = 4,    [CLI_BY_P99] = 8,
	[CLI_BY_P999] = 1,   [CLI_BY_MAX] = 9,	  [CLI_BY_STDDEV] = 2, [CLI_BY_THREADS] = 3,
};

static size_t width_of(enum cli_report_column column)
{
	return column == CLI_BY_CALLS ? 11 : 9;
}

/* Chooses the columns for which there is room. The one that rows are sorted by is among them.
 * Returns the columns of the screen that they take. */
static size_t choose_columns(const struct view *v, size_t columns, bool shown[COLUMNS])
{
	size_t used = 0;

	memset(shown, 0, COLUMNS * sizeof(*shown));
	for (unsigned weight = 100; weight > 0; weight--)
		for (size_t i = 0; i < COLUMNS; i++) {
			unsigned own = i == v->sort ? 100 : weights[i];

			if (own != weight ||
			    (own < 100 && used + width_of(i) + 2 + NAME_LEAST > columns))
				continue;
			shown[i] = true;
			used += width_of(i);
		}
	return used;
}

/* Makes the list of rows that are shown. The chosen function remains chosen. */
static int make_rows(struct cli_tui *tui)
{
	struct view *v = tui->views[CLI_TUI_REPORT];
	const struct cli_report *r = &tui->report;
	uint32_t chosen = cli_tui_report.chosen(tui);
	_cleanup_free_ bool *wanted = NULL;
	size_t n;

	if (*v->filter) {
		wanted = cli_tui_match(tui, v->filter, &n);
		if (!wanted)
			return -1;
	}
	v->list.n = 0;
	for (size_t i = 0; i < r->nrows; i++) {
		size_t at = v->reverse ? r->nrows - 1 - i : i;
		uint32_t function = r->rows[at].function - tui->trace->session->functions;

		if (wanted && !wanted[function])
			continue;
		if (function == chosen)
			v->list.chosen = v->list.n;
		v->rows[v->list.n++] = at;
	}
	return 0;
}

static void sort(struct cli_tui *tui)
{
	struct view *v = tui->views[CLI_TUI_REPORT];

	cli_report_sort(&tui->report, v->sort);
	v->list.n = 0; /* the rows are others: none is chosen */
	v->list.chosen = v->list.first = 0;
	if (make_rows(tui) < 0)
		cli_tui_say_error(tui);
}

static int open_report(struct cli_tui *tui)
{
	struct view *v = calloc(1, sizeof(*v));
	const char *by = tui->options->report.sort;

	tui->views[CLI_TUI_REPORT] = v;
	if (v)
		v->rows = calloc(tui->report.nrows + 1, sizeof(*v->rows));
	if (!v || !v->rows)
		return ip_error("out of memory");
	v->sort = CLI_BY_TOTAL;
	for (size_t i = 0; by && i < CLI_REPORT_COLUMNS; i++)
		if (!strcmp(cli_report_columns[i].name, by))
			v->sort = i;
	sort(tui);
	return 0;
}

static void close_report(struct cli_tui *tui)
{
	struct view *v = tui->views[CLI_TUI_REPORT];

	if (v)
		free(v->rows);
	free(v);
}

static size_t room_of(size_t lines)
{
	return lines > 1 ? lines - 1 : 1; /* without the titles */
}

static int prepare(struct cli_tui *tui, size_t lines, size_t columns)
{
	struct view *v = tui->views[CLI_TUI_REPORT];

	cli_tui_list_fit(&v->list, room_of(lines));
	return 0;
}

/* Prints the name in at most width columns. How much of the note follows depends on the room. */
static void print_name(const struct cli_tui *tui, FILE *out, const struct cli_report_row *row,
		       size_t width)
{
	char note[CLI_ROW_NOTE_MAX], mark[CLI_TAIL_MARK_MAX];
	bool whole = *cli_report_row_note(row, note) && width >= NAME_LEAST + strlen(note) + 4;
	const char *tail = *cli_report_tail_mark(row, mark) ? TAIL : "";
	const char *open = row->open_ns ? OPEN : "";
	size_t more = whole ? strlen(note) + 4 : strlen(tail) + strlen(open);
	_cleanup_free_ char *name =
		cli_report_row_name(&tui->report, row, width > more + 3 ? width - more : 3);

	ip_print(out, "%s", name ? name : "?");
	if (whole)
		ip_print(out, "  (%s)\n", note);
	else
		ip_print(out, "%s%s\n", tail, open);
}

static void draw(struct cli_tui *tui, FILE *out, size_t lines, size_t columns)
{
	struct view *v = tui->views[CLI_TUI_REPORT];
	bool shown[COLUMNS];
	size_t used = choose_columns(v, columns, shown), room = room_of(lines);

	ip_print(out, CLI_SCREEN_BOLD);
	for (size_t i = 0; i < COLUMNS; i++) {
		char title[16];

		snprintf(title, sizeof(title), "%s%s", i == v->sort ? "*" : "",
			 cli_report_columns[i].name);
		if (shown[i])
			ip_print(out, "%*s", (int)width_of(i), title);
	}
	ip_print(out, "  %sfunction%s", v->sort == CLI_BY_FUNCTION ? "*" : "",
		 v->reverse ? ", reversed" : "");
	if (*v->filter)
		ip_print(out, ", only %s (%zu of %zu)", v->filter, v->list.n, tui->report.nrows);
	ip_print(out, "\n");
	for (size_t i = 0; i < room; i++) {
		const struct cli_report_row *row;

		if (v->list.first + i >= v->list.n) {
			ip_print(out, "\n");
			continue;
		}
		row = &tui->report.rows[v->rows[v->list.first + i]];
		if (v->list.first + i == v->list.chosen)
			ip_print(out, CLI_SCREEN_REVERSE);
		for (size_t k = 0; k < COLUMNS; k++)
			if (shown[k])
				cli_report_print_cell(out, row, k);
		ip_print(out, "  ");
		print_name(tui, out, row, columns > used + 5 ? columns - used - 2 : 3);
	}
}

static void step(struct cli_tui *tui, int by)
{
	struct view *v = tui->views[CLI_TUI_REPORT];

	v->sort = (v->sort + CLI_REPORT_COLUMNS + by) % CLI_REPORT_COLUMNS;
	sort(tui);
}

static uint32_t chosen(struct cli_tui *tui)
{
	const struct view *v = tui->views[CLI_TUI_REPORT];

	if (!v || v->list.chosen >= v->list.n)
		return CLI_TUI_NO_FUNCTION;
	return tui->report.rows[v->rows[v->list.chosen]].function - tui->trace->session->functions;
}

static void key(struct cli_tui *tui, int key, size_t lines)
{
	struct view *v = tui->views[CLI_TUI_REPORT];
	uint32_t function = chosen(tui);

	if (cli_tui_list_key(&v->list, key, room_of(lines)))
		return;
	if (key == 's' || key == '>') {
		step(tui, 1);
	} else if (key == 'S' || key == '<') {
		step(tui, -1);
	} else if (key == 'r') {
		v->reverse = !v->reverse;
		sort(tui);
	} else if (key == '\r' && function != CLI_TUI_NO_FUNCTION) {
		cli_tui_go_callers(tui, function);
	}
}

static void search(struct cli_tui *tui, const char *text, enum cli_tui_search how)
{
	struct view *v = tui->views[CLI_TUI_REPORT];

	if (how == CLI_TUI_TYPING && !*text && !*v->before)
		memcpy(v->before, v->filter, sizeof(v->before));
	snprintf(v->filter, sizeof(v->filter), "%s", how == CLI_TUI_LEFT ? v->before : text);
	if (how != CLI_TUI_TYPING)
		*v->before = '\0';
	if (make_rows(tui) < 0)
		cli_tui_say_error(tui);
}

const struct cli_tui_view_ops cli_tui_report = {
	.name = "report",
	.keys = "q quit  ? help  s sort  r reverse  / filter  Enter callers  g graph  x slowest  "
		"1-5 views",
	.help = help,
	.open = open_report,
	.close = close_report,
	.prepare = prepare,
	.draw = draw,
	.key = key,
	.search = search,
	.chosen = chosen,
};
