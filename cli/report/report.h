/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of iprobe report share: its options, its rows, and the functions that
 * print them.
 */
#ifndef IP_CLI_REPORT_H
#define IP_CLI_REPORT_H

#include "analysis/profile/counts.h"
#include "analysis/profile/slowest.h"
#include "analysis/profile/stats.h"
#include "analysis/read/names.h"
#include "cli/filter_options.h"
#include "cli/tail_mark.h"

enum cli_report_column {
	CLI_BY_CALLS,
	CLI_BY_TOTAL,
	CLI_BY_SELF,
	CLI_BY_MIN,
	CLI_BY_AVG,
	CLI_BY_P50,
	CLI_BY_P90,
	CLI_BY_P99,
	CLI_BY_P999,
	CLI_BY_MAX,
	CLI_BY_STDDEV,
	CLI_BY_THREADS,
	CLI_BY_FUNCTION,
	CLI_REPORT_COLUMNS,
};

enum cli_report_format { CLI_REPORT_TEXT, CLI_REPORT_JSON, CLI_REPORT_CSV };

#define CLI_CONDITIONS_MAX 16u
#define CLI_ROW_NOTE_MAX   (CLI_TAIL_MARK_MAX + 64)
#define CLI_SORT_VALUE	   "value" /* what --sort calls the order of values */

/* Keeps the rows whose column compares in this way with the value. */
struct cli_report_condition {
	enum cli_report_column column;
	char op; /* '<', '>', 'l' <=, 'g' >= */
	double value;
};

struct cli_report_options {
	struct cli_filter filter;
	enum ip_group_by by;
	bool per_process;	/* each process by itself */
	const char *value;	/* --by value: NAME or NAME/log2 */
	const char *unknown_by; /* --by WHAT that there is not; NULL: there is none such */
	size_t slowest;		/* --slowest; 0: not given */
	enum ip_slowest_by slowest_by;
	const char *slowest_value; /* --slowest by value: its name */
	bool innermost;		   /* --slowest: none that is around others of these */
	bool in_time;		   /* --slowest: in the order of time */
	enum cli_report_format format;
	const char *sort;  /* name of a column; NULL: the default order */
	const char *other; /* --diff: directory of the trace to compare with; NULL: none */
	enum cli_report_column columns[CLI_REPORT_COLUMNS];
	size_t ncolumns; /* columns that the text output shows before names */
	bool chosen;	 /* the user has chosen the columns */
	struct cli_report_condition conditions[CLI_CONDITIONS_MAX];
	size_t nconditions;
};

struct cli_report_row {
	const struct ip_call_stats *stats;
	const struct ip_group *group; /* NULL: by function */
	/* NULL: the row is a thread, module or file */
	const struct ip_recording_function *function;
	struct ip_stats_summary summary;
	/* name of the function without arguments, or of the thread, module or file */
	const char *name;
	const char *caller; /* NULL: no caller, or rows have no callers */
	/* name of the thread; NULL: unknown, or the row is no thread */
	const char *thread;
	/* NULL: the row is not about one process */
	const struct ip_trace_process *process;
	uint64_t count;			/* calls; of a point: how often it was passed */
	const struct ip_count *counted; /* NULL: the function logged only */
	bool logged;			/* its times come from logged events */
	/* ns that a call has lasted which had not finished; 0: there is none, or one that has
	 * finished lasted longer, or none has finished */
	uint64_t open_ns;
	double key;
	bool ambiguous; /* another row has the same name */
	/* By value: the value, "/index.html" with its quotes, and for programs without; NULL: not
	 * by value. */
	char *value, *value_text;
	char *text; /* private: the text that name or caller points into */
};

struct cli_report {
	const struct cli_report_options *options;
	struct ip_trace_reader *trace;
	struct ip_stats *stats;
	struct ip_counts *counts;
	struct ip_names *names;
	struct cli_report_row *rows;
	size_t nrows;
	/* durations of calls are in ticks of this recording's clock */
	const struct ip_recording *clock;
	uint64_t uncounted; /* calls that were counted but belong to no row */
	/* by value: calls of functions none of whose calls has the value */
	uint64_t valueless;
};

struct cli_column {
	const char *name; /* "calls", "p99.9" ... That of CLI_BY_FUNCTION is what the rows are. */
	const char *key;  /* for programs; NULL: not among the figures */
	/* key of the bounds between which a percentile of a histogram lies that the process made */
	const char *bounds;
	double share;  /* of a percentile; 0: it is none */
	size_t figure; /* where it is in struct ip_stats_summary, for times but stddev */
};
/* report_columns.c */
extern const struct cli_column cli_report_columns[CLI_REPORT_COLUMNS];

/* Returns what rows are put together by: "caller", "value:uri" ... */
const char *cli_report_group_name(const struct cli_report_options *options);
/* Returns whether rows are functions, as in session->functions. */
static inline bool cli_report_is_by_function(const struct cli_report_options *o)
{
	return o->by == IP_GROUP_BY_FUNCTION && !o->per_process;
}

/* report_options.c. Returns -1: go on; else the exit code. ret->unknown_by is yet to be told, since
 * the trace has more to say of it. */
int cli_report_parse(int argc, char **argv, struct cli_report_options *ret);
/* Reports options->unknown_by as a usage error. dir: the trace, whose values may be meant. Returns
 * 2. */
int cli_report_no_group(const char *command, const char *dir,
			const struct cli_report_options *options);

