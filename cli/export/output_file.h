/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that a command writes what it has found to.
 */
#ifndef IP_CLI_OUTPUT_FILE_H
#define IP_CLI_OUTPUT_FILE_H

#include <limits.h>
#include <stdio.h>

#include "common/dir.h"

struct cli_output {
	FILE *file;
	struct ip_dir_place place;    /* none: the path is written directly */
	char temporary[NAME_MAX + 1]; /* name of the new file beside the wanted one */
};

/* Opens a new file beside the wanted one, so that the wanted file is whole or not there at all. A
 * file that is not a plain file (/dev/stdout, a FIFO) is written directly. Returns 0, or -1 with an
 * error, and nothing to close. */
int cli_output_open(const char *path, struct cli_output *ret);
/* Closes it. ret: 0, or -1 where writing has failed: nothing is left of it then. Returns ret, or -1
 * with an error. */
int cli_output_close(struct cli_output *output, const char *path, int ret);

#endif
