/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For commands that report on a trace and are given a process instead: the process is recorded
 * first, with events of the kernel, as iprobe attach --kernel does it, into a temporary directory.
 * It is removed when the report is over, also where a signal ends that. What a killed iprobe has
 * left of such is removed by the next one.
 */
#ifndef IP_CLI_TEMPORARY_TRACE_H
#define IP_CLI_TEMPORARY_TRACE_H

#include <pthread.h>

#include "common/dir.h"

/* What to record. */
struct cli_recording_request {
	const char *pid;       /* NULL: it was given by -p */
	const char *functions; /* NULL: all that have probes */
	const char *duration;  /* NULL: until the process ends, or Ctrl-C */
	const char *output;    /* directory of the trace, which is kept; NULL: a temporary one */
};

struct cli_temporary_trace {
	char dir[512]; /* of the trace */
	/* Private. */
	struct ip_dir_place place;
	int lock; /* the temporary directory; -1: there is none */
	bool guarded;
	bool over; /* atomic: the report is */
	pthread_t guard;
};

/* Takes the operand PID of a command, or that of -p: one process. *ret: it is for
 * cli_record_first(). Returns -1: it is there; -2: the operand is none; else the exit code after a
 * usage error. */
int cli_process_operand(int argc, char **argv, int *ret_pid, const char **ret);

/* Records. Returns -1: the trace is there; else the exit code, after a message. The caller clears
 * *ret in any case, and leaves it where it is until then. SIGINT, SIGTERM, SIGHUP and SIGQUIT end
 * the process from here on, after the directory has been removed; SIGPIPE stays ignored: the
 * directory would be left behind. */
int cli_record_first(const struct cli_recording_request *request, int pid,
		     struct cli_temporary_trace *ret);

/* Removes the temporary directory. */
void cli_temporary_trace_clear(struct cli_temporary_trace *trace);

#endif
