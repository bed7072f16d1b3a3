/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that read traces say where nothing is left of a trace: a time, thread or
 * process that the trace does not have is an error; events that the trace might have, and has not,
 * are told on stderr.
 */
#ifndef IP_CLI_FILTER_CHECK_H
#define IP_CLI_FILTER_CHECK_H

#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "cli/filter_options.h"

/* Checks that the trace has the thread, and a part of the time, that the filter asks for. Returns
 * 0, or -1 with an error that tells which threads there are, or from when to when the recording
 * lasts. */
int cli_filter_check(const struct ip_trace_reader *trace, const struct cli_filter *filter);

/* Checks that the trace has the process (0: any) with packets. Returns 0, or -1 with an error. */
int cli_filter_check_pid(const struct ip_trace_reader *trace, int pid);

/* Prints on stderr that the options choose none of so many events that were read, and which
 * conditions on values were not met. To be called where nothing was shown. It prints nothing where
 * there were no events: cli_reader_warn() tells why. */
void cli_filter_warn_none(const struct ip_trace_reader *trace, const struct cli_filter *filter,
			  uint64_t events);

/* The same where only calls are shown, and the options choose so many points. */
void cli_filter_warn_no_calls(const struct ip_trace_reader *trace, const struct cli_filter *filter,
			      uint64_t events, uint64_t points);

#endif
