/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that read traces share.
 */
#ifndef IP_CLI_TRACE_ARGS_H
#define IP_CLI_TRACE_ARGS_H

#include <stdbool.h>

#include "analysis/callstack/trace.h"
#include "common/selection.h"

#define CLI_DEFAULT_DIR "iprobe.data"

/* The operand DIR, or iprobe.data. -1: it is in *ret; else the exit code of wrong usage. */
int cli_reader_dir(const char *command, int argc, char **argv, const char **ret);

/* Which functions a selection (NULL: all) means: an array as trace->session->functions, the
 * caller's. NULL with an error: bad selection, or nothing matches (the error names the nearest). */
bool *cli_reader_select(const struct ip_trace_reader *trace, const char *selection);

/* Which functions are matched, by their place in the session, and how many; the caller frees it.
 * NULL: an error. */
bool *cli_match_functions(const struct ip_recording *s, struct ip_selection *selection,
			  size_t *ret_n);

/* After the events have been read: tells on stderr what is damaged, cut off or lost. */
void cli_reader_warn(const struct ip_trace_reader *trace);

/* The same for who shows events: what was counted or measured in the process has none. */
void cli_reader_warn_counted(const struct ip_trace_reader *trace);

/* "stdout" could not be written, if so: an error, and -1. */
int cli_reader_check_stdout(void);

#endif
