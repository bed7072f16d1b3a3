/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints rows of iprobe top for people and as JSON. Where a terminal is too narrow, the columns
 * that matter least are left out.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/elide.h"
#include "cli/tail_mark.h"
#include "cli/top/top.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"
#include "common/utf8.h"

#define NAME_LEAST 16u
/* The times of some calls end at a tail call; it is not counted how many. */
#define TAIL_MARK	" [until its tail call]"
#define TAIL_MARK_SHORT " [tail]"
#define WAITS_MARK	" [waits]"

/* The columns before the name. width includes the blank before the column. The column with the
 * least weight is left out first. */
static const struct {
	const char *title;
	unsigned width, weight;
	enum cli_top_column column;
	bool share; /* a share of the interval, in per cent */
	bool text;  /* aligned at its left; it may be longer where there is no limit */
} columns[] = {
	{"RATE/s", 8, 9, CLI_TOP_RATE, false, false}, {"CALLS", 8, 4, CLI_TOP_CALLS, false, false},
	{"%SELF", 7, 12, CLI_TOP_SELF, true, false},  {"SELF", 9, 7, CLI_TOP_SELF, false, false},
	{"%TOTAL", 8, 6, CLI_TOP_TOTAL, true, false}, {"AVG", 9, 5, CLI_TOP_AVG, false, false},
	{"P50", 9, 3, CLI_TOP_P50, false, false},     {"P99", 9, 8, CLI_TOP_P99, false, false},
	{"MAX", 9, 2, CLI_TOP_MAX, false, false},     {"%WAIT", 7, 11, CLI_TOP_WAIT, true, false},
	{"FOR", 28, 10, CLI_TOP_WAIT, false, true},
};

#define NCOLUMNS (sizeof(columns) / sizeof(*columns))

/* Returns whether a column is shown. Of threads there are no durations of single calls. */
static bool is_shown(size_t i, unsigned weight, const struct cli_top_rows *rows)
{
	const enum cli_top_column c = columns[i].column;

	return columns[i].weight >= weight && (c != CLI_TOP_WAIT || rows->has_waits) &&
	       (!rows->by_thread || c == CLI_TOP_RATE || c == CLI_TOP_CALLS || c == CLI_TOP_SELF);
}

static size_t used_by(unsigned weight, const struct cli_top_rows *rows)
{
	size_t used = 0;

	for (size_t i = 0; i < NCOLUMNS; i++)
		used += is_shown(i, weight, rows) ? columns[i].width : 0;
	return used;
}

/* Returns the least weight of the columns for which there is room. */
static unsigned least_weight(size_t width, const struct cli_top_rows *rows)
{
	for (unsigned weight = 0;; weight++) {
		size_t used = used_by(weight, rows);

		if (!used || width >= used + 2 + NAME_LEAST)
			return weight;
	}
}

/* "123", "1.2k", "45.6M": at most 5 columns. */
static char *compact(double n, char *buffer)
{
	static const char units[] = " kMGTPE";
	unsigned i = 0;

	if (n < 999.5 && n > 0 && n < 9.95 && n != floor(n)) {
		snprintf(buffer, 16, "%.1f", n);
		return buffer;
	}
	for (; n >= 999.5 && units[i + 1]; i++)
		n /= 1000;
	if (!i)
		snprintf(buffer, 16, "%.0f", n);
	else
		snprintf(buffer, 16, "%.*f%c", n < 99.95 ? 1 : 0, n, units[i]);
	return buffer;
}

/* For how much of its time a function had no CPU, and waited for something else than work. */
static const char *wait_cell(const struct cli_top_row *r, char *buffer)
{
	const double percent = cli_top_wait_busy_percent(&r->wait);

	if (!r->has_wait || !r->wait.elapsed_ns)
		return "-";
	if (percent < 0)
		return "?";
	snprintf(buffer, 24, "%.1f", percent);
	return buffer;
}

