/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page tells of the waits of a trace: functions and what they waited for, call paths by
 * their time off the CPU, states of threads over time with system calls and interrupts.
 */
#ifndef IP_HTML_WAITS_H
#define IP_HTML_WAITS_H

#include "analysis/export/export.h"
#include "analysis/wait/idle/idle_waits.h"

#define IP_HTML_NO_FUNCTION UINT32_MAX

struct ip_html_waits_options {
	const struct ip_export_options *export; /* with waits */
	const struct ip_tree_threads *threads;	/* first level of call paths; NULL: none */
	const uint32_t *shown; /* by function or thread: its index in the page; or no function */
	uint32_t nshown;       /* of them */
	const struct ip_idle_waits *idle; /* set aside; NULL: none */
};

/* Returns the JSON in one line, which the caller frees. Times count from the begin of the trace, in
 * nanoseconds. NULL with an error. */
char *ip_html_waits(struct ip_trace_reader *trace, const struct ip_html_waits_options *options);

#endif
