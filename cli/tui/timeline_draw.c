/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws the timeline of a thread: a row for each depth, a bar for each call that is as wide as a
 * column at least. Calls that share a column are one character, the denser the more of the column
 * they cover. Bars tell by their characters alone what they are; colours come on top, where the
 * terminal has some and the user wants them.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/elide.h"
#include "cli/screen/screen.h"
#include "cli/tui/view_timeline.h"
#include "common/cleanup.h"
#include "common/print.h"
#include "common/units.h"
#include "common/utf8.h"

#define LABEL_LEAST 16u /* columns between two times of the axis */
#define COLOURS	    6u

/* begin, end: edges of a bar; cut: it goes on there. shades: from thin to full. */
struct art {
	const char *begin, *end, *cut_begin, *cut_end, *fill, *point;
	const char *shades[4];
};

static const struct art plain = {"[", "]", "<", ">", "=", "!", {".", ":", "%", "#"}};
static const struct art fine = {"\u2590",
				"\u258c",
				"\u25c2",
				"\u25b8",
				"\u2500",
				"\u2666",
				{"\u2591", "\u2592", "\u2593", "\u2588"}};

const struct ip_timeline_cell *cli_timeline_cell(const struct cli_view_timeline *v)
{
	const struct ip_timeline_view *p = &v->picture;

	if (!p->cells || v->depth < p->first || v->depth - p->first >= p->rows)
		return NULL;
	return &p->cells[(v->depth - p->first) * p->columns + cli_timeline_column(v, v->cursor)];
}

size_t cli_timeline_column(const struct cli_view_timeline *v, uint64_t ts)
{
	const struct ip_timeline_view *p = &v->picture;
	size_t c;

	if (ts < p->from)
		return 0;
	if (ts >= p->to)
		return p->columns - 1;
	c = (unsigned __int128)(ts - p->from) * p->columns / (p->to - p->from);
	while (c + 1 < p->columns && ip_timeline_view_time(p, c + 1) <= ts)
		c++;
	return c;
}

/* Prints ", 3 of 8 ([ ] go to others)" where there are other threads that [ and ] lead to. */
static void print_which(const struct ip_trace_reader *t, const struct ip_thread_packets *run,
			FILE *out)
{
	size_t n = 0, at = 0;

	for (size_t i = 0; i < t->nruns; i++) {
		n += t->runs[i].events > 0;
		if (&t->runs[i] == run)
			at = n;
	}
	if (n > 1)
		ip_print(out, ", %zu of %zu ([ ] go to others)", at, n);
}

static void print_head(const struct cli_tui *tui, const struct cli_view_timeline *v, FILE *out)
{
	const struct ip_recording *s = tui->trace->session;
	const struct ip_timeline_view *p = &v->picture;
	const struct ip_thread_packets *run = v->cache[0]->run;
	const char *name = ip_recording_thread_name_at(s, run->member, run->tid, run->end);
	char span[16], life[16], events[32];

	ip_print(out, CLI_SCREEN_BOLD);
	if (tui->trace->processes > 1)
		ip_print(out, "process %u %s, ", run->pid,
			 tui->trace->process_list[run->process].name);
	ip_print(out, "thread %u%s%s", run->tid, name ? " " : "", name ? name : "");
	print_which(tui->trace, run, out);
	ip_print(out, ": %s of %s", ip_format_ns(ip_recording_ns(s, v->to - v->from), span),
		 ip_format_ns(ip_recording_ns(s, run->end - run->begin), life));
	if (p->first || p->deepest > p->first + p->rows)
		ip_print(out, ", depths %u to %u of %u", p->first, p->first + p->rows - 1,
			 p->deepest ? p->deepest - 1 : 0);
	if (v->picture.exact)
		ip_print(out, ", all calls (%s events read)\n",
			 ip_format_count(v->picture.events, events));
	else
		ip_print(out, ", its long calls; short ones are summed up: + zooms in\n");
}

/* Returns the distance of two labels in ns: 1, 2 or 5 times a power of ten. */
static uint64_t step_of(uint64_t span_ns, size_t columns)
{
	uint64_t least = columns ? span_ns * LABEL_LEAST / columns : span_ns, step = 1;

	while (step < least) {
		if (step * 2 >= least)
			return step * 2;
		if (step * 5 >= least)
			return step * 5;
		step *= 10;
	}
	return step;
}

