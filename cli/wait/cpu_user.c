/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who had the CPU that a thread waited for, in words.
 */
#include "cli/wait/cpu_user.h"

#include <stdbool.h>
#include <stdio.h>

#include "analysis/wait/cpu_users.h"
#include "cli/wait/wait_chain_print.h"
#include "common/print.h"

void cli_wait_print_cpu_user(const struct cli_wait_trace *t, const struct ip_thread_states *thread,
			     uint64_t from, uint64_t ticks, uint64_t count)
{
	const size_t span = ip_states_span_at(thread, from);
	bool any = false;
	const struct ip_thread_states *had =
		span == thread->nspans ? NULL
				       : ip_cpu_users_most(&t->users, thread->spans[span].cpu, from,
							   from + ticks, &any);

	if (!had) {
		/* as where it was moved to another CPU, or woken on one that slept */
		ip_print(stdout, ", which nobody had%s, as far as is known",
			 any ? " for most of the time" : "");
		return;
	}
	/* of several waits the longest one tells no more than its own */
	ip_print(stdout, count > 1 ? ", the longest time when " : ", which ");
	cli_wait_print_thread(had);
	ip_print(stdout, count > 1 ? " had it" : " had");
}
