/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of rows on a screen, of which one is chosen: keys move the choice, and the picture follows
 * it.
 */
#ifndef IP_CLI_TUI_LIST_H
#define IP_CLI_TUI_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct cli_tui_list {
	size_t n, chosen, first; /* first: row at the top of the screen */
};

/* Applies Up, Down, PgUp, PgDn, Home, End, j and k. room: rows on the screen. Returns whether the
 * key was one of them. */
bool cli_tui_list_key(struct cli_tui_list *list, int key, size_t room);

/* Puts chosen and first where they must be after the rows or the screen have changed. */
void cli_tui_list_fit(struct cli_tui_list *list, size_t room);

#endif