static void print_axis(const struct cli_tui *tui, const struct cli_view_timeline *v, FILE *out)
{
	const struct ip_recording *s = tui->trace->session;
	const struct ip_timeline_view *p = &v->picture;
	uint64_t from = ip_recording_since_start(s, p->from),
		 to = ip_recording_since_start(s, p->to);
	uint64_t span = to > from ? to - from : 1, step = step_of(span, p->columns), unit = step;
	_cleanup_free_ char *axis = malloc(p->columns + 1);
	int digits = 0;

	for (; unit && unit < 1000000000 && digits < 9; unit *= 10)
		digits++;
	if (!axis)
		return;
	memset(axis, ' ', p->columns);
	axis[p->columns] = '\0';
	for (uint64_t at = (from + step - 1) / step * step; at < to; at += step) {
		size_t column = (unsigned __int128)(at - from) * p->columns / span, length;
		char label[40];

		snprintf(label, sizeof(label), "|%.*f s", digits, at / 1e9);
		length = strlen(label);
		if (column + length <= p->columns)
			memcpy(axis + column, label, length);
	}
	ip_print(out, "%*s%s\n", (int)CLI_TIMELINE_GUTTER, "", axis);
}

/* Returns whether two cells are columns of one bar. */
static bool is_one_bar(const struct ip_timeline_cell *a, const struct ip_timeline_cell *b)
{
	return a->calls && b->calls && !a->longest.point && !b->longest.point &&
	       a->longest.start == b->longest.start && a->longest.end == b->longest.end &&
	       a->longest.function == b->longest.function && a->longest.tag == b->longest.tag &&
	       a->longest.end > a->longest.start;
}

static const char *shade(const struct art *art, const struct ip_timeline_view *p, size_t column,
			 const struct ip_timeline_cell *cell)
{
	uint64_t width = ip_timeline_view_time(p, column + 1) - ip_timeline_view_time(p, column);
	double share = width ? (double)cell->covered / width : 1;

	if (cell->longest.point)
		return art->point;
	return art->shades[share < 0.25 ? 0 : share < 0.5 ? 1 : share < 0.9 ? 2 : 3];
}

static bool is_cursor(const struct cli_view_timeline *v, uint32_t depth, size_t column)
{
	return depth == v->depth && column == cli_timeline_column(v, v->cursor);
}

static void print_style(const struct cli_tui *tui, FILE *out, uint32_t function, bool chosen)
{
	if (chosen)
		ip_print(out, CLI_SCREEN_BOLD);
	if (tui->colours)
		ip_print(out, "\033[30;%um", (unsigned)(41 + function % COLOURS));
}

/* Prints one column: text of length bytes. */
static void print_column(FILE *out, const char *text, size_t length, bool cursor)
{
	if (cursor)
		ip_print(out, CLI_SCREEN_REVERSE);
	ip_print(out, "%.*s", (int)length, text);
	if (cursor)
		ip_print(out, CLI_SCREEN_PLAIN);
}

static void print_bar(const struct cli_tui *tui, const struct cli_view_timeline *v, FILE *out,
		      const struct art *art, uint32_t depth, size_t column, size_t end)
{
	const struct ip_timeline_view *p = &v->picture;
	const struct ip_timeline_cell *cell =
		&p->cells[(size_t)(depth - p->first) * p->columns + column];
	const struct ip_timeline_item *item = &cell->longest;
	bool chosen = v->has_item && v->item.start == item->start && v->item.depth == depth &&
		      v->item.function == item->function;
	size_t width = end - column;
	_cleanup_free_ char *name = strdup(ip_names_text(tui->report.names, item->function));
	const char *label = "";

	if (name && width >= 4) {
		ip_clean(name);
		label = cli_inner_name(name, width - 2);
	}
	print_style(tui, out, item->function, chosen);
	for (size_t i = 0; i < width; i++) {
		bool cursor = is_cursor(v, depth, column + i);
		const char *text = art->fill;
		size_t length = strlen(art->fill);

		if (width == 1) {
			text = shade(art, p, column, cell);
			length = strlen(text);
		} else if (i == 0) {
			text = item->start < p->from ? art->cut_begin : art->begin;
			length = strlen(text);
		} else if (i == width - 1) {
			text = item->open || item->end > p->to ? art->cut_end : art->end;
			length = strlen(text);
		} else if (*label) {
			text = label;
			length = ip_utf8_length(label);
			label += length;
		}
		print_column(out, text, length, cursor);
		if (cursor)
			print_style(tui, out, item->function, chosen);
	}
	if (chosen || tui->colours)
		ip_print(out, CLI_SCREEN_PLAIN);
}

