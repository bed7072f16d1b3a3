/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fits names of functions into columns of a terminal.
 */
#ifndef IP_CLI_ELIDE_H
#define IP_CLI_ELIDE_H

#include <stddef.h>

#include "common/json.h"

/* Shortens a name to at most width columns, in place. A name that is too long first has its
 * template arguments elided ("<...>"), and then loses the end of its parameters; then only its end
 * is kept, which tells most. Control characters become '?'. width is 3 or more. */
void cli_fit_name(char *name, size_t width);

/* Returns the part of a clean name that is to stand in a box of width columns, of which the box
 * shows the beginning. Where the name is wider, the namespaces and classes that the function lies
 * in are left out, from the left: Block::Iter::Seek -> Iter::Seek -> Seek. */
const char *cli_inner_name(const char *name, size_t width);

/* Shortens a text to at most width columns, in place: its beginning is kept. Control characters
 * become '?'. width is 3 or more. */
void cli_cut_text(char *text, size_t width);

/* Returns how many columns a text takes on a terminal, one for each character. */
size_t cli_width_of(const char *text);

/* Returns the columns for names when other columns take others, at least least. Where stdout is
 * no terminal (a pipe, a file) names are not shortened: SIZE_MAX. */
size_t cli_name_width(size_t others, size_t least);

/* Prints "short", the short form of a function's name, where it is not the name itself. */
void cli_json_short(struct ip_json *j, const char *function, const char *form);

#endif
