/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe graph: prints which functions called which, how often, and what it cost.
 */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/wait/idle/idle_tree.h"
#include "cli/cli.h"
#include "cli/filter/filter_check.h"
#include "cli/filter_options.h"
#include "cli/graph_print.h"
#include "cli/screen/reading_screen.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/units.h"

static const char help[] =
	"usage: iprobe graph [OPTIONS] [DIR]\n\n"
	"Shows the calls of a trace (iprobe.data) as a tree, the most expensive first: time with "
	"callees, alone,\n"
	"number of calls.\n\n"
	"  -f, --functions SEL  trees that begin at these functions (with --bottom-up: these "
	"functions only)\n"
	"      --bottom-up      below each function its callers, in the order of its own time\n"
	"      --of SEL         for each of these functions its callers and what it calls, as "
	"gprof shows them\n"
	"      --fold           a function that calls itself, directly or not, as one row\n"
	"      --depth N        so many levels\n"
	"      --min-percent P  leave out what costs less than P percent of all (default 0.5)\n"
	"      --by thread      below each thread, with its name, its calls; in --bottom-up and "
	"--of threads are callers\n"
	"      --by process     the same of processes, with their names\n"
	"      --tid TID        this thread only\n"
	"      --process PROC   this process only: a pid, or a name with wildcards\n"
	"      --idle           count the time in which threads wait for new work (if events of "
	"the "
	"kernel tell), too\n"
	"  -j, --jobs N         read with so many threads (default: one for each CPU)\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON document with all nodes\n"
	"      --dot            for Graphviz: iprobe graph --dot | dot -Tsvg > calls.svg\n";

enum { OPT_BOTTOM_UP = 256, OPT_OF, OPT_FOLD, OPT_MIN_PERCENT, OPT_JSON, OPT_DOT, OPT_IDLE };

struct options {
	struct cli_filter filter;
	const char *of;
	bool bottom_up, fold, json, dot, idle;
	double min_percent;
};

static bool parse_number(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return *text >= '0' && *text <= '9' && !*end;
}

static int take(const char *command, int option, void *context)
{
	struct options *o = context;

	switch (option) {
	case OPT_OF:
		return cli_functions(command, optarg, &o->of) ? 2 : -1;
	case OPT_BOTTOM_UP:
		o->bottom_up = true;
		break;
	case OPT_FOLD:
		o->fold = true;
		break;
	case OPT_MIN_PERCENT:
		if (!parse_number(optarg, &o->min_percent) || o->min_percent > 100)
			return cli_usage(command, "'%s' is no percentage", optarg);
		break;
	case OPT_IDLE:
		o->idle = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	case OPT_DOT:
		o->dot = true;
		break;
	}
	return -1;
}

/* Parses the command line. Returns -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct options *ret)
{
	static const struct option long_options[] = {
		CLI_FILTER_FUNCTIONS,
		{"bottom-up", no_argument, NULL, OPT_BOTTOM_UP},
		{"of", required_argument, NULL, OPT_OF},
		{"fold", no_argument, NULL, OPT_FOLD},
		CLI_FILTER_DEPTH,
		{"min-percent", required_argument, NULL, OPT_MIN_PERCENT},
		CLI_FILTER_BY_THREAD_OR_PROCESS,
		CLI_FILTER_TID,
		CLI_FILTER_PROCESS,
		{"idle", no_argument, NULL, OPT_IDLE},
		{"json", no_argument, NULL, OPT_JSON},
		{"dot", no_argument, NULL, OPT_DOT},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_JOBS,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"f:j:h", help, long_options, take};
	int code;

	*ret = (struct options){.filter = CLI_FILTER_ALL, .min_percent = 0.5};
	code = cli_filter_parse(argc, argv, &command, &ret->filter, ret);
	if (code < 0 &&
	    (ret->json + ret->dot + !!ret->of > 1 || ((ret->dot || ret->of) && ret->bottom_up)))
		return cli_usage(argv[0], "--json, --dot, --of and --bottom-up do not go together, "
					  "but for --json --bottom-up");
	if (code < 0 && ret->filter.by_process && ret->filter.tid)
		return cli_usage(argv[0], "--tid is of one thread: not with --by process");
	return code;
}

/* Returns the tree that is shown, in its order: the tree itself, or an inverted one, to which
 * until_tail goes. NULL with an error. */
static struct ip_calltree *put_in_order(struct ip_calltree *tree, const struct options *o,
					const bool *selected)
{
	struct ip_calltree *shown = o->bottom_up ? ip_calltree_invert(tree, selected) : tree;

	if (!shown)
		return NULL;
	if (shown != tree)
		shown->until_tail = ip_steal_ptr(tree->until_tail);
	if (ip_calltree_sort(shown, o->bottom_up ? IP_BY_SELF : IP_BY_TOTAL) == 0)
		return shown;
	if (shown != tree)
		ip_calltree_destroy(shown);
	return NULL;
}

/* What is printed while the trace is being read. */
struct so_far {
	const struct cli_graph *graph;
	const struct options *options;
	const bool *selected, *of;
};

/* Prints the view of what has been read so far; as cli_reading_screen.print. */
static int print_so_far(void *context, void *result, size_t lines)
{
	const struct so_far *s = context;
	struct cli_graph g = *s->graph;
	struct ip_calltree *tree = result;
	ssize_t shown = 1;

	(void)lines;
	g.tree = tree->n > 1 ? put_in_order(tree, s->options, s->selected) : NULL;
	if (!g.tree)
		return -1;
	if (s->of)
		shown = cli_graph_callers(&g, s->of);
	else
		cli_graph_tree(&g);
	if (g.tree != tree)
		ip_calltree_destroy(g.tree);
	return shown > 0 ? 0 : -1;
}

