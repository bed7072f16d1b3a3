/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of iprobe report --slowest share: the calls that were found, and the texts
 * about one of them.
 */
#ifndef IP_CLI_REPORT_SLOWEST_H
#define IP_CLI_REPORT_SLOWEST_H

#include "analysis/profile/slowest.h"
#include "analysis/read/symbolize.h"
#include "cli/report/report.h"

struct cli_slowest {
	const struct cli_report_options *options;
	struct ip_trace_reader *trace;
	struct ip_names *names;
	struct ip_symbolizer *places;
	struct ip_slowest *found;
	struct ip_value_name value; /* by which calls are sorted; text NULL: by another figure */
	unsigned value_width;	    /* of its column */
};

/* What is known of the caller. */
struct cli_slowest_caller {
	const char *name, *module;
	const char *from; /* "call site", "frame"; NULL: there is no caller */
	char *text;	  /* owned; NULL: name tells it */
};

/* report_slowest.c: texts about a call. Those that are not const are the caller's to free, and NULL
 * with an error where memory ran out. */
/* Returns 0 with the caller in *ret, whose text is to be freed; or -1 with an error. */
int cli_slowest_caller(const struct cli_slowest *s, const struct ip_slow_call *call,
		       struct cli_slowest_caller *ret);
/* Makes the number by which calls are sorted; "" where they are sorted by another figure. */
char *cli_slowest_number(const struct cli_slowest *s, const struct ip_slow_call *call);
/* A thread may change its name: the one that it had when the call ended counts. */
const char *cli_slowest_thread(const struct cli_slowest *s, const struct ip_slow_call *call);

/* report_slowest_write.c: print the calls for programs. Return 0, or -1 with an error. */
int cli_slowest_json(const struct cli_slowest *s);
int cli_slowest_csv(const struct cli_slowest *s);

#endif