/* report_rows.c. Reads the trace and makes a row for each wanted group that has calls. Rows are
 * sorted. screen: where the table is shown meanwhile; NULL: nowhere. The caller clears *ret even
 * where it fails. Returns 0, or -1 with an error. */
struct cli_reading_screen;
int cli_report_load(const char *dir, const struct cli_report_options *options,
		    struct cli_reading_screen *screen, struct cli_report *ret);
/* Loads a trace to be compared (analysis/profile/compare.h) with base, which has been loaded
 * before. base NULL: this is the first of the two. */
int cli_report_load_compared(const char *dir, const struct cli_report_options *options,
			     const struct cli_report *base, struct cli_report *ret);
/* Loads a trace that is open already. ret->trace is that trace, and cli_report_clear() closes it.
 */
int cli_report_load_open(struct ip_trace_reader *trace, const struct cli_report_options *options,
			 struct cli_report *ret);
void cli_report_clear(struct cli_report *report);
/* report_order.c. Sorts the rows as the options say. */
void cli_report_sort_rows(struct cli_report *report);
/* Returns which values have rows of their own where there are too many: those that come first by
 * the order of rows, as far as it can be told from a few figures. */
enum ip_value_order cli_report_value_order(const struct cli_report_options *options);
/* Sorts the rows by a column as the table is sorted: the largest first, names from A on. */
void cli_report_sort(struct cli_report *report, enum cli_report_column by);

/* report_columns.c. A time of a summary; not of columns that are none. */
uint64_t *cli_report_figure(struct ip_stats_summary *summary, enum cli_report_column column);
bool cli_report_has_times(const struct cli_report_row *row);
/* Returns whether the row has a figure in the column. Percentiles of durations that the process
 * measured are upper bounds. */
bool cli_report_is_known(const struct cli_report_row *row, enum cli_report_column column);
/* The same, but such a bound does not count. */
bool cli_report_is_exact(const struct cli_report_row *row, enum cli_report_column column);
double cli_report_value(const struct cli_report_row *row, enum cli_report_column column);

/* Returns the function that a line about missing calls is about. */
/* Returns the name of a row for people: short, unless --full-names. */
const char *cli_report_text(const struct cli_report *r, const struct cli_report_row *row);

uint32_t cli_report_missing_function(const struct cli_report *r,
				     const struct ip_recording_missing *m);

/* A field of a row, for programs. */
struct cli_field {
	const char *key;
	enum {
		CLI_FIELD_STRING,
		CLI_FIELD_NUMBER,
		CLI_FIELD_REAL,
		CLI_FIELD_VALUE, /* JSON: value, CSV: string */
		CLI_FIELD_NONE
	} type;
	const char *string; /* NULL: unknown */
	uint64_t number;
	double real;
	const struct ip_value_key *value;
	char buffer[24];
};

#define CLI_FIELDS_MAX 14u

/* report_fields.c. Makes the fields of a row, the same ones for all rows of a report. row NULL:
 * their keys only. Returns their number. */
size_t cli_report_fields(const struct cli_report *r, const struct cli_report_row *row,
			 struct cli_field ret[CLI_FIELDS_MAX]);
/* cli_report_payload() returns what the row's probes did, "log", "count" ...
 * cli_report_caller_from() returns how the caller is known, "call site" or "frame"; NULL: there
 * is no caller. */
const char *cli_report_payload(const struct cli_report_row *row);
const char *cli_report_caller_from(const struct ip_group *group);

/* report_table.c: cli_report_table() returns 0, or -1 with an error. report_json.c,
 * report_csv.c: the others. */
int cli_report_table(const struct cli_report *r);
/* Prints a figure of a row with a blank before it: 9 columns, 11 for calls. */
void cli_report_print_cell(FILE *out, const struct cli_report_row *row,
			   enum cli_report_column column);
/* Returns the name of a row in at most width columns. Several functions with the same name get what
 * tells them apart. The caller follows. The caller frees it; NULL: memory ran out. */
char *cli_report_row_name(const struct cli_report *r, const struct cli_report_row *row,
			  size_t width);
void cli_report_json(const struct cli_report *r);

/* Returns a note about a row whose times end at a tail call in some or all calls; "": no note. */
const char *cli_report_tail_mark(const struct cli_report_row *row, char mark[CLI_TAIL_MARK_MAX]);
/* Returns all that is noted behind the name of a row: the tail calls, and the calls that have not
 * finished. "": no note. */
const char *cli_report_row_note(const struct cli_report_row *row, char note[CLI_ROW_NOTE_MAX]);
/* Writes the note as "until_tail_call" and "until_tail_call_share"; null where the calls were
 * not counted. */
void cli_report_tail_json(struct ip_json *j, const struct cli_report_row *row);

/* Writes "dropped_after_ns" and "counted_since" for a function whose probes were taken away. Its
 * times and events are those until then. So are its calls, unless they were counted afterwards. */
struct ip_json;
void cli_json_dropped(struct ip_json *j, const struct ip_recording *session, uint32_t function);
void cli_report_csv(const struct cli_report *r);

/* report_slowest.c. Prints report --slowest. Returns 0, or -1 with an error. */
int cli_report_slowest(const char *dir, struct cli_report_options *options);

/* report_diff.c. Prints report --diff: dir compared with options->other. Returns 0, or -1 with
 * an error. */
int cli_report_diff(const char *dir, const struct cli_report_options *options);

#endif
