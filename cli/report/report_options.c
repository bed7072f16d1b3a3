/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options of iprobe report.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report/report.h"
#include "cli/report/report_diff.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/units.h"

static const char help[] =
	"usage: iprobe report [OPTIONS] [DIR]\n\n"
	"Shows the functions of a trace (iprobe.data): calls, times, percentiles.\n\n"
	"      --by WHAT        function (default), caller, callsite, thread, module, file, "
	"process, "
	"or value:NAME (an\n"
	"                       argument or retval; value:NAME/log2 by powers of two): what calls "
	"are put together\n"
	"                       by; with ',process' each process by itself\n"
	"      --by-caller      the same as --by caller: each function, by who called it\n"
	"  -s, --sort COLUMN    calls, total (default), self, min, avg, p50, p90, p99, p99.9, max, "
	"stddev,\n"
	"                       threads or function; with --by value:NAME value, too\n"
	"  -w, --where COND     rows with p99>10ms, calls>=100, ... only; several, separated by "
	"commas: all hold\n"
	"      --columns LIST   what text shows: columns, separated by commas, or all\n"
	"  -n, --limit N        the first N rows only\n"
	"  -f, --functions SEL  these functions only\n"
	"      --slowest N      the N slowest calls instead: when, thread, values, caller; with -s "
	"duration (default),\n"
	"                       self, time (the N slowest in the order of time), or value:NAME "
	"(those "
	"with the largest\n"
	"                       number in a recorded value: a latency that the program measured)\n"
	"      --innermost      with --slowest: without calls that are around others of these\n"
	"      --value COND     calls whose values meet fd=3, len>4096, "
	"uri=*.html ... only; may be\n"
	"                       repeated: all hold\n"
	"      --process PROC   this process only: a pid, or a name with wildcards\n"
	"      --diff OTHER     how the trace differs from trace OTHER, function by function; a "
	"test tells which\n"
	"                       differences of their latency are more than chance\n"
	"  -j, --jobs N         read with so many threads (default: one for each CPU)\n"
	"      --full-names     whole C++ names, not their short forms\n"
	"      --json           one JSON document, with all columns\n"
	"      --csv            the rows with all columns, separated by commas\n";

static const char *const groups[] = {
	[IP_GROUP_BY_FUNCTION] = "function",  [IP_GROUP_BY_CALLER] = "caller",
	[IP_GROUP_BY_CALL_SITE] = "callsite", [IP_GROUP_BY_THREAD] = "thread",
	[IP_GROUP_BY_MODULE] = "module",      [IP_GROUP_BY_FILE] = "file",
	[IP_GROUP_BY_VALUE] = "value:",	      [IP_GROUP_BY_PROCESS] = "process"};

enum {
	OPT_BY = 256,
	OPT_BY_CALLER,
	OPT_COLUMNS,
	OPT_DIFF,
	OPT_JSON,
	OPT_CSV,
	OPT_SLOWEST,
	OPT_INNERMOST
};

#define BY_VALUE "value:"

const char *cli_report_group_name(const struct cli_report_options *o)
{
	/* the name stands behind the prefix in the option's argument */
	return o->by == IP_GROUP_BY_VALUE ? o->value - strlen(BY_VALUE) : groups[o->by];
}

static bool find_column(const char *text, size_t length, enum cli_report_column *ret)
{
	for (size_t i = 0; i < CLI_REPORT_COLUMNS; i++)
		if (strlen(cli_report_columns[i].name) == length &&
		    !strncmp(text, cli_report_columns[i].name, length)) {
			*ret = i;
			return true;
		}
	return false;
}

static bool find_group(const char *text, struct cli_report_options *o)
{
	if (!strncmp(text, BY_VALUE, strlen(BY_VALUE)) && text[strlen(BY_VALUE)]) {
		o->by = IP_GROUP_BY_VALUE;
		o->value = text + strlen(BY_VALUE);
		return true;
	}
	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		if (i != IP_GROUP_BY_VALUE && !strcmp(text, groups[i])) {
			o->by = i;
			return true;
		}
	return false;
}

/* Parses WHAT, "process", or both, separated by a comma. The name of a value may have commas. */
static bool parse_groups(char *text, struct cli_report_options *o)
{
	char *other = strncmp(text, BY_VALUE, strlen(BY_VALUE)) ? strchr(text, ',') : NULL;
	struct cli_report_options first = *o, second = *o;

	o->per_process = false;
	if (!other)
		return find_group(text, o);
	*other = '\0';
	if (!find_group(text, &first) || !find_group(other + 1, &second) ||
	    first.by == IP_GROUP_BY_VALUE || second.by == IP_GROUP_BY_VALUE ||
	    (first.by == IP_GROUP_BY_PROCESS) == (second.by == IP_GROUP_BY_PROCESS)) {
		*other = ',';
		return false;
	}
	o->by = first.by == IP_GROUP_BY_PROCESS ? second.by : first.by;
	o->per_process = true;
	return true;
}

