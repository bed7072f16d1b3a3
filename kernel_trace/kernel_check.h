/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process may do about kernel events, without recording any.
 */
#ifndef IP_KERNEL_CHECK_H
#define IP_KERNEL_CHECK_H

#include "kernel_trace/record_source.h"

/* All strings are malloc'ed. */
struct ip_kernel_check {
	char *missing;		    /* tracepoints that the kernel lacks, "" if none */
	char *no_tracefs, *no_perf; /* why such a source does not serve; NULL: it does */
};

/* Checks that, without changing anything. Returns 0, or -1 with an error: nothing can be recorded
 * from either source. */
int ip_kernel_check(unsigned groups, struct ip_kernel_check *ret);
void ip_kernel_check_clear(struct ip_kernel_check *check);

/* Checks whether the source that is asked for serves, or one of them where nothing is. Returns 0,
 * or -1 with an error that says what is in the way. */
int ip_kernel_check_source(enum ip_kernel_source source);

/* As ip_kernel_check_source(): *ret are the tracepoints that the kernel lacks (malloc'ed; "":
 * none). */
int ip_kernel_missing(unsigned groups, enum ip_kernel_source source, char **ret);

/* Checks whether functions of the kernel can be recorded. Returns 0, or -1 with an error. */
int ip_kernel_functions_check(void);

/* Removes the instances and probes that iprobes have left which are gone. Whoever may not do that
 * does nothing. */
void ip_kernel_remove_left(void);

#endif
