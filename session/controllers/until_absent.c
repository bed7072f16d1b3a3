/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which conditions of --until a process has no functions for. Whoever has joined the conditions of
 * several askers into one session can leave these out.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "session/controllers/until.h"
#include "session/session_private.h"

static size_t count_functions(const struct ip_modules *modules)
{
	size_t n = 0;

	for (size_t m = 0; m < modules->n; m++)
		n += modules->items[m].list ? modules->items[m].list->header->nfunctions : 0;
	return n;
}

/* Compares the condition with all functions, whose names it gathers. Returns whether it is for one
 * of them. */
static bool compare(const struct ip_modules *modules, const struct ip_condition *condition,
		    const char **names)
{
	bool found = false;
	size_t n = 0;

	for (size_t m = 0; m < modules->n; m++) {
		const struct ip_probe_list *list = modules->items[m].list;

		for (uint32_t i = 0; list && i < list->header->nfunctions; i++) {
			const struct ip_pl_function *f = &list->functions[i];

			names[n] = ip_probe_list_string(list, f->name);
			found |= ip_selection_match(condition->selection, names[n],
						    f->file ? ip_probe_list_string(list, f->file)
							    : NULL,
						    modules->items[m].path);
			n++;
		}
	}
	return found;
}

void ip_until_find_absent(const struct ip_conditions *conditions, const struct ip_modules *modules,
			  struct ip_session_summary *summary)
{
	const size_t n = count_functions(modules);
	_cleanup_free_ const char **names = calloc(n + 1, sizeof(*names));

	summary->nabsent = 0;
	for (size_t i = 0; names && n && i < conditions->n && i < IP_CONDITIONS_MAX; i++) {
		struct ip_session_absent *absent = &summary->absent[summary->nabsent];
		_cleanup_free_ char *nearest = NULL;

		if (compare(modules, &conditions->items[i], names))
			continue;
		nearest = ip_selection_nearest(conditions->items[i].selection, names, n);
		absent->condition = i + 1;
		snprintf(absent->nearest, sizeof(absent->nearest), "%s", nearest ? nearest : "");
		summary->nabsent++;
	}
}
