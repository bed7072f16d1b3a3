/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of iprobe tui: which thread and which time is shown, where the cursor is, and which
 * call is under it.
 */
#include "cli/tui/view_timeline.h"

#include <stdlib.h>
#include <string.h>

#include "cli/screen/screen.h"
#include "common/error.h"

#define SPAN_LEAST 64u /* ticks that are shown, at least */

static const char *const help[] = {
	"Left Right   move the cursor in time;  Up Down, k j: to callers, callees",
	"+ -       zoom in, out;  f: all of the thread;  Enter: the call at the cursor",
	"PgUp PgDn a screen earlier, later;  Home End: begin, end of the thread",
	"n N       the next call of the function or of the search, the one before",
	"[ ]       the thread before, the next one;  v: all values of the call",
	NULL,
};

static struct cli_view_timeline *view_of(const struct cli_tui *tui)
{
	return tui->views[CLI_TUI_TIMELINE];
}

static const struct ip_thread_packets *run_of(const struct cli_view_timeline *v)
{
	return v->cache[0]->run;
}

/* ---- what is shown ---- */

static void forget_details(struct cli_view_timeline *v)
{
	free(v->details.args);
	free(v->details.result);
	v->details = (struct ip_timeline_call_details){0};
	v->has_details = false;
}

static void forget_picture(struct cli_view_timeline *v)
{
	free(v->picture.cells);
	v->picture = (struct ip_timeline_view){0};
}

/* Shows span ticks from a time on. They remain within the thread's life. */
static void set_window(struct cli_view_timeline *v, uint64_t from, uint64_t span)
{
	const struct ip_thread_packets *run = run_of(v);
	uint64_t life = run->end > run->begin ? run->end - run->begin : 1;

	span = span < SPAN_LEAST ? SPAN_LEAST : span;
	span = span < life ? span : life;
	if (from < run->begin)
		from = run->begin;
	if (from - run->begin > life - span)
		from = run->begin + (life - span);
	v->from = from;
	v->to = from + span;
}

/* Shows a span around a time, which comes to the share num / den of the width. */
static void set_around(struct cli_view_timeline *v, uint64_t ts, uint64_t span, uint64_t num,
		       uint64_t den)
{
	uint64_t before = (unsigned __int128)span * num / den;

	set_window(v, ts > before ? ts - before : 0, span);
}

/* Shows a call in nine tenths of the width. */
static void show_call(struct cli_view_timeline *v, uint64_t start, uint64_t end)
{
	uint64_t ticks = end > start ? end - start : 1;

	set_around(v, start, ticks + ticks / 9, 1, 20);
}

static void pin(struct cli_view_timeline *v, const struct ip_timeline_item *item)
{
	forget_details(v);
	v->item = *item;
	v->has_item = v->pinned = true;
	v->cursor = item->start;
	v->depth = item->depth;
}

/* Makes the run the one that is shown. Returns 0, or -1 with an error. */
static int set_run(struct cli_tui *tui, size_t index)
{
	struct cli_view_timeline *v = view_of(tui);
	const struct ip_thread_packets *run = &tui->trace->runs[index];
	struct ip_run_timeline *found = NULL;
	size_t at = 0;

	while (at < CLI_TIMELINE_CACHE - 1 && v->cache[at] && v->cache[at]->run != run)
		at++;
	if (v->cache[at] && v->cache[at]->run == run) {
		found = v->cache[at];
	} else {
		cli_tui_reading(tui, "reading the thread", run->packets);
		if (cli_tui_read(tui, ip_run_timeline_make(tui->trace, run, &found)) < 0)
			return -1;
		ip_run_timeline_destroy(v->cache[at]);
	}
	memmove(v->cache + 1, v->cache, at * sizeof(*v->cache));
	v->cache[0] = found;
	forget_picture(v);
	forget_details(v);
	v->has_item = v->pinned = false;
	v->depth = v->first = 0;
	set_window(v, run->begin, run->end - run->begin);
	v->cursor = v->from + (v->to - v->from) / 2;
	return 0;
}

