/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of iprobe tui: it draws the screen after each key, and handles the keys that mean the
 * same in all views.
 *
 *   line 1   which trace, of which program; events, losses, time
 *   line 2   the views; the one that is on stands out
 *   line 3   what a key has done, or the line that is being typed
 *   ...      the view
 *   last     the keys
 */
#include "cli/tui/tui.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/elide.h"
#include "cli/screen/screen.h"
#include "cli/screen/screen_line.h"
#include "cli/trace_args.h"
#include "cli/tui/tui_waits.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/names/short_name.h"
#include "common/print.h"
#include "common/units.h"

#define TAIL	    "  (until its tail call)"
#define TAIL_SHORT  " [tail]"
#define NAME_LEAST  24u
#define FRAME_LINES (CLI_TUI_HEAD_LINES + 1) /* and the keys */
#define FOREVER	    UINT64_MAX
/* Progress is shown of readings that take longer than FIRST_NS. */
#define FIRST_NS 200000000ull
#define EVERY_NS 100000000ull

static const struct cli_tui_view_ops *const views[CLI_TUI_VIEWS] = {
	[CLI_TUI_REPORT] = &cli_tui_report,	[CLI_TUI_GRAPH] = &cli_tui_graph,
	[CLI_TUI_TIMELINE] = &cli_tui_timeline, [CLI_TUI_CALLERS] = &cli_tui_callers,
	[CLI_TUI_THREADS] = &cli_tui_threads,
};

static const char *const help[] = {
	"1 2 3 4 5 report, graph, timeline, callers, threads; Tab the next one",
	"c         callers and callees of the chosen function",
	"g         the chosen function in the graph",
	"x         the slowest call of the chosen function, in the timeline",
	"w         what the chosen function waits for (of a trace with events of the kernel)",
	"/         search: names with a word in them, or what a selection (-f) means",
	"h ?       this",
	"q Ctrl-C  quit",
	"Ctrl-Z    to the shell (fg comes back)",
};

void cli_tui_say(struct cli_tui *tui, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(tui->message, sizeof(tui->message), format, args);
	va_end(args);
}

void cli_tui_say_error(struct cli_tui *tui)
{
	cli_tui_say(tui, "%s", ip_error_message());
}

/* ---- the picture ---- */

/* Prints "luac" for "/usr/bin/luac -p x.lua". */
static void print_program(FILE *out, const char *command)
{
	const char *end = strchrnul(command, ' '), *slash = memrchr(command, '/', end - command),
		   *name = slash ? slash + 1 : command;

	if (name < end)
		ip_print(out, " (%.*s)", (int)(end - name), name);
}

static void print_title(struct cli_tui *tui, FILE *out)
{
	const struct ip_trace_reader *t = tui->trace;
	const struct ip_recording *s = t->session;
	char events[32], lost[32], threads[32], duration[64];

	ip_print(out, "iprobe tui: %s", t->dir);
	print_program(out, s->command ? s->command : "");
	if (tui->report.stats)
		ip_print(out, ", %s events", ip_format_count(tui->report.stats->events, events));
	if (t->lost)
		ip_print(out, ", %s LOST", ip_format_count(t->lost, lost));
	if (t->ndamages || t->missing || s->invalid)
		ip_print(out, ", DAMAGED");
	if (!s->ended)
		ip_print(out, ", cut off");
	ip_print(out, ", %s thread%s, %s\n", ip_format_count(t->threads, threads),
		 t->threads == 1 ? "" : "s", cli_reader_duration(t, duration));
}

static void print_views(const struct cli_tui *tui, FILE *out)
{
	for (size_t i = 0; i < CLI_TUI_VIEWS; i++) {
		bool on = i == tui->view;

		ip_print(out, "%s", i ? " " : "");
		if (on)
			ip_print(out, CLI_SCREEN_REVERSE);
		ip_print(out, "%s%zu %s%s", on ? "[" : " ", i + 1, views[i]->name, on ? "]" : " ");
		if (on)
			ip_print(out, CLI_SCREEN_PLAIN);
	}
	ip_print(out, "\n");
}

static void print_message(const struct cli_tui *tui, FILE *out)
{
	if (tui->typing)
		ip_print(out, "search: %s_%s%s\n", tui->typed, *tui->message ? "   " : "",
			 tui->message);
	else
		ip_print(out, "%s\n", tui->message);
}

static size_t view_lines(void)
{
	size_t lines, columns;

	cli_screen_size(&lines, &columns);
	return lines > FRAME_LINES + 1 ? lines - FRAME_LINES : 1;
}

