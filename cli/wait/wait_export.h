/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's events of a trace that is exported.
 */
#ifndef IP_CLI_WAIT_EXPORT_H
#define IP_CLI_WAIT_EXPORT_H

#include "analysis/wait/trace_waits.h"

/* Reads them where they are wanted, and tells what is wrong with them. required: it is an error
 * that there are none. *ret: NULL where there are none, or they are not wanted. Returns 0, or -1
 * with an error. */
int cli_wait_export(struct ip_trace_reader *trace, bool wanted, bool required,
		    struct ip_trace_waits **ret);

/* Tells what is wrong with them: a line of an ip_kernel_reader. */
void cli_wait_export_damage(const char *line);

/* Tells for how long it is not known what calls waited for; 0: it is known. */
void cli_wait_export_unknown(uint64_t ns);
/* Tells for how long threads were idle, which is left out; 0: nothing is. */
void cli_wait_export_idle(uint64_t ns);

#endif