static int open_timeline(struct cli_tui *tui)
{
	struct cli_view_timeline *v = calloc(1, sizeof(*v));
	const struct ip_trace_reader *t = tui->trace;
	size_t most = 0;

	tui->views[CLI_TUI_TIMELINE] = v;
	if (!v)
		return ip_error("out of memory");
	for (size_t i = 1; i < t->nruns; i++)
		if (t->runs[i].events > t->runs[most].events)
			most = i;
	if (!t->nruns || !t->runs[most].events)
		return ip_error("%s: no thread has events: there is no timeline", t->dir);
	return set_run(tui, most);
}

static void close_timeline(struct cli_tui *tui)
{
	struct cli_view_timeline *v = view_of(tui);

	if (!v)
		return;
	for (size_t i = 0; i < CLI_TIMELINE_CACHE; i++)
		ip_run_timeline_destroy(v->cache[i]);
	forget_picture(v);
	forget_details(v);
	free(v->wanted);
	free(v);
}

/* Returns the packets that so many events take, about. */
static uint64_t packets_of(const struct ip_thread_packets *run, uint64_t events)
{
	return run->events ? (unsigned __int128)run->packets * events / run->events + 1 : 1;
}

static int make_picture(struct cli_tui *tui, size_t columns, uint32_t rows)
{
	struct cli_view_timeline *v = view_of(tui);
	struct ip_timeline_view *p = &v->picture;
	int done;

	if (v->depth < v->first)
		v->first = v->depth;
	if (v->depth - v->first >= rows)
		v->first = v->depth - rows + 1;
	if (p->cells && p->from == v->from && p->to == v->to && p->first == v->first &&
	    p->rows == rows && p->columns == columns)
		return 0;
	forget_picture(v);
	cli_tui_reading(tui, "reading the slice", packets_of(run_of(v), IP_TIMELINE_VIEW_EVENTS));
	done = cli_tui_read(tui, ip_timeline_view_make(v->cache[0], v->from, v->to, columns,
						       v->first, rows, p));
	return done;
}

/* Finds the call under the cursor, and what is known of it. */
static int look_under_cursor(struct cli_tui *tui)
{
	struct cli_view_timeline *v = view_of(tui);
	const struct ip_timeline_cell *cell = cli_timeline_cell(v);
	int done;

	if (!v->pinned) {
		const struct ip_timeline_item *item = cell && cell->calls ? &cell->longest : NULL;

		/* a sum is no single call */
		if (item && cell->summed && item->tag == IP_NO_TAG && item->end == item->start)
			item = NULL;
		if (item && v->has_details && v->item.start == item->start &&
		    v->item.function == item->function && v->item.depth == item->depth &&
		    (item->tag == IP_NO_TAG || item->tag == v->item.tag))
			return 0;
		forget_details(v);
		v->has_item = item;
		if (item)
			v->item = *item;
	}
	if (!v->has_item || v->has_details)
		return 0;
	cli_tui_reading(tui, "reading the call", run_of(v)->packets);
	done = cli_tui_read(tui, ip_timeline_details(v->cache[0], &v->item, &v->details));
	v->has_details = done > 0;
	return done < 0 ? -1 : 0;
}

static int prepare(struct cli_tui *tui, size_t lines, size_t columns)
{
	const size_t others = CLI_TIMELINE_HEAD + CLI_TIMELINE_DETAILS;

	if (make_picture(tui, columns > CLI_TIMELINE_GUTTER + 1 ? columns - CLI_TIMELINE_GUTTER : 1,
			 lines > others ? lines - others : 1) < 0)
		return -1;
	return look_under_cursor(tui);
}

/* ---- what keys do ---- */