/* Prints the keys in so many lines; where there are more keys, the last ones are cut off. */
static void print_help(const struct cli_tui *tui, FILE *out, size_t lines)
{
	const char *const *own = views[tui->view]->help;
	size_t n = 0;

	for (size_t i = 0; own[i] && n < lines; i++, n++)
		ip_print(out, "  %s\n", own[i]);
	for (size_t i = 0; i < sizeof(help) / sizeof(*help) && n < lines; i++, n++)
		ip_print(out, "  %s\n", help[i]);
	for (; n < lines; n++)
		ip_print(out, "\n");
}

static int show(struct cli_tui *tui)
{
	const struct cli_tui_view_ops *view = views[tui->view];
	_cleanup_free_ char *text = NULL;
	size_t size, lines, columns;
	FILE *out;

	cli_screen_size(&lines, &columns);
	if (view->prepare && view->prepare(tui, view_lines(), columns) < 0)
		cli_tui_say_error(tui);
	out = open_memstream(&text, &size);
	if (!out)
		return ip_error("out of memory");
	print_title(tui, out);
	print_views(tui, out);
	print_message(tui, out);
	if (tui->help)
		print_help(tui, out, view_lines());
	else if (tui->all_values)
		cli_timeline_draw_values(tui, out, view_lines(), columns);
	else if (tui->all_waits)
		cli_tui_waits_draw(tui, out, view_lines(), columns);
	else
		view->draw(tui, out, view_lines(), columns);
	ip_print(out, "%s",
		 tui->help || tui->all_values || tui->all_waits ? "any key: back" : view->keys);
	if (fclose(out) != 0)
		return ip_error("out of memory");
	return cli_screen_show(text, size);
}

void cli_tui_print_function(const struct cli_tui *tui, FILE *out, uint32_t function, size_t width)
{
	_cleanup_free_ char *name = strdup(ip_names_text(tui->report.names, function));
	const char *note = !tui->tree->until_tail[function]    ? ""
			   : width < NAME_LEAST + strlen(TAIL) ? TAIL_SHORT
							       : TAIL;

	if (!name)
		return;
	cli_fit_name(name, width > strlen(note) + 3 ? width - strlen(note) : 3);
	ip_print(out, "%s%s", name, note);
}

/* ---- readings ---- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void show_progress(struct cli_tui *tui)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	print_title(tui, out);
	ip_print(out, "\n%s: %.0f %%   (q: give up)\n", tui->reading,
		 tui->all_packets ? 100.0 * tui->packets / tui->all_packets : 0);
	if (fclose(out) == 0)
		cli_screen_show(text, size);
}

static int on_packet(void *context, const struct ip_packet *packet)
{
	struct cli_tui *tui = context;
	uint64_t now;
	int key;

	if (!tui->reading)
		return 0;
	tui->packets += tui->packets < tui->all_packets;
	if (tui->packets % 16 && !ip_interrupted)
		return 0;
	now = now_ns();
	if (!ip_interrupted && (now - tui->since_ns < FIRST_NS || now - tui->shown_ns < EVERY_NS))
		return 0;
	tui->shown_ns = now;
	key = ip_interrupted ? 'q' : cli_screen_key(0, -1);
	if (key == 'q' || key == CLI_KEY_ESCAPE || key == CLI_KEY_END_OF_INPUT || ip_interrupted) {
		tui->given_up = true;
		tui->nahead = 0;
		return ip_error("given up: %s", tui->reading);
	}
	if (key && key != CLI_KEY_RESIZED && tui->nahead < sizeof(tui->ahead) / sizeof(*tui->ahead))
		tui->ahead[tui->nahead++] = key;
	show_progress(tui);
	return 0;
}

void cli_tui_reading(struct cli_tui *tui, const char *what, uint64_t packets)
{
	tui->reading = what;
	tui->packets = 0;
	tui->all_packets = packets;
	for (size_t i = 0; !packets && i < tui->trace->nruns; i++)
		tui->all_packets += tui->trace->runs[i].packets;
	tui->since_ns = now_ns();
	tui->given_up = false;
}

int cli_tui_read(struct cli_tui *tui, int done)
{
	tui->reading = NULL;
	return done;
}

int cli_tui_need_tree(struct cli_tui *tui)
{
	const struct ip_calltree_options options = {
		.roots = tui->options->report.filter.functions ? tui->selected : NULL};

	if (tui->tree)
		return 0;
	cli_tui_reading(tui, "reading the tree of calls", 0);
	if (cli_tui_read(tui, ip_calltree_collect(tui->trace, &options, &tui->tree)) < 0)
		return -1;
	return ip_calltree_sort(tui->tree, IP_BY_TOTAL);
}

int cli_tui_need_callers_tree(struct cli_tui *tui)
{
	if (tui->callers_tree)
		return 0;
	if (cli_tui_need_tree(tui) < 0)
		return -1;
	tui->callers_tree = ip_calltree_invert(tui->tree, tui->selected);
	return tui->callers_tree ? ip_calltree_sort(tui->callers_tree, IP_BY_SELF) : -1;
}

int cli_tui_need_thread_tree(struct cli_tui *tui)
{
	struct ip_calltree_options options = {
		.roots = tui->options->report.filter.functions ? tui->selected : NULL};

	if (tui->thread_tree)
		return 0;
	/* names of functions tell where times end, for which the first tree is needed */
	if (cli_tui_need_tree(tui) < 0)
		return -1;
	if (!tui->threads && ip_tree_threads_create(tui->trace, false, &tui->threads) < 0)
		return -1;
	options.threads = tui->threads;
	cli_tui_reading(tui, "reading the tree of calls by thread", 0);
	if (cli_tui_read(tui, ip_calltree_collect(tui->trace, &options, &tui->thread_tree)) < 0)
		return -1;
	return ip_calltree_sort(tui->thread_tree, IP_BY_TOTAL);
}

