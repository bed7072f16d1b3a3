/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe report: the functions of a trace as a table.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/filter_options.h"
#include "cli/reader.h"
#include "cli/report.h"
#include "common/cleanup.h"
#include "common/error.h"

static const char help[] = "usage: iprobe report [OPTIONS] [DIR]\n\n"
			   "Shows the functions of a trace (iprobe.data): calls, times, percentiles.\n\n"
			   "  -s, --sort COLUMN    calls, total (default), self, min, avg, p50, p90, p99, "
			   "p99.9, max, stddev, threads or\n"
			   "                       function\n"
			   "  -n, --limit N        the first N functions only\n"
			   "  -f, --functions SEL  these functions only\n"
			   "      --json           one JSON document, with all columns\n";

static const char *const columns[CLI_REPORT_COLUMNS] = {"calls",  "total",   "self",	"min",	 "avg",
							"p50",	  "p90",     "p99",	"p99.9", "max",
							"stddev", "threads", "function"};

static void clear(struct cli_report *r)
{
	ip_stats_destroy(r->stats);
	ip_counts_destroy(r->counts);
	ip_names_destroy(r->names);
	ip_trace_reader_close(r->trace);
	free(r->rows);
}

static int show(const char *dir, const char *selection, enum cli_report_column column, size_t limit,
		bool json)
{
	struct cli_report r = {0};
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
		ret = cli_report_rows(&r, selected, column);
	if (ret == 0) {
		cli_reader_warn(r.trace);
		if (json)
			cli_report_json(&r, limit);
		else
			ret = cli_report_table(&r, limit);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	clear(&r);
	return ret < 0 ? cli_fail() : 0;
}

static bool parse_column(const char *text, enum cli_report_column *ret)
{
	for (size_t i = 0; i < CLI_REPORT_COLUMNS; i++)
		if (!strcmp(text, columns[i])) {
			*ret = i;
			return true;
		}
	return false;
}

int cmd_report(int argc, char **argv)
{
	static const struct option long_options[] = {{"sort", required_argument, NULL, 's'},
						     CLI_FILTER_LIMIT,
						     CLI_FILTER_FUNCTIONS,
						     {"json", no_argument, NULL, 'j'},
						     {"help", no_argument, NULL, 'h'},
						     {0}};
	enum cli_report_column column = CLI_BY_TOTAL;
	struct cli_filter filter = CLI_FILTER_ALL;
	const char *dir;
	bool json = false;
	int option, code;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "s:n:f:h", long_options, NULL)) >= 0) {
		int taken = cli_filter_option(argv[0], option, &filter);

		if (taken < 0)
			return 2;
		if (taken)
			continue;
		switch (option) {
		case 's':
			if (!parse_column(optarg, &column))
				return cli_usage(argv[0], "there is no column '%s' to sort by", optarg);
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
	return code >= 0 ? code : show(dir, filter.functions, column, filter.limit, json);
}
