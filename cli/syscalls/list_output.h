/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes lines to stdout while a process is recorded. Whoever reads them may stand still, as a
 * pager does: the user can end the command even then.
 */
#ifndef IP_CLI_LIST_OUTPUT_H
#define IP_CLI_LIST_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* Zeroed: nothing was printed. One thread at a time uses it. */
struct cli_list_output {
	/* Private. */
	FILE *file; /* in memory; NULL: nothing was printed since it was written */
	char *text;
	size_t size;
	bool failed;
};

/* Where to print. Returns NULL with an error. */
FILE *cli_list_output_file(struct cli_list_output *output);

/* Writes what was printed. It waits for the reader; when the user has asked for the end
 * (ip_interrupted), for a second without progress at most. Returns 0, or -1 with an error,
 * once: what is printed after that is dropped. */
int cli_list_output_write(struct cli_list_output *output);

/* Drops what was printed. */
void cli_list_output_clear(struct cli_list_output *output);

#endif
