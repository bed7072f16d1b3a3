/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe report: prints the functions of a trace, or other groups of its calls, as a table.
 */

#include "cli/cli.h"
#include "cli/filter/filter_check.h"
#include "cli/report/report.h"
#include "cli/screen/reading_screen.h"
#include "cli/trace_args.h"
#include "common/error.h"

static int show(const char *dir, const struct cli_report_options *options)
{
	struct cli_reading_screen screen = {0};
	struct cli_report r = {0};
	int ret = cli_report_load(dir, options, options->format == CLI_REPORT_TEXT ? &screen : NULL,
				  &r);

	if (ret == 0) {
		cli_reader_warn(r.trace);
		if (!r.nrows)
			cli_filter_warn_none(r.trace, &options->filter, r.stats->events);
		if (options->format == CLI_REPORT_JSON)
			cli_report_json(&r);
		else if (options->format == CLI_REPORT_CSV)
			cli_report_csv(&r);
		else
			ret = cli_report_table(&r);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	if (ret == 0)
		cli_reading_screen_leave(&screen);
	cli_report_clear(&r);
	return ret;
}

int cmd_report(int argc, char **argv)
{
	struct cli_report_options options;
	const char *dir;
	int code = cli_report_parse(argc, argv, &options);

	if (code < 0)
		code = cli_reader_dir(argv[0], argc, argv, &dir);
	if (code < 0 && options.unknown_by)
		code = cli_report_no_group(argv[0], dir, &options);
	if (code >= 0)
		return code;
	if (options.slowest)
		code = cli_report_slowest(dir, &options);
	else
		code = options.other ? cli_report_diff(dir, &options) : show(dir, &options);
	ip_value_matches_clear(&options.filter.matches);
	return code < 0 ? cli_fail() : 0;
}
