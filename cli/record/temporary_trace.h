/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For commands that report on a trace and are given processes instead: these are recorded first,
 * with events of the kernel, as iprobe attach --kernel does it, into a temporary directory.
 * It is removed when the report is over, also where a signal ends that. What a killed iprobe has
 * left of such is removed by the next one.
 */
#ifndef IP_CLI_TEMPORARY_TRACE_H
#define IP_CLI_TEMPORARY_TRACE_H

#include <pthread.h>

#include "cli/args/processes.h"
#include "common/dir.h"

/* What to record. */
struct cli_recording_request {
	/* the words that iprobe attach gets: options, then the operands; borrowed. The caller frees
	 * the array */
	const char **words;
	size_t n;
	const char *output; /* directory of the trace, which is kept; NULL: a temporary one */
};

/* Adds a word. Returns 0, or -1 with an error. */
int cli_recording_word(struct cli_recording_request *request, const char *word);

struct cli_temporary_trace {
	char dir[512]; /* of the trace */
	int code;      /* exit code: not 0 where one of several processes was not recorded */
	/* Private. */
	struct ip_dir_place place;
	int lock; /* the temporary directory; -1: there is none */
	bool guarded;
	bool over; /* atomic: the report is */
	pthread_t guard;
};

/* Records the processes. Returns -1: the trace is there; else the exit code, after a message. The
 * caller clears *ret in any case, and leaves it where it is until then. SIGINT, SIGTERM, SIGHUP and
 * SIGQUIT end the process from here on, after the directory has been removed; SIGPIPE stays
 * ignored: the directory would be left behind. */
int cli_record_first(const struct cli_recording_request *request,
		     const struct ip_service_choice *choice, struct cli_temporary_trace *ret);

/* Makes a temporary directory alone, with the path for a trace in it (ret->dir). The names of all
 * that the caller makes in it begin as that of the trace. Signals are the caller's. The caller
 * clears *ret in any case. Returns 0, or -1 with an error. */
int cli_temporary_trace_make(struct cli_temporary_trace *ret);

/* Removes the temporary directory. */
void cli_temporary_trace_clear(struct cli_temporary_trace *trace);

#endif
