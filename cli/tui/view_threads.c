/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of iprobe tui. A thread whose process became another program has a row for each of
 * the programs.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/screen/screen.h"
#include "cli/tui/tui.h"
#include "cli/tui/tui_list.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

enum column { BY_PID, BY_TID, BY_EVENTS, BY_BEGIN, BY_LASTS, COLUMNS };

static const char *const titles[COLUMNS] = {"pid", "tid", "events", "begins at", "lasts"};
static const int widths[COLUMNS] = {9, 9, 15, 11, 10};

static const char *const help[] = {
	"Up Down PgUp PgDn Home End, k j   choose a thread",
	"s S       sort by the next column, the one before (it has a *); > < too",
	"r         the other way round",
	"Enter     its timeline",
	NULL,
};

struct view {
	struct cli_tui_list list;
	size_t *rows; /* runs, in the order in which they are shown */
	enum column sort;
	bool reverse;
	char filter[256];
};

static uint64_t value(const struct ip_thread_packets *run, enum column column)
{
	switch (column) {
	case BY_PID:
		return run->pid;
	case BY_TID:
		return run->tid;
	case BY_EVENTS:
		return run->events;
	case BY_BEGIN:
		return run->begin;
	default:
		return run->end - run->begin;
	}
}

/* For qsort_r(): context is the struct cli_tui. */
static int by_value(const void *a, const void *b, void *context)
{
	const struct cli_tui *tui = context;
	const struct view *v = tui->views[CLI_TUI_THREADS];
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	uint64_t x = value(&tui->trace->runs[i], v->sort), y = value(&tui->trace->runs[k], v->sort);
	/* figures: the largest first; identities and times: from the first on */
	bool descends = (v->sort == BY_EVENTS || v->sort == BY_LASTS) != v->reverse;

	if (x != y)
		return (x < y) == descends ? 1 : -1;
	return (i > k) - (i < k);
}

/* Returns whether the thread's identity or name has the text in it. */
static bool matches(const struct cli_tui *tui, const struct ip_thread_packets *run,
		    const char *text)
{
	const char *name =
		ip_recording_thread_name_at(tui->trace->session, run->member, run->tid, run->end);
	char ids[32];

	snprintf(ids, sizeof(ids), "%u/%u", run->pid, run->tid);
	return strstr(ids, text) || (name && strcasestr(name, text));
}

static void make_rows(struct cli_tui *tui)
{
	struct view *v = tui->views[CLI_TUI_THREADS];

	v->list.n = 0;
	for (size_t i = 0; i < tui->trace->nruns; i++)
		if (matches(tui, &tui->trace->runs[i], v->filter))
			v->rows[v->list.n++] = i;
	qsort_r(v->rows, v->list.n, sizeof(*v->rows), by_value, tui);
}

static int open_threads(struct cli_tui *tui)
{
	struct view *v = calloc(1, sizeof(*v));

	tui->views[CLI_TUI_THREADS] = v;
	if (v)
		v->rows = calloc(tui->trace->nruns + 1, sizeof(*v->rows));
	if (!v || !v->rows)
		return ip_error("out of memory");
	v->sort = BY_EVENTS;
	make_rows(tui);
	return 0;
}

static void close_threads(struct cli_tui *tui)
{
	struct view *v = tui->views[CLI_TUI_THREADS];

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
	struct view *v = tui->views[CLI_TUI_THREADS];

	cli_tui_list_fit(&v->list, room_of(lines));
	return 0;
}

static void print_row(struct cli_tui *tui, FILE *out, const struct ip_thread_packets *run)
{
	const struct ip_recording *s = tui->trace->session;
	const char *name = ip_recording_thread_name_at(s, run->member, run->tid, run->end);
	char events[32], begin[16], lasts[16];

	ip_print(out, "%*u%*u%*s%*s%*s  %s%s\n", widths[BY_PID], run->pid, widths[BY_TID], run->tid,
		 widths[BY_EVENTS], ip_format_count(run->events, events), widths[BY_BEGIN],
		 ip_format_ns(ip_recording_since_start(s, run->begin), begin), widths[BY_LASTS],
		 ip_format_ns(ip_recording_ns(s, run->end - run->begin), lasts), name ? name : "",
		 run->gone ? "  (ended)" : "");
}

static void draw(struct cli_tui *tui, FILE *out, size_t lines, size_t columns)
{
	struct view *v = tui->views[CLI_TUI_THREADS];

	ip_print(out, CLI_SCREEN_BOLD);
	for (size_t i = 0; i < COLUMNS; i++) {
		char title[16];

		snprintf(title, sizeof(title), "%s%s", i == v->sort ? "*" : "", titles[i]);
		ip_print(out, "%*s", widths[i], title);
	}
	ip_print(out, "  name%s", v->reverse ? ", reversed" : "");
	if (*v->filter)
		ip_print(out, ", only %s", v->filter);
	ip_print(out, "\n");
	for (size_t i = 0; i < room_of(lines); i++) {
		if (v->list.first + i >= v->list.n) {
			ip_print(out, "\n");
			continue;
		}
		if (v->list.first + i == v->list.chosen)
			ip_print(out, CLI_SCREEN_REVERSE);
		print_row(tui, out, &tui->trace->runs[v->rows[v->list.first + i]]);
	}
}

static void step(struct cli_tui *tui, int by)
{
	struct view *v = tui->views[CLI_TUI_THREADS];

	v->sort = (v->sort + COLUMNS + by) % COLUMNS;
	v->list.chosen = v->list.first = 0;
	make_rows(tui);
}

static void key(struct cli_tui *tui, int key, size_t lines)
{
	struct view *v = tui->views[CLI_TUI_THREADS];

	if (cli_tui_list_key(&v->list, key, room_of(lines)))
		return;
	if (key == 's' || key == '>') {
		step(tui, 1);
	} else if (key == 'S' || key == '<') {
		step(tui, -1);
	} else if (key == 'r') {
		v->reverse = !v->reverse;
		make_rows(tui);
	} else if (key == '\r' && v->list.chosen < v->list.n) {
		cli_tui_go_run(tui, v->rows[v->list.chosen], NULL, CLI_TUI_NO_FUNCTION);
	}
}

static void search(struct cli_tui *tui, const char *text, enum cli_tui_search how)
{
	struct view *v = tui->views[CLI_TUI_THREADS];

	snprintf(v->filter, sizeof(v->filter), "%s", how == CLI_TUI_LEFT ? "" : text);
	make_rows(tui);
}

static uint32_t chosen(struct cli_tui *tui)
{
	return CLI_TUI_NO_FUNCTION;
}

const struct cli_tui_view_ops cli_tui_threads = {
	.name = "threads",
	.keys = "q quit  ? help  s sort  r reverse  / filter  Enter timeline  1-5 views",
	.help = help,
	.open = open_threads,
	.close = close_threads,
	.prepare = prepare,
	.draw = draw,
	.key = key,
	.search = search,
	.chosen = chosen,
};
