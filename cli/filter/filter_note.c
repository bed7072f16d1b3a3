/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells what filters do to figures. See filter_note.h.
 */
#include "cli/filter/filter_note.h"

#include <string.h>

#include "common/print.h"

void cli_filter_note(FILE *out, const char *before, const struct ip_recording *session)
{
	/* the words of ip_filters_describe(), and what they mean */
	static const struct {
		const char *filter, *note;
	} notes[] = {
		{"sample ", "calls and times are those of the calls that were recorded, a part of "
			    "all; self has the time of callees that were not, and paths leave out "
			    "callers that were not"},
		{"depth ", "self has the time of deeper calls, which were not recorded"},
		{"min-duration ", "self has the time of shorter calls, which were not recorded"},
		{"when ", "calls for which it was not true were not recorded; their time is in "
			  "self of their callers"},
	};

	for (size_t i = 0; i < session->nfilters; i++)
		for (size_t k = 0; k < sizeof(notes) / sizeof(*notes); k++)
			if (!strncmp(session->filters[i], notes[k].filter, strlen(notes[k].filter)))
				ip_print(out, "%s--%s: %s\n", before, session->filters[i],
					 notes[k].note);
}
