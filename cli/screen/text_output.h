/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command prints on stdout as a text, for a screen that shows it.
 */
#ifndef IP_CLI_TEXT_OUTPUT_H
#define IP_CLI_TEXT_OUTPUT_H

#include <stdio.h>

struct cli_text_output {
	FILE *terminal;
	char *text;
	size_t size;
};

/* What prints knows stdout only: another stream stands there until cli_text_output_end(). No other
 * thread may print meanwhile. Returns 0, or -1 with an error: stdout is what it was. */
int cli_text_output_begin(struct cli_text_output *output);
/* Returns the text, which the caller frees; NULL with an error. */
char *cli_text_output_end(struct cli_text_output *output);

#endif