/* What it waited for longest: if it was idle for longer than that, what it was idle in. */
static const struct cli_top_object *longest_of(const struct cli_top_wait *w, bool *ret_idle)
{
	const struct cli_top_object *busy = NULL, *idle = NULL;

	for (size_t i = 0; i < w->nobjects; i++) {
		const struct cli_top_object *o = &w->objects[i];

		if (o->ns > o->idle_ns && (!busy || o->ns - o->idle_ns > busy->ns - busy->idle_ns))
			busy = o;
		if (o->idle_ns && (!idle || o->idle_ns > idle->idle_ns))
			idle = o;
	}
	*ret_idle = idle && (!busy || w->idle_ns > busy->ns - busy->idle_ns);
	return *ret_idle ? idle : busy;
}

/* The longest of what it waited for; calls that had not ended at the end of the interval. */
static char *object_cell(const struct cli_top_row *r, size_t width)
{
	const struct cli_top_wait *w = &r->wait;
	bool idle = false;
	const struct cli_top_object *c = r->has_wait ? longest_of(w, &idle) : NULL;
	const bool unknown = r->has_wait && w->elapsed_ns && cli_top_wait_percent(w) < 0;
	char open[32] = "", *text;

	if (r->has_wait && w->open)
		snprintf(open, sizeof(open), " (%" PRIu64 " open)", w->open);
	if (asprintf(&text, "%s%s%s%s%s", idle ? "idle: " : "",
		     c && !c->name ? "run queue"
		     : c	   ? c->kind
				   : "",
		     c && c->name ? " " : "",
		     c && c->name ? c->name
		     : unknown	  ? "?"
				  : "",
		     width == SIZE_MAX ? open : "") < 0)
		return NULL;
	if (width == SIZE_MAX)
		ip_clean(text);
	else if (width > strlen(open) + 3)
		cli_cut_text(text, width - strlen(open));
	if (width != SIZE_MAX && *open) {
		char *whole;

		if (asprintf(&whole, "%s%s", text, open) < 0)
			return text;
		free(text);
		return whole;
	}
	return text;
}

static const char *cell(const struct cli_top_rows *rows, const struct cli_top_row *r, size_t i,
			char *buffer)
{
	char number[16];
	uint64_t ns = columns[i].column == CLI_TOP_SELF	   ? r->self_ns
		      : columns[i].column == CLI_TOP_TOTAL ? r->total_ns
		      : columns[i].column == CLI_TOP_AVG   ? r->avg_ns
		      : columns[i].column == CLI_TOP_P50   ? r->p50
		      : columns[i].column == CLI_TOP_P99   ? r->p99
							   : r->max_ns;

	if (columns[i].column == CLI_TOP_RATE)
		return compact(r->rate, buffer);
	if (columns[i].column == CLI_TOP_CALLS)
		return compact(r->all_calls, buffer);
	if (columns[i].column == CLI_TOP_WAIT)
		return wait_cell(r, buffer);
	if (!r->timed || (columns[i].column == CLI_TOP_SELF && !r->has_self))
		return "-";
	if (columns[i].share)
		snprintf(buffer, 24, "%.1f",
			 rows->interval_ns ? 100.0 * ns / rows->interval_ns : 0.0);
	else
		snprintf(buffer, 24, "%s%s",
			 columns[i].column == CLI_TOP_P50 || columns[i].column == CLI_TOP_P99 ? "<"
											      : "",
			 ip_format_ns(ns, number));
	return buffer;
}

void cli_top_print_head(FILE *out, size_t width, enum cli_top_column mark,
			const struct cli_top_rows *rows)
{
	const char *last = rows->by_thread ? "*THREAD" : "*FUNCTION";
	unsigned weight = least_weight(width, rows);

	for (size_t i = 0; i < NCOLUMNS; i++) {
		bool marked = columns[i].column == mark && !columns[i].share;
		char title[16];

		snprintf(title, sizeof(title), "%s%s", marked ? "*" : "", columns[i].title);
		if (!is_shown(i, weight, rows))
			continue;
		if (columns[i].text)
			ip_print(out, "  %-*s", columns[i].width - 2, title);
		else
			ip_print(out, "%*s", columns[i].width, title);
	}
	ip_print(out, "  %.*s",
		 (int)(width - used_by(weight, rows) > 18 ? 18 : width - used_by(weight, rows) - 2),
		 mark == CLI_TOP_FUNCTION ? last : last + 1);
}

