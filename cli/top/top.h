/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of iprobe top share: options, the source of the figures (top_session.c),
 * the rows that are made of them (top_rows.c), their output (top_print.c), and the screen with
 * its keys (top_view.c on cli/screen/).
 */
#ifndef IP_CLI_TOP_H
#define IP_CLI_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/profile/counts.h"
#include "analysis/read/names.h"
#include "cli/live_counts.h"
#include "cli/top/top_kernel.h"
#include "cli/top/top_waits.h"
#include "service/processes.h"
#include "session/session.h"

/* The order in which the keys s and S step through the columns; names in top_rows.c. */
enum cli_top_column {
	CLI_TOP_RATE,
	CLI_TOP_CALLS,
	CLI_TOP_SELF,
	CLI_TOP_TOTAL,
	CLI_TOP_AVG,
	CLI_TOP_P50,
	CLI_TOP_P99,
	CLI_TOP_MAX,
	CLI_TOP_WAIT,
	CLI_TOP_FUNCTION,
	CLI_TOP_COLUMNS
};

struct cli_top_options {
	int pid; /* 0: those of the choice */
	struct ip_service_choice choice;
	const char *functions; /* NULL: all */
	uint64_t delay_ns, duration_ns, memory, max_stop_ns;
	uint64_t iterations; /* 0: until the end */
	size_t limit;	     /* rows; 0: all rows, or as many as the screen has */
	enum cli_top_column sort;
	enum cli_top_waits waits;
	bool batch, json, full_names, memory_asked, waits_asked;
	bool with_idle;	 /* waits for new work count as waits, too */
	bool by_process; /* a row for each function of each process */
	bool by_thread;	 /* a row for each thread */
	/* of each session of its own; no groups: no events of the kernel */
	struct ip_kernel_options kernel;
	char no_kernel[400]; /* why there are none, where they were asked for; "" */
};

/* ---- the source of the figures ---- */

/*
 * A session with --payload hist: a session of this iprobe top, or one that the process has
 * already.
 *
 * A session of its own runs in a process of its own. So nothing that iprobe top does with a
 * terminal, and nothing that the terminal does to iprobe top, keeps the session from its work.
 * The session ends when iprobe top ends, however that happens (PR_SET_PDEATHSIG), and puts every
 * byte back as iprobe attach does. iprobe top speaks to it by its control socket, as any other
 * iprobe would. Its trace holds counts only. It is in a directory of iprobe top in memory, and
 * the process that ends last removes the directory.
 */
struct cli_top_session;

/* The counts up to one moment. Owned by the session, valid until the next snapshot is read. */
struct cli_top_snapshot {
	const struct ip_recording *recording;
	struct ip_names *names;
	/* before: counts of the snapshot before; NULL: there was none */
	const struct ip_counts *now, *before;
	bool renewed; /* functions have other indexes than in the snapshot before */
	const struct cli_top_cpu *cpu;
	const struct cli_top_kernel *kernel; /* NULL: no events of the kernel were asked for */
};

/* Joins the session of the process, or begins one and waits until it is live. terminal: what the
 * session's iprobe prints on stderr is kept for cli_top_session_said(). Returns 0; 1 where there
 * is nothing to show (the session has ended already, or a signal came); -1 with an error, or
 * with "" where the error has been printed. */
int cli_top_session_begin(const struct cli_top_options *options, bool terminal,
			  struct cli_top_session **ret);

/* Returns whether other commands began all the sessions. */
bool cli_top_session_is_joined(const struct cli_top_session *session);

/* Returns how many sessions other commands began. */
size_t cli_top_session_joined(const struct cli_top_session *session);

/* Returns the processes and their figures. */
const struct cli_live_counts *cli_top_session_counts(const struct cli_top_session *session);

/* Reads a snapshot. Returns 1; 0 where there is none, because the session has ended or does not
 * answer any more; -1 with an error. A session of iprobe top's own gives its last snapshot when
 * it has ended. */
int cli_top_session_read(struct cli_top_session *session, struct cli_top_snapshot *ret);

/* Returns what the user is to know of events of the kernel that cannot be had, once; NULL:
 * nothing. */
const char *cli_top_session_without_kernel(struct cli_top_session *session);

/* Returns a descriptor that is readable when a session of iprobe top's own has ended or has
 * printed something; -1: there is none. */
int cli_top_session_fd(const struct cli_top_session *session);
bool cli_top_session_has_ended(struct cli_top_session *session);

/* Returns the last line that the session's iprobe has printed since the last call; NULL: none. */
const char *cli_top_session_said(struct cli_top_session *session);

/* Ends the session where it is iprobe top's own: waits, prints on stderr what it has printed,
 * removes the directory. session may be NULL. Returns the exit code. */
int cli_top_session_end(struct cli_top_session *session);

/* ---- the rows that are made of them ---- */

