/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of iprobe report share: its options, its rows, and the ways to show them.
 */
#ifndef IP_CLI_REPORT_H
#define IP_CLI_REPORT_H

#include "analysis/profile/counts.h"
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

/* Rows whose column compares so with the value are wanted. */
struct cli_report_condition {
	enum cli_report_column column;
	char op; /* '<', '>', 'l' <=, 'g' >= */
	double value;
};

struct cli_report_options {
	struct cli_filter filter;
	enum ip_group_by by;
	enum cli_report_format format;
	const char *sort;  /* a column's name; NULL: as is usual */
	const char *other; /* --diff: directory of the trace to compare with; NULL: none */
	enum cli_report_column columns[CLI_REPORT_COLUMNS];
	size_t ncolumns; /* that text shows in front of names */
	bool chosen;	 /* columns are not the usual ones */
	struct cli_report_condition conditions[CLI_CONDITIONS_MAX];
	size_t nconditions;
};

struct cli_report_row {
	const struct ip_call_stats *stats;
	const struct ip_group *group;		      /* NULL: by function */
	const struct ip_recording_function *function; /* NULL: it is a thread, module, file */
	struct ip_stats_summary summary;
	const char *name;		/* without arguments; of a thread, module, file */
	const char *caller;		/* NULL: none, or rows have none */
	const char *thread;		/* its name; NULL: unknown, or it is none */
	uint64_t count;			/* calls; of a point how often it was passed */
	const struct ip_count *counted; /* NULL: it logged, and nothing else */
	bool logged;			/* its times are those of the events */
	double key;
	bool ambiguous; /* another row has the same name */
	char *text;	/* private: what name or caller is in */
};

struct cli_report {
	const struct cli_report_options *options;
	struct ip_trace_reader *trace;
	struct ip_stats *stats;
	struct ip_counts *counts;
	struct ip_names *names;
	struct cli_report_row *rows;
	size_t nrows;
	const struct ip_recording *clock; /* that durations of calls are in ticks of */
	uint64_t uncounted;		  /* calls that were counted, and belong to no row */
};

/* "calls", "p99.9" ...; of the last one what rows are. */
const char *cli_report_column_name(enum cli_report_column column);

const char *cli_report_group_name(enum ip_group_by by); /* "caller" */

/* -1: go on; else the exit code. report_options.c */
int cli_report_parse(int argc, char **argv, struct cli_report_options *ret);

/* Reads the trace and makes a row for each group with calls that is wanted, sorted. To be
 * cleared even if it fails. 0, or -1 with an error. report_rows.c */
int cli_report_load(const char *dir, const struct cli_report_options *options,
		    struct cli_report *ret);
/* The same, to be compared (analysis/profile/compare.h) with one that has been loaded; base NULL:
 * this is the first. */
int cli_report_load_compared(const char *dir, const struct cli_report_options *options,
			     const struct cli_report *base, struct cli_report *ret);
void cli_report_clear(struct cli_report *report);
bool cli_report_has_times(const struct cli_report_row *row);
/* Whether the row has a figure there; percentiles of what was measured in the process are upper
 * bounds. */
bool cli_report_is_known(const struct cli_report_row *row, enum cli_report_column column);
double cli_report_value(const struct cli_report_row *row, enum cli_report_column column);

/* The function that a line about missing calls means. */
uint32_t cli_report_missing_function(const struct cli_report *r,
				     const struct ip_recording_missing *m);

/* What a row is, for programs. */
struct cli_field {
	const char *key;
	enum { CLI_FIELD_STRING, CLI_FIELD_NUMBER, CLI_FIELD_NONE } type;
	const char *string; /* NULL: unknown */
	uint64_t number;
	char buffer[24];
};

#define CLI_FIELDS_MAX 12u

/* The same fields for all rows of a report; how many. row NULL: their keys alone.
 * report_fields.c */
size_t cli_report_fields(const struct cli_report *r, const struct cli_report_row *row,
			 struct cli_field ret[CLI_FIELDS_MAX]);
/* "call site", "frame"; NULL: none. */
const char *cli_report_payload(const struct cli_report_row *row); /* "log", "count" ... */
const char *cli_report_caller_from(const struct ip_group *group);

/* report_table.c: 0, or -1 with an error; report_json.c, report_csv.c */
int cli_report_table(const struct cli_report *r);
void cli_report_json(const struct cli_report *r);

/* What is said of a row whose times end at a tail call, in some or all calls; "": nothing. */
const char *cli_report_tail_mark(const struct cli_report_row *row, char mark[CLI_TAIL_MARK_MAX]);
/* The same as "until_tail_call" and "until_tail_call_share"; null where nobody has counted. */
void cli_report_tail_json(struct ip_json *j, const struct cli_report_row *row);

/* dropped_after_ns and counted_since of a function whose probes were taken away: its times and
 * events are those until then, its calls too unless they were counted. */
struct ip_json;
void cli_json_dropped(struct ip_json *j, const struct ip_recording *session, uint32_t function);
void cli_report_csv(const struct cli_report *r);

/* report --diff: dir compared with options->other, 0, or -1 with an error. report_diff.c */
int cli_report_diff(const char *dir, const struct cli_report_options *options);

#endif
