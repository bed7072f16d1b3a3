/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe report: the functions of a trace as a table.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analysis/counts.h"
#include "analysis/names.h"
#include "analysis/stats.h"
#include "cli/cli.h"
#include "cli/reader.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/selection.h"
#include "common/units.h"
#include "common/utf8.h"

static const char help[] = "usage: iprobe report [OPTIONS] [DIR]\n\n"
			   "Shows the functions of a trace (iprobe.data): calls, times, percentiles.\n\n"
			   "  -s, --sort COLUMN    calls, total (default), self, min, avg, p50, p90, p99, "
			   "p99.9, max, stddev, threads or\n"
			   "                       function\n"
			   "  -n, --limit N        the first N functions only\n"
			   "  -f, --functions SEL  these functions only\n"
			   "      --json           one JSON document, with all columns\n";

#define OTHER_COLUMNS 76u
#define NAME_MIN      24u

#define MISSING_SHOWN 10 /* --json has them all */

enum column {
	BY_CALLS,
	BY_TOTAL,
	BY_SELF,
	BY_MIN,
	BY_AVG,
	BY_P50,
	BY_P90,
	BY_P99,
	BY_P999,
	BY_MAX,
	BY_STDDEV,
	BY_THREADS,
	BY_FUNCTION,
	NCOLUMNS,
};

static const char *const columns[NCOLUMNS] = {"calls", "total", "self", "min",	  "avg",     "p50",	"p90",
					      "p99",   "p99.9", "max",	"stddev", "threads", "function"};

struct row {
	const struct ip_function_stats *stats;
	const struct ip_recording_function *function;
	struct ip_stats_summary summary;
	const char *name; /* without arguments */
	uint64_t count;	  /* calls; of a point how often it was passed */
	const struct ip_count *counted; /* NULL: it logged, and nothing else */
	bool logged;			/* its times are those of the events */
	double key;
	bool ambiguous; /* another row has the same name */
};

struct report {
	struct ip_trace_reader *trace;
	struct ip_stats *stats;
	struct ip_counts *counts;
	struct ip_names *names;
	struct row *rows;
	size_t nrows;
};

static double key_of(const struct row *row, enum column column)
{
	const struct ip_stats_summary *s = &row->summary;
	const double keys[NCOLUMNS] = {
		[BY_CALLS] = row->count, [BY_TOTAL] = s->total,	  [BY_SELF] = s->self,
		[BY_MIN] = s->min,	 [BY_AVG] = s->avg,	  [BY_P50] = s->p50,
		[BY_P90] = s->p90,	 [BY_P99] = s->p99,	  [BY_P999] = s->p999,
		[BY_MAX] = s->max,	 [BY_STDDEV] = s->stddev, [BY_THREADS] = row->stats->threads};

	return keys[column];
}

static int by_name(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	if (!order)
		order = strcmp(x->function->linker_name, y->function->linker_name);
	return order ? order : (x->function > y->function) - (x->function < y->function);
}

/* Largest first; the same rows in the same order each time. */
static int by_key(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return by_name(a, b);
}

/* What a histogram tells: percentiles are upper bounds. */
static void summarize_counted(const struct report *r, const struct ip_count *c, struct ip_stats_summary *ret)
{
	const struct ip_recording *s = r->trace->session;
	const struct {
		double share;
		uint64_t *ret;
	} percentiles[] = {{0.5, &ret->p50}, {0.9, &ret->p90}, {0.99, &ret->p99}, {0.999, &ret->p999}};
	uint64_t from;

	*ret = (struct ip_stats_summary){0};
	if (!c->ended)
		return;
	ret->total = ip_recording_ns(s, c->sum);
	ret->avg = ip_recording_ns(s, c->sum / c->ended);
	ret->min = ip_recording_ns(s, c->min);
	ret->max = ip_recording_ns(s, c->max);
	for (size_t i = 0; i < sizeof(percentiles) / sizeof(*percentiles); i++)
		ip_counts_percentile(r->counts, s, c, percentiles[i].share, &from, percentiles[i].ret);
}

static bool has_times(const struct row *row)
{
	return row->logged ? row->stats->calls : row->counted && row->counted->ended;
}