struct cli_top_row {
	uint32_t function; /* index in the recording */
	/* It is about all functions of a thread; of times only its self time is known. */
	bool is_thread;
	uint32_t tid;		  /* of a thread; 0: of those that are not told apart */
	const char *thread;	  /* its name; NULL: not known */
	char *text;		  /* private: name, where the row owns it */
	pid_t pid;		  /* whose figures they are; 0: of all processes */
	const char *name, *shown; /* shown: for people, with a note on what the figures are about */
	bool timed;		  /* durations are known; they are those below */
	bool has_self;
	bool waits; /* for most of its own time it has no CPU */
	bool has_wait;
	struct cli_top_wait wait; /* by events of the kernel; where has_wait is true */
	bool tails;		  /* durations of some calls end at a tail call */
	bool has_tailed;
	/* number of such calls, where has_tailed is true */
	uint64_t tailed;
	/* calls: in the interval; all_calls: since the session began */
	uint64_t calls, all_calls;
	double rate;				    /* calls a second */
	uint64_t total_ns, self_ns, avg_ns, max_ns; /* max_ns: since the session began */
	/* bounds: a percentile lies from p50_from to p50, from p99_from to p99 */
	uint64_t p50_from, p50, p99_from, p99;
	double key;
	bool below; /* private: it stands below all others */
};

struct cli_top_rows {
	struct cli_top_row *items;
	size_t n;
	uint64_t interval_ns;	 /* length of the interval */
	uint64_t calls, self_ns; /* of all selected functions, shown or not */
	size_t functions;	 /* functions that are measured */
	size_t logged;		 /* functions that another command's session logs */
	/* functions that are live since measured ones jump to them (silent in the recording) */
	struct ip_name_list silent;
	uint64_t waits_ns; /* of self_ns: of functions that wait */
	size_t hidden;	   /* functions that wait and have no row */
	bool by_process;   /* a row is a function of one process */
	bool by_thread;	   /* a row is a thread */
	bool has_waits;	   /* events of the kernel were asked for, and are of this interval */
	uint64_t kernel_lost, kept_ns; /* cli_top_kernel */
	bool has_cpu;
	uint64_t cpu_ns; /* what the processes have used of CPUs */
};

/* What rows are of, and how they are chosen and sorted. */
struct cli_top_order {
	bool by_process, by_thread; /* neither: a row for each function */
	const bool *wanted;	    /* by function of the recording; NULL: all */
	const char *filter;	    /* of threads: a part of the text; NULL, "": all */
	bool since_start; /* figures since the session began, not since the last snapshot */
	enum cli_top_column sort;
	enum cli_top_waits waits;
	bool reverse;
};

/* Makes rows of the functions that were called between the two snapshots, or of the threads that
 * have called some and have not ended, sorted. processes: all. Returns 0, or -1 with an error. */
int cli_top_rows_make(const struct cli_top_snapshot *snapshot,
		      const struct cli_live_counts *processes, const struct cli_top_order *order,
		      struct cli_top_rows *ret);
void cli_top_rows_clear(struct cli_top_rows *rows);

/* Private: top_threads.c, for cli_top_rows_make(). Adds the rows of threads to rows without any. */
int cli_top_threads_add(const struct cli_top_snapshot *s, const struct cli_live_counts *processes,
			const char *filter, bool since_start, double seconds,
			struct cli_top_rows *rows);

/* cli_top_column_name() returns "self" ... cli_top_column_of() returns the column of that name,
 * CLI_TOP_COLUMNS where there is none. */
const char *cli_top_column_name(enum cli_top_column column);
enum cli_top_column cli_top_column_of(const char *name);

/* Returns which functions a selection means, by index; *ret_n is their number. The caller frees
 * the array. Returns NULL with an error. */
bool *cli_top_select(const struct ip_recording *recording, const char *selection, size_t *ret_n);

/* ---- their output ---- */

/* Print a line without its end, of at most width columns (SIZE_MAX: no limit). mark: the column
 * by which rows are sorted. */
void cli_top_print_head(FILE *out, size_t width, enum cli_top_column mark,
			const struct cli_top_rows *rows);
void cli_top_print_row(FILE *out, size_t width, const struct cli_top_rows *rows,
		       const struct cli_top_row *row);

/* Prints the sums of all rows for people: "1.2 M calls/s, ...". */
void cli_top_print_sums(FILE *out, const struct cli_top_rows *rows);
/* Prints a line on what has no row since only the first shown rows are printed; nothing where all
 * are. */
void cli_top_print_more(FILE *out, const struct cli_top_rows *rows, size_t shown);

/* Prints one object on a line of stdout. */
void cli_top_print_json(const struct cli_top_options *options,
			const struct cli_top_session *session,
			const struct cli_top_snapshot *snapshot, const struct cli_top_rows *rows,
			uint64_t iteration);

/* ---- the screen with its keys ---- */

/* Shows the screen until a key, a signal, or the session's end ends it. first is the first
 * snapshot. Returns 0, or -1 with an error. */
int cli_top_view(const struct cli_top_options *options, struct cli_top_session *session,
		 const struct cli_top_snapshot *first);

#endif