static void move(struct cli_view_timeline *v, int by)
{
	size_t column = cli_timeline_column(v, v->cursor);
	uint64_t span = v->to - v->from, half = span / v->picture.columns / 2;

	v->pinned = false;
	if (by < 0 && column == 0)
		set_window(v, v->from > span / 2 ? v->from - span / 2 : 0, span);
	else if (by > 0 && column + 1 == v->picture.columns)
		set_window(v, v->from + span / 2, span);
	if (by < 0)
		v->cursor = column ? ip_timeline_view_time(&v->picture, column - 1) + half
				   : v->picture.from - (v->picture.from > v->from);
	else
		v->cursor = ip_timeline_view_time(&v->picture, column + 1) + half;
	if (v->cursor < v->from)
		v->cursor = v->from;
	if (v->cursor >= v->to)
		v->cursor = v->to - 1;
}

static void pan(struct cli_view_timeline *v, bool later)
{
	uint64_t span = v->to - v->from, offset = v->cursor - v->from;

	set_window(v, later ? v->from + span : v->from > span ? v->from - span : 0, span);
	v->cursor = v->from + offset;
	v->pinned = false;
}

static void zoom(struct cli_view_timeline *v, bool in)
{
	uint64_t span = v->to - v->from;

	if (v->cursor < v->from || v->cursor >= v->to)
		v->cursor = v->from + span / 2;
	set_around(v, v->cursor,
		   in			   ? span / 2
		   : span > UINT64_MAX / 2 ? span
					   : 2 * span,
		   v->cursor - v->from, span);
}

static void enter(struct cli_view_timeline *v)
{
	if (v->has_item && v->has_details && !v->item.point) {
		show_call(v, v->item.start, v->details.end);
		v->pinned = true;
		v->cursor = v->item.start;
	} else {
		zoom(v, true);
	}
}

/* Goes to the next call of what was searched for, or of the function under the cursor. */
static void jump(struct cli_tui *tui, bool backwards)
{
	struct cli_view_timeline *v = view_of(tui);
	struct ip_timeline_item item;
	bool *own = NULL, by_item;
	int found;

	if (!v->wanted && !v->has_item) {
		cli_tui_say(tui, "no call is under the cursor: / searches for one");
		return;
	}
	if (!v->wanted) {
		own = calloc(tui->trace->session->nfunctions, sizeof(*own));
		if (!own)
			return;
		own[v->item.function] = true;
	}
	/* The call under the cursor is the longest of its column: what is searched for may be in
	 * that column, too, and come before it. */
	by_item = v->has_item && (v->pinned || !v->wanted);
	cli_tui_reading(tui, "looking for the call", run_of(v)->packets);
	found = cli_tui_read(tui,
			     ip_timeline_next(v->cache[0], v->wanted ? v->wanted : own,
					      by_item ? v->item.start : v->cursor,
					      by_item && v->has_details ? v->item.tag : IP_NO_TAG,
					      backwards, &item));
	free(own);
	if (found < 0)
		cli_tui_say_error(tui);
	else if (!found)
		cli_tui_say(tui, "no call of it %s in this thread",
			    backwards ? "before" : "behind");
	if (found <= 0)
		return;
	pin(v, &item);
	if (item.start < v->from || item.start >= v->to)
		set_around(v, item.start, v->to - v->from, 1, 2);
}

static void step_run(struct cli_tui *tui, int by)
{
	size_t n = tui->trace->nruns, at = run_of(view_of(tui)) - tui->trace->runs;

	for (size_t i = 1; i <= n; i++) {
		size_t next = (at + n + by * (ssize_t)i % (ssize_t)n) % n;

		if (!tui->trace->runs[next].events)
			continue;
		if (set_run(tui, next) < 0)
			cli_tui_say_error(tui);
		return;
	}
}

static void move_depth(struct cli_view_timeline *v, bool deeper)
{
	if (deeper && v->depth + 1 < v->picture.deepest)
		v->depth++;
	else if (!deeper && v->depth)
		v->depth--;
	v->pinned = false;
}

