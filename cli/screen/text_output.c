/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has stdout be a text for a while.
 */
#include "cli/screen/text_output.h"

#include "common/error.h"
#include "common/print.h"

int cli_text_output_begin(struct cli_text_output *p)
{
	FILE *out;

	*p = (struct cli_text_output){0};
	out = open_memstream(&p->text, &p->size);
	if (!out)
		return ip_error("out of memory");
	p->terminal = stdout;
	stdout = out;
	return 0;
}

char *cli_text_output_end(struct cli_text_output *p)
{
	FILE *out = stdout;

	stdout = p->terminal;
	return ip_print_end_text(out, &p->text);
}
