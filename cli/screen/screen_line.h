/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of text that the user types into a screen: a filter, a selection.
 */
#ifndef IP_CLI_SCREEN_LINE_H
#define IP_CLI_SCREEN_LINE_H

#include <stddef.h>

enum cli_screen_line {
	CLI_SCREEN_LINE_OPEN, /* the user goes on */
	CLI_SCREEN_LINE_DONE, /* Enter */
	CLI_SCREEN_LINE_LEFT, /* Escape: the line does not count */
};

/* Applies a key to the text of size bytes, which ends in a zero: a character is added, Backspace
 * removes the last one, Ctrl-U all of them. */
enum cli_screen_line cli_screen_line_key(char *text, size_t size, int key);

#endif