/* Prints a text at the left of its column. */
static void print_object(FILE *out, const struct cli_top_row *row, size_t i, size_t width)
{
	const size_t own = columns[i].width - 2;
	_cleanup_free_ char *text = object_cell(row, width == SIZE_MAX ? width : own);
	size_t used = text ? cli_width_of(text) : 0;

	ip_print(out, "  ");
	ip_print(out, "%s", text ? text : "");
	ip_print(out, "%*s", used < own ? (int)(own - used) : 0, "");
}

void cli_top_print_row(FILE *out, size_t width, const struct cli_top_rows *rows,
		       const struct cli_top_row *row)
{
	_cleanup_free_ char *name = strdup(row->shown);
	unsigned weight = least_weight(width, rows);
	size_t room = width == SIZE_MAX			  ? width
		      : width > used_by(weight, rows) + 2 ? width - used_by(weight, rows) - 2
							  : 0;
	const char *mark = "";
	char buffer[24], pid[24] = "";

	for (size_t i = 0; i < NCOLUMNS; i++) {
		if (!is_shown(i, weight, rows))
			continue;
		if (columns[i].text)
			print_object(out, row, i, width);
		else
			ip_print(out, "%*s", columns[i].width, cell(rows, row, i, buffer));
	}
	if (!name || room < 3)
		return;
	if (row->waits)
		mark = WAITS_MARK;
	else if (row->tails)
		mark = room < NAME_LEAST + strlen(TAIL_MARK) ? TAIL_MARK_SHORT : TAIL_MARK;
	if (row->pid && !row->is_thread)
		snprintf(pid, sizeof(pid), " [%d]", row->pid);
	if (strlen(mark) + strlen(pid) + 3 > room)
		mark = "";
	if (strlen(pid) + 3 > room)
		*pid = '\0';
	cli_fit_name(name, room - strlen(mark) - strlen(pid));
	ip_print(out, "  %s%s%s", name, pid, mark);
}

void cli_top_print_sums(FILE *out, const struct cli_top_rows *rows)
{
	char rate[16], interval[16], names[IP_NAME_LIST_TEXT];
	double seconds = rows->interval_ns / 1e9;

	ip_print(out, "%s calls/s of ", compact(seconds > 0 ? rows->calls / seconds : 0, rate));
	if (rows->by_thread)
		ip_print(out, "%zu function%s in %zu thread%s", rows->functions,
			 ip_plural(rows->functions), rows->n, ip_plural(rows->n));
	else if (rows->by_process)
		ip_print(out, "%zu function%s by process", rows->functions,
			 ip_plural(rows->functions));
	else
		ip_print(out, "%zu of %zu function%s", rows->n + rows->hidden, rows->functions,
			 ip_plural(rows->functions));
	ip_print(out, " in %s", ip_format_ns(rows->interval_ns, interval));
	if (seconds > 0)
		ip_print(out, ", %.1f%% self", 100.0 * rows->self_ns / rows->interval_ns);
	if (seconds > 0 && rows->waits_ns)
		ip_print(out, " (%.1f%% work, %.1f%% wait)",
			 100.0 * (rows->self_ns - rows->waits_ns) / rows->interval_ns,
			 100.0 * rows->waits_ns / rows->interval_ns);
	if (seconds > 0 && rows->has_cpu)
		ip_print(out, ", %.1f%% CPU", 100.0 * rows->cpu_ns / rows->interval_ns);
	if (rows->kernel_lost)
		ip_print(out, "; events of the kernel are LOST (?)");
	if (rows->kept_ns < rows->interval_ns)
		ip_print(out, "; waits of the last %s (--memory)",
			 ip_format_ns(rows->kept_ns, interval));
	if (rows->hidden)
		ip_print(out, "; hidden: %zu that wait%s", rows->hidden,
			 rows->hidden == 1 ? "s" : "");
	if (rows->logged)
		ip_print(out, "; %zu are logged, not shown (iprobe report of that trace)",
			 rows->logged);
	if (rows->silent.n)
		ip_print(out, "; %zu more that these jump to are not shown (%s)", rows->silent.n,
			 ip_name_list_text(&rows->silent, names));
}

