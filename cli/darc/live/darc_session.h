/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of a live search: a flight recorder of this command's own, in a child process, whose
 * live functions change from step to step. What its rings hold is written as a trace when it is
 * asked for.
 *
 * The child ends properly with this process, whatever ends that: then every byte is back. The
 * directory of the traces is removed at the end; what a killed iprobe has left of it, the next one
 * removes.
 */
#ifndef IP_CLI_DARC_SESSION_H
#define IP_CLI_DARC_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/record/temporary_trace.h"
#include "common/clock.h"
#include "common/values/value_request.h"
#include "hotpatcher/ptrace/stop_log.h"
#include "kernel_trace/recorder.h"

struct cli_darc_session_options {
	pid_t pid;
	const char *functions; /* that are live at first: a selection */
	/* And those, sorted, each once: linker names. All who select others select them, too, as
	 * long as they are wanted. values: of whatever is live at first; NULL: none. Borrowed. */
	char *const *more;
	size_t nmore;
	const struct ip_value_requests *values;
	uint64_t max_stop_ns;
	uint64_t memory; /* of the rings, in bytes */
	struct ip_kernel_options kernel;
	double budget; /* share of the CPU time of the process; 0: there is none */
	/* Waits for less than a second, between two tries to stop the process. Returns whether it
	 * is to be tried once more. */
	bool (*rest)(void *context, uint64_t ns);
	void *context;
};

struct cli_darc_session {
	struct cli_darc_session_options options;
	struct cli_temporary_trace trace; /* trace.dir: of the session */
	char moment[520];		  /* of what the rings held, the last time */
	char kept[520];			  /* of an earlier time; "": of none */
	size_t moments;			  /* private: counts where they are written */
	pid_t child;			  /* 0: there is none, or it has ended */
	int status;			  /* as from waitpid() */
	char **live;			  /* names that were made live, sorted */
	size_t nlive;
	size_t changes;
	struct ip_clock_reading changed; /* the last of them */
	size_t nmost; /* functions that were live at once, at most, but those of the options */
	struct ip_stop_log *stops; /* the child's, once it has ended; NULL: there was no child */
};

/* Attaches. The caller ends *ret in any case. Returns 0, or -1 with an error, or after the child
 * has printed one: *ret_told. */
int cli_darc_session_begin(const struct cli_darc_session_options *options,
			   struct cli_darc_session *ret, bool *ret_told);
/* Makes these functions live beside those of the options, and no others. names: sorted, each once.
 * Returns 0, or -1 with an error. */
int cli_darc_session_select(struct cli_darc_session *session, char *const *names, size_t n);
/* Keeps the description of the search (darc_state.h) that an iprobe gets that asks the session. One
 * that cannot be kept is not: the search goes on. */
void cli_darc_session_describe(struct cli_darc_session *session, const char *text, size_t size);
/* Writes what the rings hold as a trace: its path is session->moment then. That of the moment
 * before is still there; those before it may be gone. *ret_overwritten: how many events were
 * overwritten up to now. Returns 0, or -1 with an error: session->moment is as it was. */
int cli_darc_session_write(struct cli_darc_session *session, uint64_t *ret_overwritten);
/* What was written last stays there, whatever is written later: its path is session->kept. What was
 * kept before is not kept any more. */
void cli_darc_session_keep(struct cli_darc_session *session);
/* Whether the session has ended, as it does with its process. */
bool cli_darc_session_has_ended(struct cli_darc_session *session);
/* Puts every byte back. What was written stays. Nothing where that was done before. */
void cli_darc_session_detach(struct cli_darc_session *session);
/* The same, and removes what was written. Returns the exit code of the child, which has printed
 * what went wrong. */
int cli_darc_session_end(struct cli_darc_session *session);

#endif