/* Parses a number of calls or threads, or a time. */
static bool parse_value(enum cli_report_column column, const char *text, double *ret)
{
	uint64_t ns;
	char *end;

	if (column == CLI_BY_CALLS || column == CLI_BY_THREADS) {
		*ret = strtod(text, &end);
		return *text >= '0' && *text <= '9' && !*end && isfinite(*ret);
	}
	if (ip_parse_duration(text, &ns) < 0)
		return false;
	*ret = ns;
	return true;
}

/* Parses COLUMN OP VALUE. It cuts text in place. */
static bool parse_condition(char *text, struct cli_report_condition *ret)
{
	size_t length = strcspn(text, "<>=");
	char *value = text + length;

	if (!find_column(text, length, &ret->column) || ret->column == CLI_BY_FUNCTION ||
	    (*value != '<' && *value != '>'))
		return false;
	ret->op = *value++;
	if (*value == '=') {
		ret->op = ret->op == '<' ? 'l' : 'g';
		value++;
	}
	return parse_value(ret->column, value, &ret->value);
}

static int no_column(const char *command, const char *name, size_t length)
{
	char names[256] = "";

	for (size_t i = 0, n = 0; i < CLI_REPORT_COLUMNS && n < sizeof(names); i++)
		n += snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
			      cli_report_columns[i].name);
	return cli_usage(command, "there is no column '%.*s', but %s", (int)length, name, names);
}

/* Parses the list of conditions. This list, and that of columns, is cut in place. */
static int parse_conditions(const char *command, char *text, struct cli_report_options *o)
{
	for (char *item, *rest = text; (item = strsep(&rest, ","));) {
		const size_t length = strcspn(item, "<>=");
		enum cli_report_column column;

		if (length && item[length] && !find_column(item, length, &column))
			return no_column(command, item, length);
		if (o->nconditions == CLI_CONDITIONS_MAX)
			return cli_usage(command, "more than %u conditions", CLI_CONDITIONS_MAX);
		if (!parse_condition(item, &o->conditions[o->nconditions++]))
			return cli_usage(
				command,
				"'%s' is no condition: COLUMN, one of < <= > >=, a number or time",
				item);
	}
	return 0;
}

static int parse_columns(const char *command, char *text, struct cli_report_options *o)
{
	bool all = !strcmp(text, "all");

	o->chosen = true;
	o->ncolumns = 0;
	for (enum cli_report_column i = 0; all && i < CLI_BY_FUNCTION; i++)
		o->columns[o->ncolumns++] = i;
	for (char *item, *rest = all ? NULL : text; (item = strsep(&rest, ","));) {
		enum cli_report_column column;

		if (!find_column(item, strlen(item), &column))
			return no_column(command, item, strlen(item));
		if (column == CLI_BY_FUNCTION)
			continue; /* always shown */
		if (o->ncolumns == CLI_BY_FUNCTION)
			return cli_usage(command, "more columns than there are");
		o->columns[o->ncolumns++] = column;
	}
	return 0;
}

/* Calls are no rows: what is about rows does not go with --slowest. */
static int check_slowest(const char *command, struct cli_report_options *o)
{
	if (o->by != IP_GROUP_BY_FUNCTION || o->other || o->nconditions || o->chosen ||
	    o->filter.limit != SIZE_MAX)
		return cli_usage(command, "--slowest lists calls: it does not go with --by, "
					  "--diff, --where, --columns and --limit");
	if (o->innermost && o->slowest > IP_SLOWEST_COMPARED)
		return cli_usage(command, "--slowest takes %u at most with --innermost",
				 IP_SLOWEST_COMPARED);
	if (!o->sort || !strcmp(o->sort, "duration"))
		return -1;
	o->in_time = !strcmp(o->sort, "time");
	if (!strcmp(o->sort, "self")) {
		o->slowest_by = IP_SLOWEST_BY_SELF;
	} else if (!strncmp(o->sort, BY_VALUE, strlen(BY_VALUE)) && o->sort[strlen(BY_VALUE)]) {
		o->slowest_by = IP_SLOWEST_BY_VALUE;
		o->slowest_value = o->sort + strlen(BY_VALUE);
	} else if (!o->in_time) {
		return cli_usage(command,
				 "--slowest sorts by duration, self, time or value:NAME, not '%s'",
				 o->sort);
	}
	return -1;
}

/* Returns whether calls of the trace have recorded the value (NAME or NAME/log2). */
static bool is_value(const char *dir, const char *text)
{
	_cleanup_free_ char *name = strdup(text);
	struct ip_value_name found = {0};
	struct ip_trace_reader *trace;
	char *suffix = name ? strrchr(name, '/') : NULL;
	bool known;

	if (suffix && !strcmp(suffix, "/log2"))
		*suffix = '\0';
	if (!name || !*name || cli_reader_open(dir, NULL, &trace) < 0)
		return false;
	known = ip_value_name_find(trace->session, dir, name, &found) == 0;
	ip_value_name_clear(&found);
	ip_trace_reader_close(trace);
	return known;
}

