/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page (export_html.c) tells of the processes of a trace.
 */
#ifndef IP_HTML_PROCESSES_H
#define IP_HTML_PROCESSES_H

#include "analysis/callstack/trace.h"

/* So many processes are listed: the page is bounded. */
#define IP_HTML_PROCESSES 200u

/* Makes JSON of the first of the chosen processes, an array of objects. The events must have been
 * visited. The caller frees it. Returns NULL with an error. */
char *ip_html_processes(const struct ip_trace_reader *trace);

#endif