static const char *payload_of(const struct row *row)
{
	if (!row->counted)
		return "log";
	if (row->logged)
		return row->counted->measured ? "log+hist" : "log+count";
	return row->counted->measured ? "hist" : "count";
}

/* One row for each function that was called. */
static int make_rows(struct report *r, const bool *selected, enum column column)
{
	const struct ip_recording *s = r->trace->session;

	r->rows = calloc(s->nfunctions, sizeof(*r->rows));
	if (!r->rows)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->nfunctions; i++) {
		struct row *row = &r->rows[r->nrows];

		row->stats = &r->stats->functions[i];
		row->count = row->stats->calls ? row->stats->calls : row->stats->points;
		row->logged = row->count;
		row->counted = r->counts->functions[i].calls ? &r->counts->functions[i] : NULL;
		row->count += r->counts->functions[i].calls;
		if (!row->count || !selected[i])
			continue;
		row->function = &s->functions[i];
		row->name = ip_names_get(r->names, i);
		if (row->counted && !row->logged)
			summarize_counted(r, row->counted, &row->summary);
		else
			ip_stats_summarize(s, row->stats, &row->summary);
		row->key = key_of(row, column);
		r->nrows++;
	}
	qsort(r->rows, r->nrows, sizeof(*r->rows), by_name);
	for (size_t i = 1; i < r->nrows; i++)
		if (!strcmp(r->rows[i].name, r->rows[i - 1].name))
			r->rows[i].ambiguous = r->rows[i - 1].ambiguous = true;
	if (column != BY_FUNCTION)
		qsort(r->rows, r->nrows, sizeof(*r->rows), by_key);
	return 0;
}

static uint32_t function_of(const struct report *r, const struct ip_recording_missing *m)
{
	return ip_recording_number(r->trace->session, m->number).function;
}

