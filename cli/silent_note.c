/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells of events that are not shown. See silent_note.h.
 */
#include "cli/silent_note.h"

#include "common/print.h"
#include "common/units.h"

void cli_silent_note(const struct ip_trace_reader *t)
{
	char events[32], functions[32], text[IP_NAME_LIST_TEXT];
	struct ip_name_list names;

	if (!t->silent)
		return;
	ip_recording_silent_names(t->session, &names);
	ip_print(
		stdout,
		"%s of these events, of %s function%s that selected ones end by jumping to, are "
		"not shown:\n%s\n(TAIL CALLS in iprobe-concepts(7); IPROBE_SIBLING_CALLS=no builds "
		"without)\n",
		ip_format_count(t->silent, events), ip_format_count(names.n, functions),
		ip_plural(names.n), ip_name_list_text(&names, text));
}

void cli_silent_json(struct ip_json *j, const struct ip_trace_reader *t)
{
	ip_json_uint(j, "silent_events", t->silent);
	struct ip_name_list names;

	ip_recording_silent_names(t->session, &names);
	ip_json_uint(j, "silent_functions", names.n);
	ip_json_array(j, "silent_names"); /* of the first ones */
	for (uint32_t i = 0; i < names.shown; i++)
		ip_json_string(j, NULL, names.names[i]);
	ip_json_end_array(j);
}
