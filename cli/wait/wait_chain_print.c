/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints chains.
 */
#include "cli/wait/wait_chain_print.h"

#include <stdio.h>

#include "cli/wait/cpu_user.h"
#include "cli/wait/wait_culprit_print.h"
#include "common/print.h"
#include "common/units.h"

void cli_wait_print_thread(const struct ip_thread_states *t)
{
	if (cli_wait_print_other(t))
		return;
	ip_print(stdout, "thread %d", t->tid);
	if (*t->name)
		ip_print(stdout, " (%s)", t->name);
}

static void print_link(const struct cli_wait_trace *t, const struct ip_chain_link *link)
{
	char time[32];

	ip_print(stdout, "%s ", ip_format_ns(cli_wait_ns(t, link->ticks), time));
	switch ((enum ip_thread_state)link->state) {
	case IP_THREAD_RUNNING:
		ip_print(stdout, "on a CPU");
		break;
	case IP_THREAD_RUNNABLE:
		ip_print(stdout, "waiting for a CPU");
		cli_wait_print_cpu_user(t, link->thread, link->at, link->longest, link->count);
		break;
	case IP_THREAD_BLOCKED:
		ip_print(stdout, "in %s %s", ip_wait_kind_name(link->object.kind),
			 ip_object_name(t->object_names, &link->object));
		break;
	default:
		ip_print(stdout, "not known");
	}
}

int cli_wait_chain_print(const struct cli_wait_trace *t, struct ip_function_index *functions,
			 const struct ip_wait_chain *chain)
{
	for (size_t i = 0; i < chain->n; i++) {
		const struct ip_chain_link *link = &chain->links[i];
		uint32_t function;

		ip_print(stdout, i ? " <- " : " ");
		print_link(t, link);
		if (link->ender) {
			ip_print(stdout, link->is_lock ? " held by " : " ended by ");
			cli_wait_print_thread(link->ender);
		} else if (!i || link->state != IP_THREAD_RUNNING) {
			continue;
		}
		/* of who ended a wait: when it began; of what had the CPU: in its longest part */
		if (ip_function_index_find(
			    functions, link->ender ? link->ender->tid : link->thread->tid,
			    link->ender ? link->at : link->at + link->longest / 2, &function) < 0)
			return -1;
		if (function != IP_NO_FUNCTION_AT)
			ip_print(stdout, " in %s", ip_names_shown(t->names, function));
	}
	return 0;
}

int cli_wait_chain_json(const struct cli_wait_trace *t, struct ip_function_index *functions,
			const struct ip_wait_chain *chain, struct ip_json *j)
{
	ip_json_array(j, "chain");
	for (size_t i = 0; i < chain->n; i++) {
		const struct ip_chain_link *link = &chain->links[i];
		uint32_t function;

		if (ip_function_index_find(functions, link->thread->tid, link->at, &function) < 0)
			return -1;
		ip_json_object(j, NULL);
		ip_json_int(j, "tid", link->thread->tid);
		ip_json_string(j, "thread", link->thread->name);
		ip_json_string(j, "function",
			       function == IP_NO_FUNCTION_AT ? NULL
							     : ip_names_get(t->names, function));
		ip_json_string(j, "state", cli_wait_state_name(link->state));
		if (link->state == IP_THREAD_BLOCKED) {
			ip_json_string(j, "kind", ip_wait_kind_name(link->object.kind));
			ip_json_string(j, "object", ip_object_name(t->object_names, &link->object));
		}
		ip_json_uint(j, "ns", cli_wait_ns(t, link->ticks) + 0.5);
		ip_json_uint(j, "count", link->count);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	return 0;
}
