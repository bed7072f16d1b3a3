/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells how many events of a trace are of functions that were not selected, and are live since
 * selected ones end by jumping to them. No view shows their calls, so figures add up to fewer.
 */
#ifndef IP_CLI_SILENT_NOTE_H
#define IP_CLI_SILENT_NOTE_H

#include "analysis/callstack/trace.h"
#include "common/json.h"

/* Says so on stdout, with the names of the first functions, where there are such events. The trace
 * was read. */
void cli_silent_note(const struct ip_trace_reader *trace);
/* Writes "silent_events", "silent_functions" and "silent_names", which are of the recording. */
void cli_silent_json(struct ip_json *json, const struct ip_trace_reader *trace);

#endif
