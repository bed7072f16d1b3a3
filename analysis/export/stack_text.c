/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes names of stacks.
 */
#include "analysis/export/stack_text.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/print.h"

void ip_stack_text_name(FILE *out, const char *name, char separator)
{
	_cleanup_free_ char *clean = strdup(name);

	if (clean)
		ip_clean(clean);
	for (const char *p = clean ? clean : "?"; *p; p++)
		putc(*p == separator ? ':' : *p, out);
}
