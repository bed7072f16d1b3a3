/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of iprobe dump on a terminal: guides for the eye, and one line for a call in which
 * nothing else is shown:
 *
 *    0.000001234    4711  main() {
 *    0.000001300    4711  | parse(fd=3) {
 *    0.000001350    4711  | | next() = 7;  12 ns
 *    0.000001400    4711  | } parse  100 ns
 *
 * An entry does not know yet whether its exit comes next. So lines wait in a queue of bounded size
 * until their thread goes on, and are printed in their order. A call that takes longer than the
 * queue is shows as two lines.
 */
#ifndef IP_CLI_DUMP_LINES_H
#define IP_CLI_DUMP_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cli_dump_lines;

/* dim: the guides are dim, for a terminal. Returns NULL with an error where memory ran out. */
struct cli_dump_lines *cli_dump_lines_create(bool dim);
/* Prints what still waits. NULL is allowed. */
void cli_dump_lines_destroy(struct cli_dump_lines *lines);

/* Where the text of a line is printed to. */
FILE *cli_dump_lines_out(struct cli_dump_lines *lines);

/* Begins a line of an event of a thread. What is printed from here on, until
 * cli_dump_lines_headed(), stands before the guides. */
void cli_dump_lines_begin(struct cli_dump_lines *lines, uint32_t tid, size_t depth);
void cli_dump_lines_headed(struct cli_dump_lines *lines);
/* Ends the head of an entry's line, "name(args)", as which the text since the line's begin is
 * taken. What is printed from here to the end of the line stands behind the brace or duration. */
void cli_dump_lines_opens(struct cli_dump_lines *lines, uint64_t call);
/* Whether the entry of the call is the last line of its thread, and still waits. Then what is
 * printed until the line's end is put behind it (" = 7;  12 ns"), in the place of a line of its
 * own. Else a line of its own must be begun. */
bool cli_dump_lines_closes(struct cli_dump_lines *lines, uint32_t tid, uint64_t call);
/* Ends the line. Returns 0, or -1: memory ran out. */
int cli_dump_lines_end(struct cli_dump_lines *lines);
/* A line that belongs to no thread. */
int cli_dump_lines_separate(struct cli_dump_lines *lines, const char *text);

#endif
