/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the end of a recording came late, and whether its losses come from the lack of CPU time.
 */
#ifndef IP_CLI_RECORD_END_TIME_H
#define IP_CLI_RECORD_END_TIME_H

#include "common/json.h"
#include "session/session.h"

/* Prints a line where the recording was longer than it was to be by a time that people notice.
 * whose: "pid 4711: ", or "". */
void cli_end_time_print(const struct ip_session_summary *summary, const char *whose);

/* Writes the same as members: end_noticed_ns, end_restored_ns, end_written_ns, end_queued_ns,
 * queued_ns. */
void cli_end_time_json(struct ip_json *json, const struct ip_session_summary *summary);

/* Whether the rings were full because iprobe, which empties them, waited for a CPU. */
bool cli_end_time_starved(const struct ip_session_summary *summary);

#endif
