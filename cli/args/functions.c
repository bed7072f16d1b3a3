/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The argument of -f, which may be given several times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"

/* What an argument selects, so that it can stand among others: @FILE can only stand alone. The
 * caller frees it; NULL with an error. */
static char *items_of(const char *text)
{
	struct ip_selection *selection;
	char *items = NULL;

	if (*text != '@')
		items = strdup(text);
	else if (ip_selection_parse(text, &selection) < 0)
		return NULL;
	else {
		items = ip_selection_text(selection);
		ip_selection_destroy(selection);
	}
	if (!items)
		ip_error("out of memory");
	return items;
}

int cli_functions(const char *command, const char *text, const char **ret)
{
	/* options point into what is joined until the process ends */
	static struct joined {
		struct joined *next;
		char *text;
	} * all;
	_cleanup_free_ char *before = NULL, *more = NULL;
	struct joined *joined;

	if (!text[strspn(text, " \t\n")])
		return cli_usage(command, "-f is empty: leave it out for all probes");
	if (!*ret) {
		*ret = text;
		return 0;
	}
	before = items_of(*ret);
	more = before ? items_of(text) : NULL;
	if (!more)
		return cli_usage(command, "-f %s: %s", before ? text : *ret, ip_error_message());
	joined = calloc(1, sizeof(*joined));
	if (!joined || asprintf(&joined->text, "%s,%s", before, more) < 0) {
		free(joined);
		return cli_usage(command, "-f: out of memory");
	}
	joined->next = all;
	all = joined;
	*ret = joined->text;
	return 0;
}
