/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of what was found: the parts that darc and compare-calls share, and that of darc.
 */
#ifndef IP_CLI_DARC_HTML_H
#define IP_CLI_DARC_HTML_H

#include "analysis/export/html/parts.h"
#include "cli/darc/darc_load.h"

/* Write "meta", what was recorded, and "functions", by number: the names of the functions of some
 * nodes; used: by node. */
void cli_darc_html_meta(struct ip_json *j, const struct ip_trace_reader *trace);
void cli_darc_html_names(struct ip_json *j, struct ip_names *names, const struct ip_ftree *ftree,
			 const bool *used);

/* Whether a file can be written to a path, as an option names it: to tell that before a long
 * search. Returns 0, or -1 with an error; nothing is left. */
int cli_darc_file_try(const char *path, const char *option);

/* Writes a page, whole or not at all. Returns 0, or -1 with an error. */
int cli_darc_html_write(const char *path, const struct ip_html_parts *page, const char *document);

/* Writes the page of a search, of which the functions' tree is cut to what a page has room for.
 * path NULL: none is wanted. Returns 0, or -1 with an error. */
int cli_darc_html(const struct cli_darc *found, const struct ip_trace_reader *trace,
		  const char *path);

#endif