void cli_top_print_more(FILE *out, const struct cli_top_rows *rows, size_t shown)
{
	const struct cli_top_row *longest = NULL;
	size_t more = shown < rows->n ? rows->n - shown : 0, waiting = 0;
	const char *what = rows->by_thread ? "thread" : rows->by_process ? "row" : "function";
	char pid[24] = "";

	for (size_t i = shown; i < rows->n; i++) {
		const struct cli_top_row *row = &rows->items[i];

		waiting += row->waits;
		if (row->waits && (!longest || row->self_ns > longest->self_ns))
			longest = row;
	}
	if (more)
		ip_print(out, "%zu more %s%s (--limit)", more, what, ip_plural(more));
	if (longest && longest->pid)
		snprintf(pid, sizeof(pid), " [%d]", longest->pid);
	if (longest && rows->interval_ns)
		ip_print(out, "; %zu that wait%s: %s%s %.1f%% self%s (--waits among)", waiting,
			 waiting == 1 ? "s" : "", longest->shown, pid,
			 100.0 * longest->self_ns / rows->interval_ns,
			 waiting == 1 ? "" : " and others");
	if (more)
		ip_print(out, "\n");
}

static void json_bounds(struct ip_json *j, const char *key, uint64_t from, uint64_t below)
{
	ip_json_array(j, key);
	ip_json_uint(j, NULL, from);
	ip_json_uint(j, NULL, below);
	ip_json_end_array(j);
}

/* The keys are those of functions, where they mean the same. */
static void json_thread(struct ip_json *j, const struct cli_top_row *r)
{
	ip_json_object(j, NULL);
	ip_json_int(j, "pid", r->pid);
	if (r->tid)
		ip_json_uint(j, "tid", r->tid);
	else
		ip_json_string(j, "tid", NULL);
	ip_json_string(j, "thread", r->thread);
	ip_json_uint(j, "calls", r->calls);
	ip_json_uint(j, "all_calls", r->all_calls);
	ip_json_double(j, "rate", r->rate);
	ip_json_uint(j, "self_ns", r->self_ns);
	ip_json_end_object(j);
}

