/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the system calls of iprobe's own.
 */
#include "cli/syscalls/own_calls.h"

#include "common/print.h"
#include "common/units.h"

bool cli_syscalls_own_take(struct cli_syscalls_own *own, const struct ip_syscall_call *call)
{
	if (!call->own)
		return false;
	own->calls++;
	own->ticks += call->end - call->begin;
	return true;
}

void cli_syscalls_own_print(const struct cli_syscalls_own *own, uint64_t hz, const char *before,
			    FILE *out)
{
	char count[32], time[16];

	if (own->calls)
		ip_print(out,
			 "%s%s call%s, %s, of iprobe's own code in the process: not among these.\n",
			 before, ip_format_count(own->calls, count), ip_plural(own->calls),
			 ip_format_ns((double)own->ticks * 1e9 / (double)hz + 0.5, time));
}
