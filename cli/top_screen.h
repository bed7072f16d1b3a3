/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal while a command has all of it: keys one at a time, another page of the screen, and
 * everything as it was afterwards, on every way out: properly, by a signal, stopped by Ctrl-Z, or
 * in a crash of ours.
 *
 * A dozen control sequences that every terminal of today knows; no library is worth its weight for
 * them.
 */
#ifndef IP_CLI_TOP_SCREEN_H
#define IP_CLI_TOP_SCREEN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Other keys are the bytes that they send. */
enum cli_key {
	CLI_KEY_NONE = 0,
	CLI_KEY_END_OF_INPUT = 256, /* the terminal has gone */
	CLI_KEY_UP,
	CLI_KEY_DOWN,
	CLI_KEY_LEFT,
	CLI_KEY_RIGHT,
	CLI_KEY_PAGE_UP,
	CLI_KEY_PAGE_DOWN,
	CLI_KEY_HOME,
	CLI_KEY_END,
	CLI_KEY_ESCAPE,
	CLI_KEY_OTHER,	 /* that we do not know */
	CLI_KEY_RESIZED, /* to be drawn anew; so it is after Ctrl-Z and fg */
};

/* stdin and stdout are terminals. -1 with an error. */
int cli_screen_open(void);
/* Does nothing where it is not open. */
void cli_screen_close(void);

/* Waits for a key, at most until ns (CLOCK_MONOTONIC), or until fd (-1: none) is readable, or a
 * signal has come: CLI_KEY_NONE then. */
int cli_screen_key(uint64_t until_ns, int fd);

/* Lines and columns. */
void cli_screen_size(size_t *ret_lines, size_t *ret_columns);

/* Shows text, of lines that end in '\n'; what does not fit is cut off. It holds no control
 * characters but the sequences below. -1: it cannot be written. */
int cli_screen_show(const char *text, size_t size);

/* For lines that stand out. */
#define CLI_SCREEN_BOLD	   "\033[1m"
#define CLI_SCREEN_REVERSE "\033[7m"
#define CLI_SCREEN_PLAIN   "\033[m"

#endif
