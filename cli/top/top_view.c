/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe top on a terminal. It draws the screen each time that figures come in or a key is
 * pressed.
 *
 *   line 1   whose session it is, of which process; which options are on
 *   line 2   sums
 *   line 3   what a key has done, what the session prints, or the line that is being typed
 *   line 4   titles of the columns
 *   ...      functions; one is marked
 *   last     the keys
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/screen/screen.h"
#include "cli/screen/screen_line.h"
#include "cli/top/top.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/print.h"
#include "common/units.h"
#include "common/utf8.h"
#include "hotpatcher/process/callees.h"

#define HEAD_LINES 4u
#define LEAST_NS   100000000ull /* the shortest delay that keys can set */
#define MOST_NS	   60000000000ull
#define NO_ROW	   SIZE_MAX

static const char *const help[] = {
	"Up Down PgUp PgDn Home End, k j   choose a function",
	"s S       sort by the next column, the one before (it has a *); > < too",
	"r         the other way round",
	"/         show only what a selection means, or names with a word in them",
	"w         functions that wait: below the others, hidden, among the others",
	"t         figures of the last interval, or since the session began",
	"T         threads in the place of functions, and back",
	"p, space  pause the picture, and go on; the session goes on all the time",
	"+ -       half, double the time between pictures",
	"d         drop: the function's probes become NOPs again",
	"c         callees: add the functions that it calls directly",
	"a         add: functions by a selection (-f of iprobe attach)",
	"h ?       this",
	"q Ctrl-C  quit; every byte is put back, unless the session was there before",
	"Ctrl-Z    to the shell; the session goes on (fg comes back)",
};

enum mode { ROWS, HELP, FILTER, ADD };

