/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the results of fperf: as a table, or in another format.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "cli/elide.h"
#include "cli/fperf/fperf.h"
#include "cli/fperf/fperf_names.h"
#include "cli/fperf/fperf_number.h"
#include "cli/tail_mark.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"
#include "common/utf8.h"

#define NAME_MIN  24
#define NAME_MOST 80 /* the most columns of a name without a terminal */
#define LIVE_ROWS 20
/* Lines besides the rows: what was counted, the titles, the line above guesses, how many
 * functions more, and the line of the cursor. */
#define LINES_MORE    5
#define COLUMN	      20 /* width of an event's column */
#define GUESSES_SHOWN 10 /* rows below the line, unless more were asked for */

/* Returns the title of an event's column. Ticks of the time-stamp counter are time: a name of
 * cycles would be read as cycles of the core. */
static const char *title_of(const struct ip_fperf_event *e)
{
	const char *colon = strstr(e->name, "::");

	if (e->source == IP_FPERF_TSC)
		return "TSC-TICKS";
	return colon ? colon + 2 : e->name;
}

/* Returns the width of an event's column: names of native events are long. */
static int column_of(const struct ip_fperf_event *e)
{
	int n = (int)strlen(title_of(e));

	return n > COLUMN ? n : COLUMN;
}

/* Whether "+-?" stands in the columns of the last table. */
static bool calls_unsure, value_unsure;

/* Prints mean and interval; "-" where no sample has a value. */
static void print_value(FILE *out, const struct ip_fperf_event *e, double mean, double ci,
			uint64_t samples, bool scaled)
{
	char value[24], width[24], cell[64];

	if (!samples) {
		ip_print(out, " %*s", column_of(e), "-");
		return;
	}
	if (!strcmp(e->unit, "ns")) {
		ip_format_ns(mean, value);
		ip_format_ns(ci < 0 ? 0 : ci, width);
	} else {
		fperf_short_mean(mean, ci, value);
		fperf_short_number(ci < 0 ? 0 : ci, width);
	}
	value_unsure |= ci < 0;
	snprintf(cell, sizeof(cell), "%s%s +-%s", scaled ? "~" : "", value, ci < 0 ? "?" : width);
	ip_print(out, " %*s", column_of(e), cell);
}

static void print_calls(FILE *out, const struct ip_fperf_row *row)
{
	char calls[24], ci[24], cell[64];

	calls_unsure |= row->calls_ci < 0;
	fperf_short_number(row->calls, calls);
	if (row->calls_ci == 0)
		snprintf(cell, sizeof(cell), "%s", calls);
	else
		snprintf(cell, sizeof(cell), "~%s +-%s", calls,
			 row->calls_ci < 0 ? "?" : fperf_short_number(row->calls_ci, ci));
	ip_print(out, " %18s", cell);
}

uint64_t fperf_valued(const struct ip_fperf_row *row, unsigned event)
{
	return row->samples > row->missing[event] ? row->samples - row->missing[event] : 0;
}

/* Prints the titles of all columns except the name. Returns the columns that they take. */
static size_t print_header(FILE *out, struct ip_fperf *f)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *header = open_memstream(&text, &size);

	if (!header)
		return 0;
	ip_print(header, " %8s %18s", "samples", "calls");
	for (unsigned e = 0; e < o->nevents; e++)
		ip_print(header, " %*s", column_of(o->events[e]), title_of(o->events[e]));
	fperf_derived_header(header, f);
	if (fclose(header) != 0)
		return 0;
	if (out)
		ip_print_lines(out, text);
	return size;
}

static bool full_names;

void fperf_print_full_names(void)
{
	full_names = true;
}

/* Fits the names into their column. Returns its width. columns: of the terminal; 0: there is none.
 */
static size_t fit_names(struct ip_fperf *f, char **names, size_t n, size_t columns)
{
	size_t others = print_header(NULL, f), most = NAME_MIN, width = strlen("function");

	if (columns > others + most)
		most = columns - others;
	else if (!columns)
		most = full_names ? SIZE_MAX : NAME_MOST;
	for (size_t i = 0; i < n; i++) {
		size_t one;

		if (!names[i])
			continue;
		cli_fit_name(names[i], most); /* the name comes from the program's file */
		one = cli_width_of(names[i]);
		width = one > width ? one : width;
	}
	/* a whole name may be very long: its row alone is as wide as that */
	return !columns && width > NAME_MOST ? NAME_MOST : width;
}

static void print_row(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *row,
		      const char *name, size_t width)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);
	char buffer[CLI_TAIL_MARK_MAX];
	const char *mark = cli_tail_mark(row->until_tail, row->samples, buffer);
	const size_t taken = cli_width_of(name ? name : "?");

	ip_print(out, "%s%*s %8lu", name ? name : "?", taken < width ? (int)(width - taken) : 0, "",
		 row->samples);
	print_calls(out, row);
	for (unsigned e = 0; e < o->nevents; e++)
		print_value(out, o->events[e], row->mean[e], row->ci[e], fperf_valued(row, e),
			    row->scaled[e]);
	fperf_derived_cells(out, f, row);
	ip_print(out, "%s%s%s\n", *mark ? "  (" : "", mark, *mark ? ")" : "");
}

/* Prints the rows that are known, or those that are not, in their order. Returns their number. */
static size_t print_rows(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *rows,
			 char *const *names, size_t n, bool known, size_t most, size_t width)
{
	size_t shown = 0;

	for (size_t i = 0; i < n && shown < most; i++)
		if (rows[i].known == known) {
			print_row(out, f, &rows[i], names[i], width);
			shown++;
		}
	return shown;
}

