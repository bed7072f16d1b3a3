/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal while a command uses all of it. Keys come one at a time, and the screen shows
 * another page. On every way out the terminal gets its old state back: a proper end, a signal, a
 * stop by Ctrl-Z, a crash of this process.
 *
 * The code uses a dozen control sequences that every terminal of today knows; a library is not
 * worth its size for them.
 */
#ifndef IP_CLI_SCREEN_H
#define IP_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* All other keys are the bytes that they send. */
enum cli_key {
	CLI_KEY_NONE = 0,
	CLI_KEY_END_OF_INPUT = 256, /* the terminal is gone */
	CLI_KEY_UP,
	CLI_KEY_DOWN,
	CLI_KEY_LEFT,
	CLI_KEY_RIGHT,
	CLI_KEY_PAGE_UP,
	CLI_KEY_PAGE_DOWN,
	CLI_KEY_HOME,
	CLI_KEY_END,
	CLI_KEY_ESCAPE,
	CLI_KEY_OTHER,	 /* an unknown key */
	CLI_KEY_RESIZED, /* the screen must be drawn again; also after Ctrl-Z and fg */
};

/* Opens the screen. stdin and stdout must be terminals. hint: what the error tells to do where
 * they are not. Returns 0, or -1 with an error. */
int cli_screen_open(const char *hint);
/* Closes the screen. Does nothing where it is not open. */
void cli_screen_close(void);

/* Returns whether the terminal of stdout belongs to this process now: it does not belong to a
 * background job of a shell. */
bool cli_screen_is_ours(void);

/* Opens a screen that only shows something: keys keep their meaning, and stdin is left alone. Other
 * signals that end the process give the terminal back before. cli_screen_close_output() closes it,
 * and signals mean again what they did before. cli_screen_has_changed() is to be called from time
 * to time: it stops the process where the user has pressed Ctrl-Z; in the background the screen is
 * closed then until the process is in the foreground again. It returns whether the screen must be
 * drawn again. */
void cli_screen_open_output(void);
void cli_screen_close_output(void);
bool cli_screen_has_changed(void);

/* Waits for a key. Returns CLI_KEY_NONE at until_ns (CLOCK_MONOTONIC), when fd is readable (-1:
 * no fd), or when a signal has come. */
int cli_screen_key(uint64_t until_ns, int fd);

/* Returns the number of lines and columns. */
void cli_screen_size(size_t *ret_lines, size_t *ret_columns);

/* Shows text, whose lines end in '\n'. What does not fit is cut off. The text has no control
 * characters except the sequences below. Returns 0, or -1 where it cannot be written. */
int cli_screen_show(const char *text, size_t size);

/* Sequences for lines that stand out. */
#define CLI_SCREEN_BOLD	   "\033[1m"
#define CLI_SCREEN_REVERSE "\033[7m"
#define CLI_SCREEN_PLAIN   "\033[m"

#endif