struct view {
	const struct cli_top_options *options;
	struct cli_top_session *session;
	struct cli_top_snapshot snapshot; /* valid where there is true */
	bool there;
	struct cli_top_rows rows;
	uint64_t delay_ns, next_ns, end_ns;
	enum cli_top_column sort;
	enum cli_top_waits waits;
	bool reverse, since_start, by_thread, paused, quit;
	enum mode mode;
	char typed[256], filter[256]; /* filter: as it was typed; "": none */
	char message[512];
	char *chosen; /* linker name of the marked function, text of a thread; NULL: the first row
		       */
	pid_t chosen_pid;
	size_t first; /* first row on the screen */
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* ---- what is shown ---- */

/* Returns the wanted functions. A word without special characters is searched for anywhere in a
 * name. */
static bool *wanted(struct view *v, size_t *ret_n)
{
	_cleanup_free_ char *text = NULL;
	const char *selection = *v->filter ? v->filter : v->options->functions;
	bool is_own = !*v->filter && !cli_top_session_joined(v->session);

	*ret_n = 1;
	if (!selection || is_own || v->by_thread)
		return NULL;
	if (*v->filter && !strpbrk(selection, "*?[!:@,"))
		text = asprintf(&text, "*%s*", selection) < 0 ? NULL : text;
	return cli_top_select(v->snapshot.recording, text ? text : selection, ret_n);
}

/* Of a thread, which has none, its text. */
static const char *linker_name(const struct view *v, size_t row)
{
	if (v->rows.items[row].is_thread)
		return v->rows.items[row].name;
	return v->snapshot.recording->functions[v->rows.items[row].function].linker_name;
}

static void choose(struct view *v, size_t row)
{
	if (!v->rows.n)
		return;
	free(v->chosen);
	row = row < v->rows.n ? row : v->rows.n - 1;
	v->chosen = strdup(linker_name(v, row));
	v->chosen_pid = v->rows.items[row].pid;
}

static void make_rows(struct view *v)
{
	_cleanup_free_ bool *selected = NULL;
	struct cli_top_order order = {.by_process = v->options->by_process,
				      .by_thread = v->by_thread,
				      .filter = v->filter,
				      .since_start = v->since_start,
				      .sort = v->sort,
				      .waits = v->waits,
				      .reverse = v->reverse};
	struct cli_top_rows rows;
	size_t n;

	if (!v->there)
		return;
	selected = wanted(v, &n);
	if (!selected && n != 1) {
		snprintf(v->message, sizeof(v->message), "%s", ip_error_message());
		*v->filter = '\0';
		n = 1;
	}
	order.wanted = selected;
	if (cli_top_rows_make(&v->snapshot, cli_top_session_counts(v->session), &order, &rows) <
	    0) {
		snprintf(v->message, sizeof(v->message), "%s", ip_error_message());
		return;
	}
	cli_top_rows_clear(&v->rows);
	v->rows = rows;
	if (!v->chosen)
		choose(v, 0);
}

/* Returns the row of the marked function; NO_ROW where it is not shown. A function that was
 * dropped must not pass its mark on to another one. */
static size_t chosen_row(const struct view *v)
{
	for (size_t i = 0; v->chosen && i < v->rows.n; i++)
		if (!strcmp(linker_name(v, i), v->chosen) && v->rows.items[i].pid == v->chosen_pid)
			return i;
	return NO_ROW;
}

/* Returns "luac" for "/usr/bin/luac -p x.lua"; NULL: not known. The caller frees it. */
static char *program_of(const struct ip_recording *s)
{
	const char *command = s->command ? s->command : "", *end = strchrnul(command, ' ');
	const char *slash = memrchr(command, '/', end - command),
		   *name = slash ? slash + 1 : command;

	return name < end ? strndup(name, end - name) : NULL;
}

/* Prints of which processes the figures are. */
static void print_processes(FILE *out, const struct view *v)
{
	const struct cli_live_counts *c = cli_top_session_counts(v->session);
	_cleanup_free_ char *text = NULL;
	size_t known = 0, live = 0;

	if (v->options->pid) {
		_cleanup_free_ char *name = program_of(v->snapshot.recording);

		ip_print(out, "pid %d", v->options->pid);
		if (name)
			ip_print(out, " (%s)", name);
		return;
	}
	text = ip_service_choice_text(&v->options->choice);
	for (size_t i = 0; i < c->n; i++) {
		known += c->processes[i].known;
		live += c->processes[i].known && !c->processes[i].ended;
	}
	ip_print(out, "%s, %zu process%s", text ? text : "", known, known == 1 ? "" : "es");
	if (live < known)
		ip_print(out, " (%zu ended)", known - live);
}

static void print_sessions(FILE *out, const struct view *v)
{
	const size_t joined = cli_top_session_joined(v->session);

	if (cli_top_session_is_joined(v->session))
		ip_print(out,
			 v->options->pid ? "a session that was there" : "sessions that were there");
	else if (joined)
		ip_print(out, "%zu of the sessions were there", joined);
	else
		ip_print(out, v->options->pid ? "own session" : "own sessions");
}

static void print_title(FILE *out, const struct view *v)
{
	char delay[16];

	ip_print(out, "iprobe top: ");
	print_processes(out, v);
	ip_print(out, ", ");
	print_sessions(out, v);
	ip_print(out, ", every %s%s%s%s", ip_format_ns(v->delay_ns, delay),
		 v->since_start ? ", since its beginning" : "", v->paused ? ", PAUSED" : "",
		 v->reverse ? ", reversed" : "");
	if (*v->filter) {
		ip_print(out, ", only ");
		ip_print(out, "%s", v->filter);
	}
	ip_print(out, "\n");
}

static void print_rows(FILE *out, struct view *v, size_t lines, size_t columns)
{
	size_t most = lines > HEAD_LINES + 1 ? lines - HEAD_LINES - 1 : 1, room = most,
	       row = chosen_row(v), shown;

	if (v->options->limit && v->options->limit < room)
		room = v->options->limit;
	if (row != NO_ROW && row < v->first)
		v->first = row;
	if (row != NO_ROW && row >= v->first + room)
		v->first = row - room + 1;
	if (v->first + room > v->rows.n)
		v->first = v->rows.n > room ? v->rows.n - room : 0;
	ip_print(out, CLI_SCREEN_BOLD);
	cli_top_print_head(out, columns, v->sort, &v->rows);
	ip_print(out, "\n");
	for (shown = 0; v->first + shown < v->rows.n && shown < room; shown++) {
		if (v->first + shown == row)
			ip_print(out, CLI_SCREEN_REVERSE);
		cli_top_print_row(out, columns, &v->rows, &v->rows.items[v->first + shown]);
		ip_print(out, "\n");
	}
	for (; shown < most; shown++)
		ip_print(out, "\n");
}

static int show(struct view *v)
{
	_cleanup_free_ char *text = NULL;
	size_t size, lines, columns;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return ip_error("out of memory");
	cli_screen_size(&lines, &columns);
	print_title(out, v);
	if (v->there)
		cli_top_print_sums(out, &v->rows);
	else
		ip_print(out, "measuring");
	ip_print(out, "\n");
	if (v->mode == FILTER || v->mode == ADD) {
		ip_print(out, "%s", v->mode == FILTER ? "show only: " : "add: ");
		ip_print(out, "%s", v->typed);
		ip_print(out, "_\n");
	} else {
		ip_print(out, "%s", v->message);
		ip_print(out, "\n");
	}
	if (v->mode == HELP) {
		ip_print(out, "\n");
		for (size_t i = 0; i < sizeof(help) / sizeof(*help); i++)
			ip_print(out, "  %s\n", help[i]);
	} else {
		print_rows(out, v, lines, columns);
		ip_print(out,
			 "q quit  ? help  s sort  / filter  t time  T threads  w waits  d drop  "
			 "c callees  a add");
	}
	if (fclose(out) != 0)
		return ip_error("out of memory");
	return cli_screen_show(text, size);
}

/* ---- what keys do ---- */

/* What a change has done in all processes. */
struct changed {
	size_t functions, sites, stops, asked, failed;
	bool removed;
	uint64_t longest_ns;
};

/* Asks the session of a process for a change. */
static void change_one(struct view *v, pid_t pid, const char *selection, struct changed *ret)
{
	struct ip_session_summary s;
	size_t functions;
	uint64_t longest;

	ret->asked++;
	if (ip_session_ask_change(pid, 0, selection, v->options->max_stop_ns, &s) < 0) {
		if (!ret->failed++)
			snprintf(v->message, sizeof(v->message), "%s", ip_error_message());
		return;
	}
	functions = s.change.functions_added + s.change.functions_removed;
	if (functions > ret->functions) /* mostly, all have the same functions */
		ret->functions = functions;
	ret->sites += s.change.sites_added + s.change.sites_removed;
	ret->stops += s.stops.n;
	ret->removed |= s.change.sites_removed;
	longest = ip_stop_log_longest(&s.stops);
	if (longest > ret->longest_ns)
		ret->longest_ns = longest;
	free(s.change.dir);
	free(s.change.unused);
}

/* Tells the result. Where a process has refused, the message begins with its reason. */
static void tell_change(struct view *v, const struct changed *c, const char *what)
{
	char stop[16], processes[64] = "", failed[80] = "";

	if (c->failed == c->asked && c->asked)
		return;
	if (c->asked > 1)
		snprintf(processes, sizeof(processes), " in %zu process%s", c->asked - c->failed,
			 c->asked - c->failed == 1 ? "" : "es");
	if (c->failed)
		snprintf(failed, sizeof(failed), "; %zu refused", c->failed);
	if (!c->stops)
		snprintf(v->message, sizeof(v->message), "%s: nothing to do, it is so already%s",
			 what, failed);
	else
		snprintf(v->message, sizeof(v->message),
			 "%s: %zu function%s (%zu site%s) %s%s; stopped for %s%s", what,
			 c->functions, ip_plural(c->functions), c->sites, ip_plural(c->sites),
			 c->removed ? "are NOPs again" : "added", processes,
			 ip_format_ns(c->longest_ns, stop), failed);
}

/* Asks the sessions of all processes for a change. The message tells the result. */
static void change(struct view *v, const char *selection, const char *what)
{
	const struct cli_live_counts *c = cli_top_session_counts(v->session);
	struct changed sum = {0};

	for (size_t i = 0; i < c->n; i++)
		if (c->processes[i].known && !c->processes[i].ended)
			change_one(v, c->processes[i].pid, selection, &sum);
	tell_change(v, &sum, what);
}

static bool is_chosen(struct view *v, size_t row)
{
	if (row == NO_ROW)
		snprintf(v->message, sizeof(v->message),
			 "no function is chosen: Up and Down choose one");
	else if (v->by_thread)
		snprintf(v->message, sizeof(v->message),
			 "a thread is chosen: T goes back to the functions");
	return row != NO_ROW && !v->by_thread;
}

static void drop(struct view *v)
{
	size_t row = chosen_row(v);
	_cleanup_free_ char *selection = NULL, *item = NULL, *name = NULL;

	if (!is_chosen(v, row))
		return;
	/* the function with its parts */
	item = ip_selection_quote(linker_name(v, row), ip_base_name_length(linker_name(v, row)));
	if (!item || asprintf(&selection, "!%s", item) < 0) {
		selection = NULL;
		return;
	}
	name = strdup(v->rows.items[row].name);
	change(v, selection, name ? name : selection);
}

static void add_callees(struct view *v)
{
	const struct cli_live_counts *c = cli_top_session_counts(v->session);
	_cleanup_free_ char *what = NULL;
	size_t row = chosen_row(v);
	struct changed sum = {0};

	if (!is_chosen(v, row))
		return;
	if (asprintf(&what, "callees of %s", v->rows.items[row].name) < 0) {
		what = NULL;
		return;
	}
	/* each process may have other libraries */
	for (size_t i = 0; i < c->n; i++) {
		_cleanup_free_ char *selection = NULL;
		struct ip_callees callees;

		if (!c->processes[i].known || c->processes[i].ended)
			continue;
		if (ip_callees_find(c->processes[i].pid, linker_name(v, row), &callees) == 0)
			selection = ip_callees_selection(&callees);
		if (!selection)
			snprintf(v->message, sizeof(v->message), "%s", ip_error_message());
		else if (!callees.n)
			snprintf(v->message, sizeof(v->message),
				 "%s: calls no function with probes directly (calls through "
				 "pointers cannot be seen)",
				 v->rows.items[row].name);
		else
			change_one(v, c->processes[i].pid, selection, &sum);
		ip_callees_clear(&callees);
	}
	if (sum.asked)
		tell_change(v, &sum, what);
}

static void step(struct view *v, int by)
{
	v->sort = (v->sort + CLI_TOP_COLUMNS + by) % CLI_TOP_COLUMNS;
	if (v->sort == CLI_TOP_WAIT && !v->options->kernel.groups) /* there is no such column */
		v->sort += by < 0 ? -1 : 1;
	v->first = 0;
	free(v->chosen);
	v->chosen = NULL;
	make_rows(v);
}

static void set_delay(struct view *v, uint64_t ns)
{
	v->delay_ns = ns < LEAST_NS ? LEAST_NS : ns > MOST_NS ? MOST_NS : ns;
	v->next_ns = now_ns() + v->delay_ns;
}

static void typed(struct view *v, int key)
{
	enum cli_screen_line done = cli_screen_line_key(v->typed, sizeof(v->typed), key);

	if (done == CLI_SCREEN_LINE_OPEN)
		return;
	if (done == CLI_SCREEN_LINE_DONE && v->mode == FILTER) {
		memcpy(v->filter, v->typed, sizeof(v->filter));
		make_rows(v);
	} else if (done == CLI_SCREEN_LINE_DONE && *v->typed) {
		change(v, v->typed, v->typed);
	}
	v->mode = ROWS;
}

static void move(struct view *v, int key)
{
	size_t row = chosen_row(v), lines, columns, page;

	cli_screen_size(&lines, &columns);
	page = lines > HEAD_LINES + 2 ? lines - HEAD_LINES - 2 : 1;
	if (row == NO_ROW)
		choose(v, v->first);
	else if (key == CLI_KEY_UP || key == 'k')
		choose(v, row ? row - 1 : 0);
	else if (key == CLI_KEY_DOWN || key == 'j')
		choose(v, row + 1);
	else if (key == CLI_KEY_PAGE_UP)
		choose(v, row > page ? row - page : 0);
	else if (key == CLI_KEY_PAGE_DOWN)
		choose(v, row + page);
	else
		choose(v, key == CLI_KEY_HOME ? 0 : v->rows.n - 1);
}

static void compressor(struct view *v, int key)
{
	if (key == CLI_KEY_END_OF_INPUT) {
		v->quit = true;
		return;
	}
	if (v->mode == FILTER || v->mode == ADD) {
		typed(v, key);
		return;
	}
	if (v->mode == HELP) {
		v->mode = ROWS;
		return;
	}
	*v->message = '\0';
	switch (key) {
	case 'q':
		v->quit = true;
		break;
	case 's':
	case '>':
		step(v, 1);
		break;
	case 'S':
	case '<':
		step(v, -1);
		break;
	case 'r':
		v->reverse = !v->reverse;
		make_rows(v);
		break;
	case '/':
	case 'a':
		v->mode = key == 'a' ? ADD : FILTER;
		*v->typed = '\0';
		break;
	case 'w':
		v->waits = (v->waits + 1) % 3;
		snprintf(v->message, sizeof(v->message), "functions that wait: %s",
			 v->waits == CLI_TOP_WAITS_BELOW  ? "below the others (order by self)"
			 : v->waits == CLI_TOP_WAITS_HIDE ? "hidden"
							  : "among the others");
		make_rows(v);
		break;
	case 't':
		v->since_start = !v->since_start;
		make_rows(v);
		break;
	case 'T':
		v->by_thread = !v->by_thread;
		*v->filter = '\0';
		step(v, 0);
		break;
	case 'p':
	case ' ':
		v->paused = !v->paused;
		break;
	case '+':
		set_delay(v, v->delay_ns / 2);
		break;
	case '-':
		set_delay(v, v->delay_ns * 2);
		break;
	case 'd':
		drop(v);
		break;
	case 'c':
		add_callees(v);
		break;
	case 'h':
	case '?':
		v->mode = HELP;
		break;
	case CLI_KEY_UP:
	case CLI_KEY_DOWN:
	case CLI_KEY_PAGE_UP:
	case CLI_KEY_PAGE_DOWN:
	case CLI_KEY_HOME:
	case CLI_KEY_END:
	case 'j':
	case 'k':
		move(v, key);
		break;
	default:
		break;
	}
}

/* ---- the loop ---- */

/* Reads a snapshot. Returns 1; 0 where the session has ended; -1 with an error. */
static int look(struct view *v)
{
	int done;

	v->next_ns = now_ns() + v->delay_ns;
	if (v->paused)
		return !cli_top_session_has_ended(v->session);
	done = cli_top_session_read(v->session, &v->snapshot);
	if (done <= 0)
		return done;
	v->there = true;
	make_rows(v);
	return 1;
}

static int run(struct view *v)
{
	uint64_t iterations = v->options->iterations;
	int done;

	v->next_ns = now_ns() + v->delay_ns;
	while (!v->quit && !ip_interrupted) {
		const char *said = cli_top_session_said(v->session);
		const char *without = cli_top_session_without_kernel(v->session);
		uint64_t now;
		int key;

		if (said)
			snprintf(v->message, sizeof(v->message), "%s", said);
		if (without)
			snprintf(v->message, sizeof(v->message), "%s", without);
		if (show(v) < 0)
			return -1;
		key = cli_screen_key(v->end_ns && v->end_ns < v->next_ns ? v->end_ns : v->next_ns,
				     cli_top_session_fd(v->session));
		if (key && key != CLI_KEY_RESIZED)
			compressor(v, key);
		if (cli_top_session_has_ended(v->session))
			return 0;
		now = now_ns();
		if (v->end_ns && now >= v->end_ns)
			return 0;
		if (now < v->next_ns)
			continue;
		done = look(v);
		if (done <= 0 || (iterations && !--iterations))
			return done;
	}
	return 0;
}

int cli_top_view(const struct cli_top_options *options, struct cli_top_session *session,
		 const struct cli_top_snapshot *first)
{
	struct view v = {.options = options,
			 .session = session,
			 .snapshot = *first,
			 .delay_ns = options->delay_ns,
			 .by_thread = options->by_thread,
			 .sort = options->sort,
			 .waits = options->waits};
	int done;

	snprintf(v.message, sizeof(v.message), "%s", options->no_kernel);
	if (options->duration_ns)
		v.end_ns = now_ns() + options->duration_ns;
	if (cli_screen_open("--batch does without") < 0)
		return -1;
	done = run(&v);
	cli_screen_close();
	cli_top_rows_clear(&v.rows);
	free(v.chosen);
	return done < 0 ? -1 : 0;
}
