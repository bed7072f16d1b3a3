/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of iprobe top share: options, where the figures come from (top_session.c), what is
 * made of them (top_rows.c), how they are written (top_print.c), and the screen with its keys
 * (top_view.c on top_screen.c).
 */
#ifndef IP_CLI_TOP_H
#define IP_CLI_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/profile/counts.h"
#include "analysis/read/names.h"
#include "session/session.h"

/* In the order in which people step through them; names in top_rows.c. */
enum cli_top_column {
	CLI_TOP_RATE,
	CLI_TOP_CALLS,
	CLI_TOP_SELF,
	CLI_TOP_TOTAL,
	CLI_TOP_AVG,
	CLI_TOP_P50,
	CLI_TOP_P99,
	CLI_TOP_MAX,
	CLI_TOP_FUNCTION,
	CLI_TOP_COLUMNS
};

struct cli_top_options {
	int pid;
	const char *functions; /* NULL: all */
	uint64_t delay_ns, duration_ns, memory, max_stop_ns;
	uint64_t iterations; /* 0: until the end */
	size_t limit;	     /* rows; 0: as many as there are, or as the screen has */
	enum cli_top_column sort;
	bool batch, json;
};

/* ---- where the figures come from ---- */

/*
 * A session with --payload hist: one of our own, or the one that the process has.
 *
 * Our own is a process of its own, so that nothing that we do with a terminal keeps it from its
 * work, nor what it does us. It ends when we do, however that happens (PR_SET_PDEATHSIG), and puts
 * every byte back as iprobe attach does. We speak to it as any other iprobe would, by its control
 * socket. Its trace, which holds nothing but counts, lies in a directory of ours in memory; whoever
 * of the two ends last removes it.
 */
struct cli_top_session;

/* What was counted up to a moment. Owned by the session, until the next one is read. */
struct cli_top_snapshot {
	const struct ip_recording *recording;
	struct ip_names *names;
	/* before: that of the snapshot before; NULL: there was none */
	const struct ip_counts *now, *before;
	bool renewed; /* functions have other numbers than in the snapshot before */
};

/* Joins the session of the process, or begins one and waits until it is live. terminal: what its
 * iprobe says on stderr is kept for cli_top_session_said(). 1: there is nothing to show (it has
 * ended already, or a signal came); 0; -1 with an error, or "" where it has been told. */
int cli_top_session_begin(const struct cli_top_options *options, bool terminal,
			  struct cli_top_session **ret);

/* Whether it is somebody else's, and who. */
bool cli_top_session_is_joined(const struct cli_top_session *session);

/* 1: a new snapshot; 0: the session has ended, or does not answer any more, and there is none;
 * -1 with an error. The last one of a session of our own comes when it has ended. */
int cli_top_session_read(struct cli_top_session *session, struct cli_top_snapshot *ret);

/* Readable when a session of our own has ended, or has said something; -1: nothing is. */
int cli_top_session_fd(const struct cli_top_session *session);
bool cli_top_session_has_ended(struct cli_top_session *session);

/* The last line that its iprobe has said since the last call; NULL: none. */
const char *cli_top_session_said(struct cli_top_session *session);

/* Ends it if it is our own, waits, tells what it has said on stderr, removes the directory. The
 * exit code. session may be NULL. */
int cli_top_session_end(struct cli_top_session *session);

/* ---- what is made of them ---- */

struct cli_top_row {
	uint32_t function;	  /* of the recording */
	const char *name, *shown; /* shown: to people, with what its figures are about */
	bool timed;		  /* durations are known: of those below */
	bool has_self;
	bool tails; /* of some calls the durations end at a tail call: */
	bool has_tailed;
	uint64_t tailed;			    /* of so many */
	uint64_t calls, all_calls;		    /* in the interval; since the session began */
	double rate;				    /* calls a second */
	uint64_t total_ns, self_ns, avg_ns, max_ns; /* max: since the session began */
	uint64_t p50_from, p50, p99_from, p99; /* what lies between: upper bounds, and lower ones */
	double key;
};

struct cli_top_rows {
	struct cli_top_row *items;
	size_t n;
	uint64_t interval_ns;	 /* that they are of */
	uint64_t calls, self_ns; /* of all functions that were asked for, shown or not */
	size_t functions;	 /* that are measured; */
	size_t logged;		 /* that are not */
};

/* Rows of what was called in the interval between the two snapshots (since_start: since the
 * session began), sorted. wanted: by function of the recording, NULL: all. -1 with an error. */
int cli_top_rows_make(const struct cli_top_snapshot *snapshot, const bool *wanted, bool since_start,
		      enum cli_top_column sort, bool reverse, struct cli_top_rows *ret);
void cli_top_rows_clear(struct cli_top_rows *rows);

/* "self"...; the column of that name, CLI_TOP_COLUMNS: there is none. */
const char *cli_top_column_name(enum cli_top_column column);
enum cli_top_column cli_top_column_of(const char *name);

/* Which functions a selection means, the caller's; *ret_n: how many. NULL with an error. */
bool *cli_top_select(const struct ip_recording *recording, const char *selection, size_t *ret_n);

/* ---- how they are written ---- */

/* A line without its end, of at most width columns (SIZE_MAX: as long as it is). mark: the column
 * that rows are sorted by. */
void cli_top_print_head(FILE *out, size_t width, enum cli_top_column mark);
void cli_top_print_row(FILE *out, size_t width, const struct cli_top_rows *rows,
		       const struct cli_top_row *row);

/* What a person reads of all rows: "1.2 M calls/s, ...". */
void cli_top_print_sums(FILE *out, const struct cli_top_rows *rows);

/* One object on a line of stdout. */
void cli_top_print_json(const struct cli_top_options *options,
			const struct cli_top_session *session,
			const struct cli_top_snapshot *snapshot, const struct cli_top_rows *rows,
			uint64_t iteration);

/* ---- the screen with its keys ---- */

/* Until a key, a signal, or the session ends it; the first snapshot has been read. -1 with an
 * error. */
int cli_top_view(const struct cli_top_options *options, struct cli_top_session *session,
		 const struct cli_top_snapshot *first);

#endif
