/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of iprobe tui share: the trace with what has been read of it, the views,
 * and what the views ask of the screen (tui.c).
 *
 * Whatever takes a reading of the trace is done when a view first needs it, and only once. The
 * report is read before the first picture, the tree of calls for the graph and for callers, the
 * timeline of a thread when that thread is looked at.
 */
#ifndef IP_CLI_TUI_H
#define IP_CLI_TUI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/profile/calltree.h"
#include "analysis/profile/longest.h"
#include "cli/report/report.h"

/* The order of the keys 1 to 5. */
enum cli_tui_view {
	CLI_TUI_REPORT,
	CLI_TUI_GRAPH,
	CLI_TUI_TIMELINE,
	CLI_TUI_CALLERS,
	CLI_TUI_THREADS,
	CLI_TUI_VIEWS
};

struct cli_tui_options {
	struct cli_report_options report; /* -f, -s */
	enum cli_tui_view view;
};

/* What the user has typed after /. */
enum cli_tui_search {
	CLI_TUI_TYPING, /* after each key */
	CLI_TUI_TYPED,	/* Enter */
	CLI_TUI_LEFT,	/* Escape: as it was before / */
};

#define CLI_TUI_NO_FUNCTION UINT32_MAX
#define CLI_TUI_HEAD_LINES  3u /* lines above a view */

struct cli_tui {
	const struct cli_tui_options *options;
	struct ip_trace_reader *trace;
	struct cli_report report; /* has the trace when it has been loaded */
	bool *selected;		  /* by function: -f */
	/* NULL: not read yet. The trees are sorted, callers_tree is the inverted one. */
	struct ip_calltree *tree, *callers_tree;
	/* the tree whose first level are the threads */
	struct ip_calltree *thread_tree;
	struct ip_tree_threads *threads;
	struct ip_longest_call *slowest;
	struct cli_tui_waits *waits;

	enum cli_tui_view view;
	void *views[CLI_TUI_VIEWS]; /* each view's own; NULL: it has not been opened yet */
	bool typing, help, quit;
	bool all_values; /* of a call, in the place of the timeline */
	bool all_waits;	 /* of a function, in the place of the view */
	char typed[256], message[512];

	bool utf8, colours;

	/* the reading that goes on */
	const char *reading;
	uint64_t packets, all_packets, since_ns, shown_ns;
	bool given_up;
	int ahead[32]; /* keys that were pressed meanwhile */
	size_t nahead;
};

struct cli_tui_view_ops {
	const char *name, *keys; /* keys: the last line of the screen */
	const char *const *help; /* lines; NULL ends them */
	/* Reads what the view needs and makes its own data. Returns 0, or -1 with an error. */
	int (*open)(struct cli_tui *tui);
	void (*close)(struct cli_tui *tui);
	/* Makes ready what draw() prints: reads what it needs, sets messages. NULL: nothing to do.
	 * Returns 0, or -1 with an error. */
	int (*prepare)(struct cli_tui *tui, size_t lines, size_t columns);
	/* Prints so many lines, each with its end. */
	void (*draw)(struct cli_tui *tui, FILE *out, size_t lines, size_t columns);
	/* Handles a key that is not for all views. lines: of the view. */
	void (*key)(struct cli_tui *tui, int key, size_t lines);
	/* text: what is typed; "": nothing */
	void (*search)(struct cli_tui *tui, const char *text, enum cli_tui_search how);
	/* Returns the function that is chosen; CLI_TUI_NO_FUNCTION: none is. */
	uint32_t (*chosen)(struct cli_tui *tui);
};

extern const struct cli_tui_view_ops cli_tui_report, cli_tui_graph, cli_tui_timeline,
	cli_tui_callers, cli_tui_threads;

/* Shows the trace, which is open, until the user leaves it or a signal comes. Takes the trace over.
 * Returns 0, or -1 with an error. */
int cli_tui_run(struct ip_trace_reader *trace, const struct cli_tui_options *options);

/* Goes to a view. Where it cannot be opened, the message tells why, and the view remains. Returns
 * whether the view is on. */
bool cli_tui_go(struct cli_tui *tui, enum cli_tui_view view);

/* Sets the message. */
void cli_tui_say(struct cli_tui *tui, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void cli_tui_say_error(struct cli_tui *tui);

/* Tells that a reading of so many packets begins (0: of all), and what of. Until the reading ends,
 * its progress is shown, and q and Ctrl-C end it. */
void cli_tui_reading(struct cli_tui *tui, const char *what, uint64_t packets);
/* Ends that. done: what the reading has returned. Returns it; the error is "given up" where the
 * user ended the reading. */
int cli_tui_read(struct cli_tui *tui, int done);

/* Reads the tree of calls (its inverted form, the one by thread), where that has not been done.
 * Returns 0, or -1 with an error. */
int cli_tui_need_tree(struct cli_tui *tui);
int cli_tui_need_callers_tree(struct cli_tui *tui);
int cli_tui_need_thread_tree(struct cli_tui *tui);

/* Returns which functions a text means: those whose names have it in them, or, with special
 * characters, a selection (-f). *ret_n is their number. The caller frees the array. NULL with an
 * error. */
bool *cli_tui_match(const struct cli_tui *tui, const char *text, size_t *ret_n);

/* Goes to callers of a function; to its first node in the graph; to its slowest call. */
void cli_tui_go_callers(struct cli_tui *tui, uint32_t function);
void cli_tui_go_graph(struct cli_tui *tui, uint32_t function);
void cli_tui_go_slowest(struct cli_tui *tui, uint32_t function);
/* Goes to the timeline of a run, to the call where one is given (its run must have it). */
void cli_tui_go_run(struct cli_tui *tui, size_t run, const struct ip_longest_call *call,
		    uint32_t function);

/* Prints the values of the call under the timeline's cursor, which is there, in so many lines. */
void cli_timeline_draw_values(const struct cli_tui *tui, FILE *out, size_t lines, size_t columns);

/* Prints the name of a function in at most width columns, and a note where the time of some of its
 * calls ends at a tail call. The tree of calls has been read. */
void cli_tui_print_function(const struct cli_tui *tui, FILE *out, uint32_t function, size_t width);

#endif
