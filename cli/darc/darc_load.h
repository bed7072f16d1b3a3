/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace that is searched, with what was found in it.
 */
#ifndef IP_CLI_DARC_LOAD_H
#define IP_CLI_DARC_LOAD_H

#include "cli/darc/darc.h"
#include "cli/filter_options.h"

struct cli_darc_trace {
	struct ip_trace_reader *trace;
	struct ip_names *names;
	struct ip_symbolizer *places;
	struct ip_trace_waits *waits; /* NULL: the trace has no events of the kernel */
	struct ip_darc_search search;
	struct ip_stretches *stretches; /* of its causes; NULL: none, or they were not looked for */
};

/* Opens a trace. kernel: events of the kernel are wanted, where there are some; what is wrong with
 * them is told on stderr. The caller clears *ret in any case. Returns 0, or -1 with an error. */
int cli_darc_open(const char *dir, const struct cli_filter *filter, bool kernel,
		  struct cli_darc_trace *ret);
void cli_darc_clear(struct cli_darc_trace *trace);

/* The function that a selection means. option: its name, for messages. Returns 0, or -1 with an
 * error: it means none, or several. */
int cli_darc_find_function(const struct cli_darc_trace *trace, const char *option,
			   const char *selection, uint32_t *ret);

/* What is printed of it. profile: the search whose latencies are shown; NULL: this one. */
struct cli_darc cli_darc_of(const struct cli_darc_trace *trace,
			    const struct ip_darc_search *profile);

/* Prints what was found. output: a file that the JSON is written to, whole or not at all, and one
 * line is printed; NULL: all is printed. Returns 0, or -1 with an error. */
int cli_darc_print(const struct cli_darc *d, bool json, const char *output);

#endif
