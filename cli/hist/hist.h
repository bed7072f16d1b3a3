/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobe hist shows, and the functions that print it.
 */
#ifndef IP_CLI_HIST_H
#define IP_CLI_HIST_H

#include "analysis/profile/counts.h"
#include "analysis/profile/latency/latency.h"
#include "analysis/profile/tree_threads.h"
#include "analysis/read/names.h"
#include "cli/filter_options.h"
#include "cli/live_counts.h"
#include "common/json.h"
#include "service/processes.h"

#define CLI_HIST_BY "value:" /* what --by begins with */

struct cli_hist {
	const char *dir;
	const struct ip_recording *session;
	uint64_t lost;
	struct ip_names *names;
	const struct ip_latencies *latencies;  /* NULL: logged calls are not read */
	const struct ip_tree_threads *threads; /* of the trace; NULL: all are shown */
	const struct ip_counts *counts;
	const char *by;	      /* "value:NAME"; NULL: by function */
	uint64_t interval_ns; /* slices of the latencies are shown as intervals; 0: as a picture */
	int pid;	      /* process of a session that goes on; 0: a trace, or several */
	const struct cli_live_counts *live; /* sessions that go on; NULL: a trace */
	uint32_t *order; /* functions, or groups by value, the most expensive first */
	size_t n;
};

/* The histogram of one function. Either its calls were logged, or the process made the histogram
 * (--payload hist). */
struct cli_histogram {
	uint64_t until_tail;		 /* calls whose time ends at a tail call */
	uint64_t count, min, max, total; /* ns */
	uint64_t self;
	bool has_self;
	unsigned nbuckets;
	uint64_t calls[IP_LATENCY_BUCKETS], from[IP_LATENCY_BUCKETS], to[IP_LATENCY_BUCKETS];
	bool peaks[IP_LATENCY_BUCKETS];
	const struct ip_latency *logged; /* NULL: the function was not logged */
};

/* Makes the histogram of an element of order. */
void cli_hist_make(const struct cli_hist *h, uint32_t item, struct cli_histogram *ret);

/* Of an element of order. */
uint64_t cli_hist_calls(const struct cli_hist *h, uint32_t item);
uint64_t cli_hist_total(const struct cli_hist *h, uint32_t item);

/* Returns the function of an element of order. */
uint32_t cli_hist_function(const struct cli_hist *h, uint32_t item);
/* By value: returns the value of an element of order; NULL: not by value. */
const struct ip_value_group *cli_hist_value(const struct cli_hist *h, uint32_t item);

/* Returns whether the process made some of the histograms. */
bool cli_hist_any_measured(const struct cli_hist *h);

/* Sorts the selected functions, or their values, at most limit. Returns 0, or -1 with an error:
 * there are none. */
int cli_hist_order(struct cli_hist *h, const bool *selected, size_t limit);

/* Print the functions in order. */
int cli_hist_text(const struct cli_hist *h); /* 0, or -1 with an error */
void cli_hist_json(const struct cli_hist *h);

/* hist_intervals.c. Print the histogram of one function, or value, in each interval. */
void cli_hist_intervals_text(const struct cli_hist *h, const struct ip_latency *f);
void cli_hist_intervals_json(struct ip_json *j, const struct cli_hist *h,
			     const struct ip_latency *f);

/* Writes an element of "buckets". to UINT64_MAX: it has no upper bound. */
void cli_hist_bucket_json(struct ip_json *j, uint64_t from, uint64_t to, uint64_t calls, bool peak);

/* Writes "calls" to "buckets" of a histogram. */
void cli_hist_figures_json(struct ip_json *j, const struct cli_hist *h, uint32_t item,
			   const struct cli_histogram *f);
/* Writes "buckets" of a histogram. */
void cli_hist_buckets_json(struct ip_json *j, const struct cli_histogram *f);
/* Writes which processes that go on the histograms are of. */
void cli_hist_processes_json(struct ip_json *j, const struct cli_hist *h);
/* Writes the value of a group: "value", "value_is", and bounds of a range. */
void cli_hist_value_json(struct ip_json *j, const struct ip_value_group *group);

struct cli_hist_options {
	struct cli_filter filter;
	/* of a session: time between repeated outputs; 0: one output. Of a trace: length of the
	 * intervals; 0: none */
	uint64_t interval_ns;
	const char *by;	   /* "value:NAME", "value:NAME/log2"; NULL: by function */
	const char *other; /* --diff: the trace to compare with; NULL: none */
	bool over_time, json;
	bool is_process; /* -p, --name and the like */
};

/* hist_load.c: a trace, and what is shown of it. All zero: there is none. */
struct cli_hist_trace {
	struct cli_hist hist;
	struct ip_trace_reader *reader;
	struct ip_names *names;
	struct ip_tree_threads *threads;
	struct ip_latencies *latencies;
	struct ip_counts *counts;
	bool *selected;
};

struct cli_reading_screen;

/* Opens a trace; screen as in cli_reading_screen_open(). Returns 0, or -1 with an error; to be
 * closed in both cases. */
int cli_hist_open(const char *dir, const struct cli_hist_options *options,
		  struct cli_reading_screen *screen, struct cli_hist_trace *ret);
/* Reads it. durations: as in struct ip_latency_options. Finds the values of --value in this trace.
 * Returns 0, or -1 with an error. */
int cli_hist_collect(struct cli_hist_trace *trace, struct cli_hist_options *options,
		     const struct ip_latency_slices *slices, bool durations);
void cli_hist_close(struct cli_hist_trace *trace);

/* hist_diff.c. Shows how a trace differs from that of the options. Returns 0, or -1 with an error.
 */
int cli_hist_show_diff(const char *dir, struct cli_hist_options *options);

/* hist_live.c. Shows the histograms of the sessions of processes. Returns the exit code. */
int cli_hist_live(const struct ip_service_choice *choice, const struct cli_hist_options *options);

#endif
