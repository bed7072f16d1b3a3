/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of live processes: what their sessions count and measure, added up by function.
 *
 * Each session belongs to an iprobe that writes its counts into its own trace when it is asked. The
 * recordings of several processes are put together (analysis/read/members.h), so that a function
 * that they share is one. Processes may come and go between two readings. One that has ended keeps
 * what it had counted, so sums do not shrink.
 */
#ifndef IP_CLI_LIVE_COUNTS_H
#define IP_CLI_LIVE_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "analysis/profile/counts.h"
#include "analysis/read/names.h"

struct cli_live_process {
	pid_t pid;
	char *dir;	      /* the trace of its session */
	bool joined;	      /* the session belongs to another command */
	bool ended;	      /* it is not asked any more */
	bool known;	      /* its trace could be read */
	bool left_out;	      /* it cannot be read; that has been told */
	struct stat seen;     /* state of its session file when that was read */
	char *text, *before;  /* its counts: the last reading, and the one before; NULL: none */
	size_t size, nbefore; /* bytes of these */
	const struct ip_recording_member *member; /* in the recording; NULL: it is alone there */
};

struct cli_live_counts {
	bool full_names; /* of the caller: names are whole */
	struct cli_live_process *processes;
	size_t n;
	struct ip_recording *recording; /* of all; NULL until one could be read */
	struct ip_names *names;
	/* before: of the reading before; NULL: there was none */
	struct ip_counts *now, *before;
};

/* Adds a process. dir is owned by counts from then on, also where this fails. A directory that is
 * there already is not added again. Returns 0, or -1 with an error. */
int cli_live_counts_add(struct cli_live_counts *counts, pid_t pid, char *dir, bool joined);

/* Returns the process that is asked for the pid, or NULL. */
struct cli_live_process *cli_live_counts_find(const struct cli_live_counts *counts, pid_t pid);

/* Asks all sessions to write their counts. only_joined: sessions of this command's own have ended.
 * Returns how many have answered; where it is 0 the error of the last one is set. */
size_t cli_live_counts_ask(struct cli_live_counts *counts, bool only_joined);

/* Waits, where sessions have just ended, until they have written their last counts; for 3 s at
 * most. */
void cli_live_counts_await_end(const struct cli_live_counts *counts);

/* Reads what has been written. Returns 1 where functions have other indexes than in the reading
 * before, 0 where they have not, or -1 with an error. recording is still NULL where there is
 * nothing to read yet. */
int cli_live_counts_read(struct cli_live_counts *counts);

/* Makes the counts of one process by function of the recording. *ret_before is NULL where there is
 * no reading before. The caller destroys both. Returns 1; 0 where nothing of the process has been
 * read; -1 with an error. */
int cli_live_counts_of(const struct cli_live_counts *counts, size_t process,
		       struct ip_counts **ret_now, struct ip_counts **ret_before);

void cli_live_counts_clear(struct cli_live_counts *counts);

#endif