/* The keys are those of iprobe wait. */
static void json_wait(struct ip_json *j, const struct cli_top_wait *w)
{
	const double percent = cli_top_wait_percent(w);

	ip_json_object(j, "wait");
	ip_json_uint(j, "elapsed_ns", w->elapsed_ns);
	ip_json_uint(j, "cpu_ns", w->cpu_ns);
	ip_json_uint(j, "waited_ns", w->waited_ns);
	ip_json_uint(j, "unknown_ns", w->unknown_ns);
	ip_json_uint(j, "idle_ns", w->idle_ns);
	if (percent >= 0)
		ip_json_double(j, "percent", percent);
	ip_json_uint(j, "open", w->open);
	ip_json_array(j, "for");
	for (size_t i = 0; i < w->nobjects; i++) {
		ip_json_object(j, NULL);
		ip_json_string(j, "kind", w->objects[i].kind);
		if (w->objects[i].name)
			ip_json_string(j, "object", w->objects[i].name);
		ip_json_uint(j, "ns", w->objects[i].ns);
		ip_json_uint(j, "idle_ns", w->objects[i].idle_ns);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_end_object(j);
}

static void json_row(struct ip_json *j, const struct cli_top_snapshot *s,
		     const struct cli_top_row *r)
{
	const struct ip_recording_function *f = &s->recording->functions[r->function];

	ip_json_object(j, NULL);
	ip_json_string(j, "function", r->name);
	cli_json_short(j, r->name, ip_names_short(s->names, r->function));
	ip_json_string(j, "module", ip_recording_module_name(s->recording, f));
	if (r->pid)
		ip_json_int(j, "pid", r->pid);
	ip_json_uint(j, "calls", r->calls);
	ip_json_uint(j, "all_calls", r->all_calls);
	ip_json_double(j, "rate", r->rate);
	if (r->tails)
		cli_tail_json_counted(j,
				      &(struct ip_count){.ended = r->timed,
							 .tailed = r->tailed,
							 .has_tailed = r->has_tailed},
				      true);
	if (r->has_self)
		ip_json_bool(j, "waits", r->waits);
	if (r->has_wait)
		json_wait(j, &r->wait);
	if (r->timed) {
		ip_json_uint(j, "total_ns", r->total_ns);
		if (r->has_self)
			ip_json_uint(j, "self_ns", r->self_ns);
		ip_json_uint(j, "avg_ns", r->avg_ns);
		ip_json_uint(j, "max_ns", r->max_ns);
		json_bounds(j, "p50_bounds_ns", r->p50_from, r->p50);
		json_bounds(j, "p99_bounds_ns", r->p99_from, r->p99);
	}
	ip_json_end_object(j);
}

static void json_processes(struct ip_json *j, const struct cli_top_options *o,
			   const struct cli_top_session *session)
{
	const struct cli_live_counts *c = cli_top_session_counts(session);
	_cleanup_free_ char *text = ip_service_choice_text(&o->choice);

	ip_json_string(j, "service", text);
	ip_json_array(j, "processes");
	for (size_t i = 0; i < c->n; i++) {
		const struct cli_live_process *p = &c->processes[i];

		if (!p->known)
			continue;
		ip_json_object(j, NULL);
		ip_json_int(j, "pid", p->pid);
		ip_json_bool(j, "joined", p->joined);
		ip_json_bool(j, "ended", p->ended);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

void cli_top_print_json(const struct cli_top_options *o, const struct cli_top_session *session,
			const struct cli_top_snapshot *s, const struct cli_top_rows *rows,
			uint64_t iteration)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	if (o->pid)
		ip_json_int(&j, "pid", o->pid);
	else
		json_processes(&j, o, session);
	ip_json_uint(&j, "iteration", iteration);
	ip_json_bool(&j, "joined", cli_top_session_is_joined(session));
	ip_json_uint(&j, "ts", ip_recording_since_start(s->recording, s->now->tsc));
	ip_json_uint(&j, "interval_ns", rows->interval_ns);
	if (rows->has_cpu)
		ip_json_uint(&j, "cpu_ns", rows->cpu_ns);
	if (rows->has_waits) {
		ip_json_object(&j, "kernel");
		ip_json_uint(&j, "lost", rows->kernel_lost);
		ip_json_uint(&j, "kept_ns", rows->kept_ns);
		ip_json_uint(&j, "without", s->kernel->without);
		ip_json_end_object(&j);
	}
	ip_json_uint(&j, "measured", rows->functions);
	ip_json_uint(&j, "logged", rows->logged);
	ip_json_uint(&j, "silent", rows->silent.n);
	cli_json_name_list(&j, "silent_names", &rows->silent);
	if (!rows->by_thread)
		ip_json_uint(&j, "waits_ns", rows->waits_ns);
	ip_json_uint(&j, "more", o->limit && o->limit < rows->n ? rows->n - o->limit : 0);
	ip_json_uint(&j, "calls", rows->calls);
	ip_json_array(&j, rows->by_thread ? "threads" : "functions");
	for (size_t i = 0; i < rows->n && (!o->limit || i < o->limit); i++)
		if (rows->by_thread)
			json_thread(&j, &rows->items[i]);
		else
			json_row(&j, s, &rows->items[i]);
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}
