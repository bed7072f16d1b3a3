/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures of several processes, told once where they are the same but for the process: a selection
 * that matches nothing, a value that no function has.
 */
#ifndef IP_CLI_ERROR_GROUPS_H
#define IP_CLI_ERROR_GROUPS_H

#include <stdbool.h>
#include <sys/types.h>

struct cli_error_groups;

/* NULL with an error where memory ran out. */
struct cli_error_groups *cli_error_groups_create(void);

/* Takes note of why a process failed. Where memory runs out it is printed at once. */
void cli_error_groups_add(struct cli_error_groups *groups, pid_t pid, const char *text);

/* Prints on stderr, a line for each text, what has not been told. The first of a text waits for a
 * moment, in which others may come; one that comes after its line waits for the end. end: nothing
 * waits any longer. */
void cli_error_groups_tell(struct cli_error_groups *groups, bool end);

void cli_error_groups_destroy(struct cli_error_groups *groups);

#endif