/* ---- what keys do ---- */

/* Takes out the lists of template arguments that say nothing, "<...>" and "<>", in place. */
static void drop_elided(char *text)
{
	char *out = text;

	while (*text) {
		const size_t skip = !strncmp(text, "<...>", 5) ? 5
				    : !strncmp(text, "<>", 2)  ? 2
							       : 0;

		text += skip;
		if (!skip)
			*out++ = *text++;
	}
	*out = '\0';
}

/* Whether the name without its template arguments contains the text. */
static bool contains_bare(const char *name, const char *text)
{
	_cleanup_free_ char *bare = strchr(name, '<') ? ip_name_without_templates(name) : NULL;

	return bare && strcasestr(bare, text);
}

bool *cli_tui_match(const struct cli_tui *tui, const char *text, size_t *ret_n)
{
	_cleanup_free_ char *bare = NULL;
	const struct ip_recording *s = tui->trace->session;
	struct ip_selection *selection;
	bool *found;

	*ret_n = 0;
	if (strpbrk(text, "*?[!:@,")) {
		if (ip_selection_parse(text, &selection) < 0)
			return NULL;
		found = cli_match_functions(s, selection, ret_n);
		ip_selection_destroy(selection);
		return found;
	}
	found = calloc(s->nfunctions, sizeof(*found));
	bare = strdup(text);
	if (!found || !bare) {
		free(found);
		ip_error("out of memory");
		return NULL;
	}
	drop_elided(bare);
	for (size_t i = 0; i < s->nfunctions; i++) {
		found[i] = strcasestr(ip_names_text(tui->report.names, i), text) ||
			   strcasestr(ip_names_get(tui->report.names, i), text) ||
			   (*bare && contains_bare(ip_names_short(tui->report.names, i), bare));
		*ret_n += found[i];
	}
	return found;
}

bool cli_tui_go(struct cli_tui *tui, enum cli_tui_view view)
{
	if (!tui->views[view] && views[view]->open(tui) < 0) {
		cli_tui_say_error(tui);
		views[view]->close(tui);
		tui->views[view] = NULL;
		return false;
	}
	tui->view = view;
	return true;
}

void cli_tui_go_slowest(struct cli_tui *tui, uint32_t function)
{
	const struct ip_longest_call *call;

	if (!tui->slowest) {
		cli_tui_reading(tui, "looking for the slowest calls", 0);
		if (cli_tui_read(tui, ip_longest_find(tui->trace, &tui->slowest)) < 0) {
			cli_tui_say_error(tui);
			return;
		}
	}
	call = &tui->slowest[function];
	if (call->run == IP_NO_RUN)
		cli_tui_say(tui, "no call of the function has ended in this trace");
	else
		cli_tui_go_run(tui, call->run, call, function);
}

/* Handles c, g, w and x, which are about the chosen function. Returns whether the key was one. */
static bool about_function(struct cli_tui *tui, int key)
{
	uint32_t function;

	if (key != 'c' && key != 'g' && key != 'w' && key != 'x')
		return false;
	function = views[tui->view]->chosen(tui);
	if (function == CLI_TUI_NO_FUNCTION)
		cli_tui_say(tui, "no function is chosen");
	else if (key == 'c')
		cli_tui_go_callers(tui, function);
	else if (key == 'g')
		cli_tui_go_graph(tui, function);
	else if (key == 'w')
		cli_tui_waits_show(tui, function);
	else
		cli_tui_go_slowest(tui, function);
	return true;
}

