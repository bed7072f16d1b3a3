/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints which thread a view shows.
 */
#include "cli/report/thread_lines.h"

#include "common/cleanup.h"
#include "common/print.h"

static bool is_one(const struct ip_tree_thread *thread, uint32_t tid)
{
	return thread->tid == tid && !thread->process->off;
}

void cli_one_thread_print(const struct ip_tree_threads *threads, uint32_t tid)
{
	for (uint32_t i = 0; i < threads->n; i++) {
		_cleanup_free_ char *text = NULL;

		if (!is_one(&threads->items[i], tid))
			continue;
		text = ip_tree_thread_text(threads, &threads->items[i]);
		ip_print(stdout, "only %s\n", text ? text : "?");
	}
}

void cli_thread_json(struct ip_json *j, const struct ip_tree_thread *thread)
{
	ip_json_uint(j, "pid", thread->process->pid);
	ip_json_string(j, "process", thread->process->name);
	ip_json_uint(j, "tid", thread->tid);
	ip_json_string(j, "thread", thread->name);
}

void cli_one_thread_json(struct ip_json *j, const struct ip_tree_threads *threads, uint32_t tid)
{
	ip_json_uint(j, "tid", tid);
	ip_json_array(j, "only");
	for (uint32_t i = 0; i < threads->n; i++) {
		if (!is_one(&threads->items[i], tid))
			continue;
		ip_json_object(j, NULL);
		cli_thread_json(j, &threads->items[i]);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}
