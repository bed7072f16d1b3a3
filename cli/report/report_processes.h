/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a trace, as the commands that read traces show them.
 */
#ifndef IP_CLI_REPORT_PROCESSES_H
#define IP_CLI_REPORT_PROCESSES_H

#include "analysis/callstack/trace.h"
#include "common/json.h"

/* Writes "processes": an array with an object for each process that was chosen. The events must
 * have been counted or visited. */
void cli_processes_json(struct ip_json *json, const struct ip_trace_reader *trace);

/* Prints a line for each process, where there are several. The events must have been counted. */
void cli_processes_print(const struct ip_trace_reader *trace);

/* Returns " in 4711" for a member of a trace of several processes (the process that its recording
 * began with), "" for a trace of one. */
const char *cli_in_member(const struct ip_trace_reader *trace, uint32_t member, char buffer[16]);

#endif