#define WAIT_NS 1000000u /* itself: calls of this length do not compute all the time, mostly */

/* The function of the call path that has more than half of the time by itself, in calls that are
 * long; 0: there is none. */
static uint32_t find_waits(const struct cli_graph *g)
{
	const struct ip_recording *s = g->trace->session;

	for (size_t i = 1; i < g->tree->n; i++) {
		const struct ip_call_node *node = &g->tree->nodes[i];

		if (node->self > g->tree->ticks / 2 &&
		    ip_recording_ns(s, node->self) / (node->calls + 1) >= WAIT_NS)
			return node->function;
	}
	return 0;
}

static int collect(struct cli_graph *g, const struct options *o, const bool *selected,
		   const bool *of, struct cli_reading_screen *screen)
{
	struct so_far so_far = {g, o, selected, of};
	const bool levels = g->by_thread || g->by_process;
	const struct ip_calltree_options options = {
		.roots = o->filter.functions && !o->bottom_up ? selected : NULL,
		.fold = o->fold,
		.tid = o->filter.tid,
		.threads = levels ? g->threads : NULL};
	struct ip_calltree *shown;
	int ret;

	if (levels && ip_tree_threads_name(g->threads, g->names) < 0)
		return -1;
	if (cli_filter_check(g->trace, &o->filter) < 0)
		return -1;
	screen->print = print_so_far;
	screen->context = &so_far;
	if (!o->json && !o->dot)
		cli_reading_screen_begin(screen, g->trace);
	ret = ip_calltree_collect(g->trace, &options, &g->tree);
	cli_reading_screen_end(screen, g->trace);
	if (ret == 0 && !o->idle)
		ret = ip_idle_tree_fill(g->tree, g->trace, &g->idle_known);
	if (ret < 0)
		return -1;
	g->waits = find_waits(g);
	if (!o->json) /* which has both */
		ip_calltree_take_off_idle(g->tree);
	if (o->filter.tid && g->tree->n == 1)
		return ip_error("%s: no calls of a thread %d", g->trace->dir, o->filter.tid);
	if (g->tree->n == 1)
		cli_filter_warn_none(g->trace, &o->filter, g->tree->events);
	shown = put_in_order(g->tree, o, selected);
	if (shown && shown != g->tree) {
		ip_calltree_destroy(g->tree);
		g->tree = shown;
	}
	return shown ? 0 : -1;
}

static int show_callers(const struct cli_graph *g, const struct options *o, const bool *of)
{
	ssize_t n = cli_graph_callers(g, of);

	/* where the tree is empty, collect() has said so */
	if (n == 0 && g->tree->n > 1)
		cli_filter_warn_none(g->trace, &o->filter, g->tree->events);
	return n < 0 ? -1 : 0;
}

static int show(const char *dir, const struct options *o)
{
	struct cli_graph g = {.max_depth = o->filter.depth,
			      .min_percent = o->min_percent,
			      .bottom_up = o->bottom_up,
			      .by_thread = o->filter.by_thread,
			      .by_process = o->filter.by_process,
			      .tid = o->filter.tid,
			      .idle = o->idle};
	_cleanup_free_ bool *selected = NULL, *of = NULL;
	struct cli_reading_screen screen = {0};
	int ret = cli_reading_screen_open(o->json || o->dot ? NULL : &screen, dir,
					  o->filter.process, &g.trace);

	if (ret == 0)
		cli_reader_use_jobs(g.trace, o->filter.jobs);
	/* a thread or process is no level of calls */
	if ((g.by_thread || g.by_process) && !g.bottom_up && g.max_depth < SIZE_MAX)
		g.max_depth++;
	if (ret == 0)
		ret = ip_tree_threads_create(g.trace, g.by_process, &g.threads);
	if (ret == 0) {
		selected = cli_reader_select(g.trace, o->filter.functions);
		of = selected && o->of ? cli_reader_select(g.trace, o->of) : NULL;
		g.names = ip_names_create(g.trace->session);
		if (g.names && o->filter.full_names)
			ip_names_use_full(g.names);
		ret = selected && g.names && (of || !o->of) ? collect(&g, o, selected, of, &screen)
							    : -1;
	}
	if (ret == 0) {
		cli_reader_warn(g.trace);
		cli_reader_warn_counted(g.trace);
		if (o->json)
			cli_graph_json(&g);
		else if (o->dot)
			ret = cli_graph_dot(&g);
		else if (o->of)
			ret = show_callers(&g, o, of);
		else
			cli_graph_tree(&g);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	if (ret == 0)
		cli_reading_screen_leave(&screen);
	ip_calltree_destroy(g.tree);
	ip_tree_threads_destroy(g.threads);
	ip_names_destroy(g.names);
	ip_trace_reader_close(g.trace);
	return ret < 0 ? cli_fail() : 0;
}

int cmd_graph(int argc, char **argv)
{
	struct options options;
	const char *dir;
	int code = parse(argc, argv, &options);

	if (code < 0)
		code = cli_reader_dir(argv[0], argc, argv, &dir);
	if (code >= 0)
		return code;
	/* where the user leaves a pager, this process ends without a message */
	signal(SIGPIPE, SIG_DFL);
	setlocale(LC_CTYPE, "");
	return show(dir, &options);
}