static void print_row(const struct cli_tui *tui, const struct cli_view_timeline *v, FILE *out,
		      uint32_t depth)
{
	const struct ip_timeline_view *p = &v->picture;
	const struct ip_timeline_cell *cells = &p->cells[(size_t)(depth - p->first) * p->columns];

	ip_print(out, "%3u ", depth);
	for (size_t c = 0, end; c < p->columns; c = end) {
		for (end = c + 1; end < p->columns && is_one_bar(&cells[c], &cells[end]); end++)
			;
		if (cells[c].calls)
			print_bar(tui, v, out, tui->utf8 ? &fine : &plain, depth, c, end);
		else
			print_column(out, " ", 1, is_cursor(v, depth, c));
	}
	ip_print(out, "\n");
}

/* Prints when the call ran. All is given in ns, too: dump has the same figures. */
static void print_times(const struct cli_tui *tui, const struct cli_view_timeline *v, FILE *out)
{
	const struct ip_recording *s = tui->trace->session;
	const struct ip_recording_function *f = &s->functions[v->item.function];
	uint64_t at = ip_recording_since_start(s, v->item.start),
		 lasts = ip_recording_ns(s, v->details.end - v->item.start);
	char duration[16], self[16];

	ip_print(out, "%s %llu.%09llu s", v->item.point ? "passed at" : "begins at",
		 (unsigned long long)(at / 1000000000), (unsigned long long)(at % 1000000000));
	if (!v->item.point && v->has_details)
		ip_print(out, ", lasts %s (%llu ns), self %s", ip_format_ns(lasts, duration),
			 (unsigned long long)lasts,
			 ip_format_ns(ip_recording_ns(s, v->details.self), self));
	ip_print(out, ", depth %u, %s", v->item.depth, ip_recording_module_name(s, f));
	if (f->file)
		ip_print(out, " %s:%u", strrchr(f->file, '/') ? strrchr(f->file, '/') + 1 : f->file,
			 f->line);
	ip_print(out, "\n");
}

static void print_details(const struct cli_tui *tui, const struct cli_view_timeline *v, FILE *out,
			  size_t columns)
{
	const struct ip_timeline_cell *cell = cli_timeline_cell(v);
	const uint64_t at = ip_recording_since_start(tui->trace->session, v->cursor);
	char count[32], when[40];

	snprintf(when, sizeof(when), "at %llu.%09llu s", (unsigned long long)(at / 1000000000),
		 (unsigned long long)(at % 1000000000));
	if (!v->has_item && cell && cell->calls) {
		ip_print(out, "about %s short calls here, mostly of %s\n%s\n\n",
			 ip_format_count(cell->calls, count),
			 ip_names_text(tui->report.names, cell->longest.function), when);
		return;
	}
	if (!v->has_item) {
		ip_print(out, "no call here\n%s, depth %u\n\n", when, v->depth);
		return;
	}
	ip_print(out, CLI_SCREEN_BOLD);
	ip_print(out, "%s", ip_names_text(tui->report.names, v->item.function));
	ip_print(out, CLI_SCREEN_PLAIN);
	if (!v->pinned && cell && cell->calls > 1)
		ip_print(out, "  (the longest of %s%s in this column)",
			 cell->summed ? "about " : "", ip_format_count(cell->calls, count));
	ip_print(out, "\n");
	print_times(tui, v, out);
	cli_timeline_print_values(v, out, columns);
}

void cli_timeline_draw(struct cli_tui *tui, FILE *out, size_t lines, size_t columns)
{
	const struct cli_view_timeline *v = tui->views[CLI_TUI_TIMELINE];
	const struct ip_timeline_view *p = &v->picture;

	if (!p->cells) {
		for (size_t i = 0; i < lines; i++)
			ip_print(out, "\n");
		return;
	}
	print_head(tui, v, out);
	print_axis(tui, v, out);
	for (uint32_t i = 0; i < p->rows; i++)
		if (p->first + i < p->deepest || p->first + i == v->depth)
			print_row(tui, v, out, p->first + i);
		else
			ip_print(out, "\n");
	print_details(tui, v, out, columns);
}
