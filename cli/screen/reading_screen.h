/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands on a terminal while a command reads a long trace: its view of what has been read so
 * far, which grows, and a line that tells how far the reading is. The view lies on another page, so
 * the output is as without it. Ctrl-C ends the reading: the command prints what has been read, and
 * ends by that signal.
 *
 * Where stdout is no terminal, or one that knows no other page (TERM is "dumb" or not set), or the
 * command is a background job, nothing of this happens.
 */
#ifndef IP_CLI_READING_SCREEN_H
#define IP_CLI_READING_SCREEN_H

#include "analysis/callstack/trace.h"

struct cli_reading_screen {
	struct ip_trace_progress progress;
	const char *dir;
	/* Prints the view of a result on stdout, in at most so many lines if it can: what has no
	 * room is cut off. Returns 0, or -1: there is nothing to show yet. */
	int (*print)(void *context, void *result, size_t lines);
	void *context;
	/* Private: */
	/* start: of the command. begin: of what is shown now. due: when the view is made next. put:
	 * when something was shown last */
	uint64_t start_ns, begin_ns, asked_ns, due_ns, put_ns;
	bool watches, open, interrupted;
	char *table; /* the last one */
};

/* Opens a trace as cli_reader_open() does, and shows how far that is: a long trace takes a while,
 * since all packets are looked at. Here Ctrl-C ends the process at once. screen NULL, or no
 * terminal: nothing is shown. */
int cli_reading_screen_open(struct cli_reading_screen *screen, const char *dir, const char *process,
			    struct ip_trace_reader **ret);

/* Watches a trace's next reading, if stdout is a terminal. print and context are to be set. */
void cli_reading_screen_begin(struct cli_reading_screen *screen, struct ip_trace_reader *trace);

/* The reading is done: the terminal gets its page back. */
void cli_reading_screen_end(struct cli_reading_screen *screen, struct ip_trace_reader *trace);

/* To be called when all has been printed. Where Ctrl-C has ended the reading, it says on stderr how
 * much was read, and the process ends by that signal. */
void cli_reading_screen_leave(const struct cli_reading_screen *screen);

#endif
