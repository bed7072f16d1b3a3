/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that read traces share.
 */
#ifndef IP_CLI_TRACE_ARGS_H
#define IP_CLI_TRACE_ARGS_H

#include <stdbool.h>

#include "analysis/callstack/trace.h"
#include "common/json.h"
#include "common/selection/selection.h"

#define CLI_DEFAULT_DIR "iprobe.data"

/* Takes the operand DIR, or iprobe.data where it is left out. Returns -1 and the directory in
 * *ret; else the exit code after a usage error. */
int cli_reader_dir(const char *command, int argc, char **argv, const char **ret);

/* Opens the trace of an operand, and chooses processes as --process says (NULL: all). Returns 0, or
 * -1 with an error, which tells of what can be no trace what it is. */
int cli_reader_open(const char *dir, const char *process, struct ip_trace_reader **ret);
/* The same, with the calls of the kernel's functions (analysis/read/kernel_calls.h): what they lack
 * is told on stderr. */
int cli_reader_open_functions(const char *dir, const char *process, struct ip_trace_reader **ret);
/* Reads these of a trace that was just opened, and tells what they lack. Returns 0, or -1 with an
 * error. */
int cli_reader_add_kernel(struct ip_trace_reader *trace);
/* As cli_reader_open(); progress as in ip_trace_reader_open_told(). */
int cli_reader_open_told(const char *dir, const char *process, struct ip_trace_progress *progress,
			 struct ip_trace_reader **ret);

/* Has so many threads read the trace; 0: one for each CPU that this process may use. */
void cli_reader_use_jobs(struct ip_trace_reader *trace, size_t jobs);

/* Returns which functions a selection (NULL: all) means: an array by index of
 * trace->session->functions. The caller frees it. Returns NULL with an error: the selection is
 * wrong, or nothing matches (the error names the nearest). */
bool *cli_reader_select(const struct ip_trace_reader *trace, const char *selection);

/* Returns which functions match, by index in the session. *ret_n is their number. The caller
 * frees the array. Returns NULL with an error. */
bool *cli_match_functions(const struct ip_recording *s, struct ip_selection *selection,
			  size_t *ret_n);

/* Prints on stderr what is damaged, cut off or lost. To be called after the events have been
 * read. */
void cli_reader_warn(const struct ip_trace_reader *trace);

/* Whether a recording has not ended: there is, or was, more than what was written. */
bool cli_reader_is_cut_off(const struct ip_trace_reader *trace);

/* Writes why the trace has no events, if it has none, as the member "no_events". */
void cli_reader_json_no_events(struct ip_json *j, const struct ip_recording *s);

/* Warns in a command that shows events: functions that the process counted or measured have
 * none. */
void cli_reader_warn_counted(const struct ip_trace_reader *trace);

/* Returns buffer: for how long the trace was recorded, and how much of that it has kept: "4.56 s,
 * the last 1.52 s kept". */
const char *cli_reader_duration(const struct ip_trace_reader *trace, char buffer[64]);
/* Writes the latter as the member "kept_ns", where newer events may have replaced older ones. */
void cli_reader_json_kept(struct ip_json *j, const struct ip_trace_reader *trace);

/* Returns 0, or -1 with an error where stdout could not be written. */
int cli_reader_check_stdout(void);

#endif