int cli_report_no_group(const char *command, const char *dir, const struct cli_report_options *o)
{
	if (is_value(dir, o->unknown_by))
		return cli_usage(command, "--by '%s': did you mean --by 'value:%s'?", o->unknown_by,
				 o->unknown_by);
	return cli_usage(command,
			 "--by function, caller, callsite, thread, module, file, process or "
			 "value:NAME, or one of the first six and process (caller,process); not "
			 "'%s'",
			 o->unknown_by);
}

static int check(const char *command, struct cli_report_options *o)
{
	enum cli_report_column column;

	if (o->unknown_by)
		return -1;
	if (o->other && !cli_report_is_by_function(o))
		return cli_usage(command, "--diff compares functions: it does not go with --by");
	if (o->other && o->chosen)
		return cli_usage(command, "--diff does not go with --columns");
	if (o->other && o->nconditions)
		return cli_usage(command, "--diff does not go with --where");
	if (o->other && o->sort && !cli_diff_has_column(o->sort))
		return cli_usage(command, "--diff cannot sort by '%s'", o->sort);
	if (o->slowest)
		return check_slowest(command, o);
	if (o->innermost)
		return cli_usage(command, "--innermost goes with --slowest");
	if (o->sort && o->by == IP_GROUP_BY_VALUE && !strcmp(o->sort, CLI_SORT_VALUE))
		return -1;
	if (o->sort && !o->other && !strncmp(o->sort, BY_VALUE, strlen(BY_VALUE)))
		return cli_usage(command,
				 "-s value:NAME sorts the calls of --slowest N; the rows of --by "
				 "value:NAME are sorted by -s value");
	if (o->sort && !o->other && !find_column(o->sort, strlen(o->sort), &column))
		return no_column(command, o->sort, strlen(o->sort));
	return -1;
}

#define SLOWEST_MAX 100000u

static int parse_slowest(const char *command, const char *text, size_t *ret)
{
	char *end;

	*ret = strtoul(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && *ret && *ret <= SLOWEST_MAX)
		return 0;
	return cli_usage(command, "--slowest needs a number of calls from 1 to %u, not '%s'",
			 SLOWEST_MAX, text);
}

static int take(const char *command, int option, void *context)
{
	struct cli_report_options *o = context;

	switch (option) {
	case OPT_BY:
		if (!parse_groups(optarg, o))
			o->unknown_by = optarg;
		break;
	case OPT_BY_CALLER:
		o->by = IP_GROUP_BY_CALLER;
		break;
	case 's':
		o->sort = optarg;
		break;
	case 'w':
		return parse_conditions(command, optarg, o) ? 2 : -1;
	case OPT_COLUMNS:
		return parse_columns(command, optarg, o) ? 2 : -1;
	case OPT_SLOWEST:
		return parse_slowest(command, optarg, &o->slowest) ? 2 : -1;
	case OPT_INNERMOST:
		o->innermost = true;
		break;
	case OPT_DIFF:
		o->other = optarg;
		break;
	default:
		o->format = option == OPT_JSON ? CLI_REPORT_JSON : CLI_REPORT_CSV;
	}
	return -1;
}

int cli_report_parse(int argc, char **argv, struct cli_report_options *o)
{
	static const struct option long_options[] = {
		CLI_FILTER_FUNCTIONS,
		CLI_FILTER_PROCESS,
		CLI_FILTER_LIMIT,
		{"by", required_argument, NULL, OPT_BY},
		{"by-caller", no_argument, NULL, OPT_BY_CALLER},
		{"slowest", required_argument, NULL, OPT_SLOWEST},
		{"innermost", no_argument, NULL, OPT_INNERMOST},
		CLI_FILTER_VALUE,
		{"sort", required_argument, NULL, 's'},
		{"where", required_argument, NULL, 'w'},
		{"columns", required_argument, NULL, OPT_COLUMNS},
		{"diff", required_argument, NULL, OPT_DIFF},
		{"json", no_argument, NULL, OPT_JSON},
		{"csv", no_argument, NULL, OPT_CSV},
		CLI_FILTER_FULL_NAMES,
		CLI_FILTER_JOBS,
		CLI_FILTER_HELP,
		{0}};
	static const struct cli_filter_command command = {"s:w:n:f:j:h", help, long_options, take};
	int code;

	*o = (struct cli_report_options){.filter = CLI_FILTER_ALL,
					 .columns = {CLI_BY_CALLS, CLI_BY_TOTAL, CLI_BY_SELF,
						     CLI_BY_MIN, CLI_BY_AVG, CLI_BY_P50, CLI_BY_P99,
						     CLI_BY_MAX},
					 .ncolumns = 8};
	code = cli_filter_parse(argc, argv, &command, &o->filter, o);
	return code < 0 ? check(argv[0], o) : code;
}