/* From when to when calls were not recorded, since somebody else had changed the sites. */
static void print_missing_json(struct ip_json *j, const struct report *r)
{
	const struct ip_recording *s = r->trace->session;

	if (!s->nmissing)
		return;
	ip_json_array(j, "missing");
	for (size_t i = 0; i < s->nmissing; i++) {
		ip_json_object(j, NULL);
		ip_json_string(j, "function", ip_names_get(r->names, function_of(r, &s->missing[i])));
		ip_json_uint(j, "from_ns", ip_recording_since_start(s, s->missing[i].from));
		ip_json_uint(j, "to_ns", ip_recording_since_start(s, s->missing[i].to));
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

static void print_missing(const struct report *r)
{
	const struct ip_recording *s = r->trace->session;
	char from[16], to[16];

	if (s->nmissing)
		fputs("\nCalls are missing, since somebody else (a uprobe, a debugger) had changed the sites of\n", stdout);
	for (size_t i = 0; i < s->nmissing && i < MISSING_SHOWN; i++) {
		fputs("  ", stdout);
		ip_print_clean(stdout, ip_names_get(r->names, function_of(r, &s->missing[i])));
		printf(" from %s to %s after the start\n",
		       ip_format_ns(ip_recording_since_start(s, s->missing[i].from), from),
		       ip_format_ns(ip_recording_since_start(s, s->missing[i].to), to));
	}
	if (s->nmissing > MISSING_SHOWN)
		printf("  ... and %zu more\n", s->nmissing - MISSING_SHOWN);
}

static void json_logged(struct ip_json *j, const struct row *row)
{
	const struct ip_stats_summary *s = &row->summary;

	ip_json_uint(j, "total_ns", s->total);
	ip_json_uint(j, "self_ns", s->self);
	ip_json_uint(j, "min_ns", s->min);
	ip_json_uint(j, "avg_ns", s->avg);
	ip_json_uint(j, "p50_ns", s->p50);
	ip_json_uint(j, "p90_ns", s->p90);
	ip_json_uint(j, "p99_ns", s->p99);
	ip_json_uint(j, "p999_ns", s->p999);
	ip_json_uint(j, "max_ns", s->max);
	ip_json_double(j, "stddev_ns", s->stddev);
	ip_json_uint(j, "threads", row->stats->threads);
	ip_json_uint(j, "tail_exits", row->stats->tails);
	ip_json_uint(j, "unwound", row->stats->unwound);
	ip_json_uint(j, "unfinished", row->stats->unfinished);
}

static void json_known(struct ip_json *j, const char *key, bool known, uint64_t value)
{
	if (known)
		ip_json_uint(j, key, value);
	else
		ip_json_string(j, key, NULL);
}

static void json_bounds(struct ip_json *j, const struct report *r, const struct row *row, const char *key,
			double share)
{
	uint64_t from, below;

	ip_counts_percentile(r->counts, r->trace->session, row->counted, share, &from, &below);
	ip_json_array(j, key);
	ip_json_uint(j, NULL, from);
	ip_json_uint(j, NULL, below);
	ip_json_end_array(j);
}

/* The keys are the same; what is not known is null. */
static void json_counted(struct ip_json *j, const struct report *r, const struct row *row)
{
	static const char *const unknown[] = {"self_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "stddev_ns", "threads"};
	const struct ip_stats_summary *s = &row->summary;
	bool known = row->counted->ended;

	json_known(j, "total_ns", known, s->total);
	json_known(j, "min_ns", known, s->min);
	json_known(j, "avg_ns", known, s->avg);
	json_known(j, "max_ns", known, s->max);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		ip_json_string(j, unknown[i], NULL);
	if (known) {
		json_bounds(j, r, row, "p50_bounds_ns", 0.5);
		json_bounds(j, r, row, "p90_bounds_ns", 0.9);
		json_bounds(j, r, row, "p99_bounds_ns", 0.99);
		json_bounds(j, r, row, "p999_bounds_ns", 0.999);
	}
	if (row->counted->measured)
		ip_json_uint(j, "unmeasured", row->counted->calls - row->counted->ended);
}

static void print_json(const struct report *r, size_t limit)
{
	const struct ip_trace_reader *t = r->trace;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", r->stats->events);
	ip_json_uint(&j, "lost", t->lost);
	if (t->session->payloads)
		ip_json_uint(&j, "counted", r->counts->calls);
	if (t->session->overwrites)
		ip_json_uint(&j, "overwritten", t->session->overwritten);
	if (t->session->filtered)
		ip_json_uint(&j, "filtered", t->session->filtered);
	ip_json_uint(&j, "threads", t->threads);
	ip_json_uint(&j, "duration_ns", ip_recording_ns(t->session, t->end - t->begin));
	ip_json_bool(&j, "ended", t->session->ended);
	ip_json_bool(&j, "damaged", t->ndamages || t->missing);
	ip_json_uint(&j, "unwound", r->stats->unwound);
	ip_json_uint(&j, "unfinished", r->stats->unfinished);
	ip_json_uint(&j, "orphan_exits", r->stats->orphans);
	ip_json_uint(&j, "suspect", r->stats->suspect);
	print_missing_json(&j, r);
	ip_json_array(&j, "functions");
	for (size_t i = 0; i < r->nrows && i < limit; i++) {
		const struct row *row = &r->rows[i];

		ip_json_object(&j, NULL);
		ip_json_string(&j, "function", row->name);
		ip_json_string(&j, "linker_name", row->function->linker_name);
		ip_json_string(&j, "module", ip_recording_module_name(t->session, row->function));
		ip_json_string(&j, "file", row->function->file);
		ip_json_uint(&j, "line", row->function->line);
		ip_json_uint(&j, "calls", row->count);
		ip_json_string(&j, "payload", payload_of(row));
		ip_json_uint(&j, "points", row->stats->points);
		if (row->counted && !row->logged)
			json_counted(&j, r, row);
		else
			json_logged(&j, row);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

/* Columns that a name takes on a terminal, counting one for each character. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text += ip_utf8_length(text) ? ip_utf8_length(text) : 1)
		width++;
	return width;
}

/* "<", "<<=", "->" ... after "operator" are no brackets. */
static size_t operator_length(const char *name, const char *p)
{
	size_t n;

	if (p - name < 8 || strncmp(p - 8, "operator", 8))
		return 0;
	n = strspn(p, "<>=-");
	return n < 3 ? n : 3;
}

/* Takes out what stands in template brackets: a<b<c>>::d -> a<>::d, in place. */
static void fold_templates(char *name)
{
	char *out = name;
	size_t depth = 0;

	for (const char *p = name; *p; p++) {
		size_t op = operator_length(name, p);

		if (op && depth == 0) {
			memmove(out, p, op);
			out += op;
			p += op - 1;
			continue;
		}
		if (*p == '>' && depth)
			depth--;
		if (!depth)
			*out++ = *p;
		if (*p == '<' && !depth++)
			continue;
	}
	*out = '\0';
}

/* The name as it fits: whole, without template arguments, or its end, which tells most. */
static char *fit(const struct report *r, const struct row *row, size_t width)
{
	char *name = NULL;
	size_t n;

	if (row->ambiguous) {
		_cleanup_free_ char *full = ip_demangle(row->function->linker_name, true);

		if (full && asprintf(&name, "%s [%s]", full,
				     ip_recording_module_name(r->trace->session, row->function)) < 0)
			name = NULL;
	}
	if (!name)
		name = strdup(row->name);
	if (!name)
		return NULL;
	ip_clean(name);
	if (width_of(name) > width)
		fold_templates(name);
	n = width_of(name);
	if (n > width) {
		char *p = name;

		for (size_t skip = n - width + 3; skip; skip--)
			p += ip_utf8_length(p);
		memmove(name + 3, p, strlen(p) + 1);
		memcpy(name, "...", 3);
	}
	return name;
}

/* Room for names. What is not read by a person at once (a pipe, a file) has names as they are. */
static size_t name_width(void)
{
	struct winsize size = {0};

	if (!isatty(STDOUT_FILENO))
		return SIZE_MAX;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < NAME_MIN + OTHER_COLUMNS)
		return NAME_MIN;
	return size.ws_col - OTHER_COLUMNS;
}

static void print_time(const struct row *row, uint64_t ns, bool of_ended_calls)
{
	char buffer[16];
	const struct ip_histogram *h = &row->stats->histogram;

	if (!has_times(row) || (row->logged && of_ended_calls && !h->count && !h->dropped))
		printf(" %8s", "-");
	else
		printf(" %8s", ip_format_ns(ns, buffer));
}

/* Of a histogram an upper bound is known. */
static void print_percentile(const struct row *row, uint64_t ns)
{
	char buffer[16], bound[20];

	if (row->logged || !has_times(row)) {
		print_time(row, ns, true);
		return;
	}
	snprintf(bound, sizeof(bound), "<%s", ip_format_ns(ns, buffer));
	printf(" %8s", bound);
}

static void print_header(const struct report *r)
{
	const struct ip_trace_reader *t = r->trace;
	char duration[16], events[32], threads[32], lost[32], counted[32];

	ip_print_clean(stdout, t->dir);
	if (t->session->command && *t->session->command) {
		fputs(": ", stdout);
		ip_print_clean(stdout, t->session->command);
	}
	printf("\n%s events", ip_format_count(r->stats->events, events));
	if (t->lost)
		printf(", %s LOST", ip_format_count(t->lost, lost));
	else
		fputs(", none lost", stdout);
	if (t->session->payloads)
		printf(", %s calls counted", ip_format_count(r->counts->calls, counted));
	if (t->session->overwrites)
		printf(", %s before them overwritten", ip_format_count(t->session->overwritten, lost));
	if (t->session->filtered)
		printf(", %s filtered", ip_format_count(t->session->filtered, lost));
	printf(", %s thread%s, %s\n\n", ip_format_count(t->threads, threads), t->threads == 1 ? "" : "s",
	       ip_format_ns(ip_recording_ns(t->session, t->end - t->begin), duration));
}

static void print_footer(const struct report *r, size_t limit)
{
	char count[32];

	if (limit < r->nrows)
		printf("... and %zu more functions\n", r->nrows - limit);
	if (r->stats->unfinished)
		printf("\n%s calls had not finished when the recording ended; until then they count in "
		       "calls, total and "
		       "self.\n",
		       ip_format_count(r->stats->unfinished, count));
	if (r->stats->suspect)
		printf("\n%s calls may be several taken for one, since events were lost meanwhile; they are "
		       "not in "
		       "min to max.\n",
		       ip_format_count(r->stats->suspect, count));
	if (r->stats->orphans)
		printf("\n%s exits belong to calls that began before the recording; they are not counted.\n",
		       ip_format_count(r->stats->orphans, count));
}

static int print_table(const struct report *r, size_t limit)
{
	size_t width = name_width();

	print_header(r);
	printf("%10s %8s %8s %8s %8s %8s %8s %8s  %s\n", "calls", "total", "self", "min", "avg", "p50", "p99",
	       "max", "function");
	for (size_t i = 0; i < r->nrows && i < limit; i++) {
		const struct row *row = &r->rows[i];
		_cleanup_free_ char *name = fit(r, row, width);

		if (!name)
			return ip_error("out of memory");
		printf("%10" PRIu64, row->count);
		print_time(row, row->summary.total, false);
		if (row->logged)
			print_time(row, row->summary.self, false);
		else
			printf(" %8s", "-");
		print_time(row, row->summary.min, true);
		print_time(row, row->summary.avg, true);
		print_percentile(row, row->summary.p50);
		print_percentile(row, row->summary.p99);
		print_time(row, row->summary.max, true);
		printf("  %s\n", name);
	}
	print_footer(r, limit);
	print_missing(r);
	return 0;
}

static void clear(struct report *r)
{
	ip_stats_destroy(r->stats);
	ip_counts_destroy(r->counts);
	ip_names_destroy(r->names);
	ip_trace_reader_close(r->trace);
	free(r->rows);
}

static int show(const char *dir, const char *selection, enum column column, size_t limit, bool json)
{
	struct report r = {0};
	_cleanup_free_ bool *selected = NULL;
	int ret = ip_trace_reader_open(dir, &r.trace);

	if (ret == 0) {
		selected = cli_reader_select(r.trace, selection);
		r.names = ip_names_create(r.trace->session);
		ret = selected && r.names ? ip_counts_load(dir, r.trace->session, &r.counts) : -1;
	}
	if (ret == 0)
		ret = ip_stats_collect(r.trace, &r.stats);
	if (ret == 0)
		ret = make_rows(&r, selected, column);
	if (ret == 0) {
		cli_reader_warn(r.trace);
		if (json)
			print_json(&r, limit);
		else
			ret = print_table(&r, limit);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	clear(&r);
	return ret < 0 ? cli_fail() : 0;
}

static bool parse_column(const char *text, enum column *ret)
{
	for (size_t i = 0; i < NCOLUMNS; i++)
		if (!strcmp(text, columns[i])) {
			*ret = i;
			return true;
		}
	return false;
}

int cmd_report(int argc, char **argv)
{
	static const struct option long_options[] = {{"sort", required_argument, NULL, 's'},
						     {"limit", required_argument, NULL, 'n'},
						     {"functions", required_argument, NULL, 'f'},
						     {"json", no_argument, NULL, 'j'},
						     {"help", no_argument, NULL, 'h'},
						     {0}};
	enum column column = BY_TOTAL;
	const char *selection = NULL, *dir;
	size_t limit = SIZE_MAX;
	bool json = false;
	int option, code;
	char *end;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "s:n:f:h", long_options, NULL)) >= 0) {
		switch (option) {
		case 's':
			if (!parse_column(optarg, &column))
				return cli_usage(argv[0], "there is no column '%s' to sort by", optarg);
			break;
		case 'n':
			limit = strtoul(optarg, &end, 10);
			if (*optarg < '0' || *optarg > '9' || *end || !limit)
				return cli_usage(argv[0], "'%s' is no number of functions", optarg);
			break;
		case 'f':
			if (cli_functions(argv[0], optarg, &selection))
				return 2;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			return cli_bad_option(argv[0], argc, argv);
		}
	}
	code = cli_reader_dir(argv[0], argc, argv, &dir);
	return code >= 0 ? code : show(dir, selection, column, limit, json);
}