static void typed(struct cli_tui *tui, int key)
{
	enum cli_screen_line line = cli_screen_line_key(tui->typed, sizeof(tui->typed), key);
	enum cli_tui_search how = line == CLI_SCREEN_LINE_DONE	 ? CLI_TUI_TYPED
				  : line == CLI_SCREEN_LINE_LEFT ? CLI_TUI_LEFT
								 : CLI_TUI_TYPING;

	*tui->message = '\0';
	tui->typing = line == CLI_SCREEN_LINE_OPEN;
	views[tui->view]->search(tui, tui->typed, how);
}

static void handle(struct cli_tui *tui, int key)
{
	if (key == CLI_KEY_END_OF_INPUT) {
		tui->quit = true;
		return;
	}
	if (tui->typing) {
		typed(tui, key);
		return;
	}
	if (tui->help || tui->all_values || tui->all_waits) {
		tui->help = tui->all_values = tui->all_waits = false;
		return;
	}
	*tui->message = '\0';
	if (key >= '1' && key < '1' + CLI_TUI_VIEWS) {
		cli_tui_go(tui, key - '1');
	} else if (key == '\t') {
		cli_tui_go(tui, (tui->view + 1) % CLI_TUI_VIEWS);
	} else if (key == 'q') {
		tui->quit = true;
	} else if (key == 'h' || key == '?') {
		tui->help = true;
	} else if (key == '/') {
		tui->typing = true;
		*tui->typed = '\0';
		views[tui->view]->search(tui, "", CLI_TUI_TYPING);
	} else if (!about_function(tui, key)) {
		views[tui->view]->key(tui, key, view_lines());
	}
}

/* ---- from begin to end ---- */

static bool has_colours(void)
{
	const char *term = getenv("TERM"), *none = getenv("NO_COLOR");

	if ((none && *none) || !term || !*term)
		return false;
	return strcmp(term, "dumb") && strncmp(term, "vt1", 3) && strncmp(term, "vt2", 3) &&
	       !strstr(term, "-m");
}

static int load(struct cli_tui *tui)
{
	struct ip_trace_reader *trace = tui->trace;

	trace->on_packet = on_packet;
	trace->on_packet_context = tui;
	cli_tui_reading(tui, "reading the trace", 0);
	if (cli_tui_read(tui, cli_report_load_open(trace, &tui->options->report, &tui->report)) < 0)
		return -1;
	if (!tui->report.stats->events && trace->session->nno_events)
		cli_tui_say(tui, "no events: %s", trace->session->no_events[0].text);
	return 0;
}

/* Returns the next key: first those that were pressed during a reading. */
static int next_key(struct cli_tui *tui)
{
	int key;

	if (!tui->nahead)
		return cli_screen_key(FOREVER, -1);
	key = tui->ahead[0];
	tui->nahead--;
	memmove(tui->ahead, tui->ahead + 1, tui->nahead * sizeof(*tui->ahead));
	return key;
}

static int loop(struct cli_tui *tui)
{
	if (!cli_tui_go(tui, tui->options->view) && !cli_tui_go(tui, CLI_TUI_REPORT))
		return -1;
	while (!tui->quit && !ip_interrupted) {
		int key;

		if (show(tui) < 0)
			return -1;
		key = next_key(tui);
		if (key && key != CLI_KEY_RESIZED)
			handle(tui, key);
	}
	return 0;
}

int cli_tui_run(struct ip_trace_reader *trace, const struct cli_tui_options *options)
{
	struct cli_tui tui = {.options = options,
			      .trace = trace,
			      .utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8"),
			      .colours = has_colours()};
	int done;

	/* it may warn: the screen comes later */
	tui.selected = cli_reader_select(trace, options->report.filter.functions);
	if (!tui.selected || cli_screen_open("iprobe report needs none") < 0) {
		free(tui.selected);
		ip_trace_reader_close(trace);
		return -1;
	}
	done = load(&tui);
	if (done == 0)
		done = loop(&tui);
	cli_screen_close();
	if (done == 0)
		cli_reader_warn(trace);
	for (size_t i = 0; i < CLI_TUI_VIEWS; i++)
		if (tui.views[i])
			views[i]->close(&tui);
	/* the user has ended the first reading: that is no failure */
	if (done < 0 && tui.given_up)
		done = 0;
	ip_calltree_destroy(tui.tree);
	ip_calltree_destroy(tui.callers_tree);
	ip_calltree_destroy(tui.thread_tree);
	ip_tree_threads_destroy(tui.threads);
	free(tui.slowest);
	cli_tui_waits_close(&tui);
	free(tui.selected);
	cli_report_clear(&tui.report);
	return done;
}