static void key(struct cli_tui *tui, int key, size_t lines)
{
	struct cli_view_timeline *v = view_of(tui);
	const struct ip_thread_packets *run = run_of(v);

	if (!v->picture.cells)
		return;
	switch (key) {
	case CLI_KEY_LEFT:
	case CLI_KEY_RIGHT:
		move(v, key == CLI_KEY_LEFT ? -1 : 1);
		break;
	case CLI_KEY_UP:
	case CLI_KEY_DOWN:
	case 'k':
	case 'j':
		move_depth(v, key == CLI_KEY_DOWN || key == 'j');
		break;
	case CLI_KEY_PAGE_UP:
	case CLI_KEY_PAGE_DOWN:
		pan(v, key == CLI_KEY_PAGE_DOWN);
		break;
	case CLI_KEY_HOME:
	case CLI_KEY_END:
		set_window(v, key == CLI_KEY_HOME ? run->begin : run->end, v->to - v->from);
		v->cursor = key == CLI_KEY_HOME ? v->from : v->to - 1;
		v->pinned = false;
		break;
	case '+':
	case '=':
	case '-':
		zoom(v, key != '-');
		break;
	case 'f':
		set_window(v, run->begin, run->end - run->begin);
		break;
	case '\r':
		enter(v);
		break;
	case 'n':
	case 'N':
		jump(tui, key == 'N');
		break;
	case 'v':
		if (v->has_item && v->has_details)
			tui->all_values = true;
		else
			cli_tui_say(tui, "no call is under the cursor");
		break;
	case '[':
	case ']':
		step_run(tui, key == ']' ? 1 : -1);
		break;
	default:
		break;
	}
}

static void search(struct cli_tui *tui, const char *text, enum cli_tui_search how)
{
	struct cli_view_timeline *v = view_of(tui);
	bool *wanted = NULL;
	size_t n = 0;

	if (how == CLI_TUI_LEFT)
		return;
	if (*text) {
		wanted = cli_tui_match(tui, text, &n);
		if (!wanted) {
			cli_tui_say_error(tui);
			return;
		}
	}
	if (how == CLI_TUI_TYPED) {
		free(v->wanted);
		v->wanted = wanted;
		if (wanted)
			jump(tui, false);
		return;
	}
	free(wanted);
	if (*text)
		cli_tui_say(tui, "%zu function%s", n, n == 1 ? "" : "s");
}

static uint32_t chosen(struct cli_tui *tui)
{
	const struct cli_view_timeline *v = view_of(tui);
	const struct ip_timeline_cell *cell;

	if (!v)
		return CLI_TUI_NO_FUNCTION;
	if (v->has_item)
		return v->item.function;
	cell = cli_timeline_cell(v);
	return cell && cell->calls ? cell->longest.function : CLI_TUI_NO_FUNCTION;
}

void cli_tui_go_run(struct cli_tui *tui, size_t run, const struct ip_longest_call *call,
		    uint32_t function)
{
	struct cli_view_timeline *v;

	if (!cli_tui_go(tui, CLI_TUI_TIMELINE))
		return;
	v = view_of(tui);
	if (run_of(v) != &tui->trace->runs[run] && set_run(tui, run) < 0) {
		cli_tui_say_error(tui);
		return;
	}
	if (!call)
		return;
	pin(v, &(struct ip_timeline_item){.start = call->start,
					  .end = call->end,
					  .function = function,
					  .depth = call->depth,
					  .tag = IP_NO_TAG});
	show_call(v, call->start, call->end);
	cli_tui_say(tui, "the slowest call of %s", ip_names_text(tui->report.names, function));
}

const struct cli_tui_view_ops cli_tui_timeline = {
	.name = "timeline",
	.keys = "q quit  ? help  arrows move  + - zoom  n N next, before  Enter this call  f all  "
		"/ search  x slowest",
	.help = help,
	.open = open_timeline,
	.close = close_timeline,
	.prepare = prepare,
	.draw = cli_timeline_draw,
	.key = key,
	.search = search,
	.chosen = chosen,
};
