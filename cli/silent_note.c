/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells of events that are not shown. See silent_note.h.
 */
#include "cli/silent_note.h"

#include "common/print.h"
#include "common/units.h"

void cli_silent_note(const struct ip_trace_reader *t)
{
	const size_t n = ip_recording_silent(t->session);
	char events[32], functions[32];

	if (!t->silent)
		return;
	ip_print(stdout,
		 "%s of these events, of %s function%s that selected ones end by jumping to, are "
		 "not shown\n(TAIL CALLS in iprobe-concepts(7); IPROBE_SIBLING_CALLS=no builds "
		 "without)\n",
		 ip_format_count(t->silent, events), ip_format_count(n, functions), ip_plural(n));
}

void cli_silent_json(struct ip_json *j, const struct ip_trace_reader *t)
{
	ip_json_uint(j, "silent_events", t->silent);
	ip_json_uint(j, "silent_functions", ip_recording_silent(t->session));
}