/* Prints first the rows that are known; below a line those that are still guesses. most: rows in
 * all; guesses: how many of them may be guesses. */
static void print_table(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *rows, size_t n,
			size_t most, size_t guesses, size_t columns)
{
	char **names = fperf_names(rows, n, full_names);
	size_t width, known = 0, shown;

	if (!names) {
		ip_print(stderr, "fperf: out of memory\n");
		return;
	}
	calls_unsure = value_unsure = false;
	width = fit_names(f, names, n, columns);
	for (size_t i = 0; i < n; i++)
		known += rows[i].known;
	ip_print(out, "%-*s", (int)width, "function");
	print_header(out, f);
	ip_print(out, "\n");
	shown = print_rows(out, f, rows, names, n, true, most, width);
	if (known < n)
		ip_print(out,
			 "--- %zu function%s with too few samples to tell (wider than +-%.0f %%): "
			 "fewer functions (-f), more (--budget), or longer (--duration) ---\n",
			 n - known, n - known == 1 ? "" : "s", 100 * IP_FPERF_MOST_WIDTH);
	if (guesses > most - shown)
		guesses = most - shown;
	shown += print_rows(out, f, rows, names, n, false, guesses, width);
	if (n > shown)
		ip_print(out, "(%zu function%s more)\n", n - shown, ip_plural(n - shown));
	fperf_names_free(names, n);
}

void fperf_print_unsure(const char *process)
{
	if (calls_unsure)
		ip_print(stderr,
			 "fperf: %scalls with +-? were counted for fewer than three spans of time, "
			 "or mostly in hooks: how many there were besides is a guess\n",
			 process);
	if (value_unsure)
		ip_print(stderr, "fperf: %scounts with +-? have too few samples for an interval\n",
			 process);
}

/* Prints what stands in the place of a table without rows. */
static void print_no_calls(FILE *out, struct ip_fperf *f)
{
	struct ip_fperf_summary sum;

	ip_fperf_summary(f, &sum);
	ip_print(out,
		 "no call of the %zu selected function%s was seen in %.2f s (%.2f s of CPU time)\n",
		 sum.functions, ip_plural(sum.functions), sum.length_s, sum.run_s);
}

/* Returns the size of the terminal; zeros: it is no terminal. */
static struct winsize size_of(FILE *out)
{
	struct winsize size = {0};

	if (ioctl(fileno(out), TIOCGWINSZ, &size) < 0)
		size = (struct winsize){0};
	return size;
}

void fperf_print(FILE *out, struct ip_fperf *f, enum fperf_format format, size_t limit,
		 const char *end, pid_t pid)
{
	size_t n;
	_cleanup_free_ struct ip_fperf_row *rows = ip_fperf_rows(f, &n);

	calls_unsure = value_unsure = false; /* of the live table */
	if (!rows)
		ip_print(stderr, "fperf: %s\n", ip_error_message());
	else if (format == FPERF_CSV)
		fperf_print_csv(out, f, rows, n);
	else if (format == FPERF_JSON)
		fperf_print_json(out, f, rows, n, end, pid);
	else if (!n)
		print_no_calls(out, f);
	else
		print_table(out, f, rows, n, limit == FPERF_SOME ? SIZE_MAX : limit,
			    limit == FPERF_SOME ? GUESSES_SHOWN : limit, size_of(out).ws_col);
}

/* Returns how many bytes of a line fit into so many columns. */
static size_t fitting(const char *line, size_t columns)
{
	size_t n = 0;

	for (; line[n] && line[n] != '\n' && columns; columns--)
		n += ip_utf8_length(line + n) ? ip_utf8_length(line + n) : 1;
	return n;
}

/* Returns for how many functions a terminal of so many lines has room; lines 0: it is no
 * terminal. */
static size_t rows_of(size_t lines)
{
	return !lines ? LIVE_ROWS : lines > LINES_MORE ? lines - LINES_MORE : 0;
}

/* A line must not be broken at the terminal's edge, and there must be no more lines than the
 * terminal has: else the way back to the first line would be wrong. */
void fperf_show_live(void *context, struct ip_fperf *f)
{
	const struct winsize size = size_of(stderr);
	const size_t columns = size.ws_col ? size.ws_col - 1u : 80, room = rows_of(size.ws_row);
	_cleanup_free_ char *text = NULL;
	size_t n, length = 0, lines = 0;
	_cleanup_free_ struct ip_fperf_row *rows = room ? ip_fperf_rows(f, &n) : NULL;
	FILE *table = rows ? open_memstream(&text, &length) : NULL;
	struct ip_fperf_summary sum;

	if (!table)
		return;
	ip_fperf_summary(f, &sum);
	ip_print(table, "%.0f s, %lu sample%s of %zu function%s, cost %.2f %%\n", sum.length_s,
		 sum.samples, ip_plural(sum.samples), sum.sampled, ip_plural(sum.sampled),
		 100 * sum.overhead);
	print_table(table, f, rows, n, room < LIVE_ROWS ? room : LIVE_ROWS, GUESSES_SHOWN, columns);
	if (fclose(table) != 0)
		return;
	ip_print(stderr, "\033[J");
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1, lines++)
		ip_print(stderr, "%.*s\n", (int)fitting(line, columns), line);
	/* moves the cursor back to the first line */
	ip_print(stderr, "\033[%zuF", lines);
}
