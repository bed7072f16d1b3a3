/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for culprits.
 */
#include "cli/wait/wait_culprit_print.h"

#include <inttypes.h>
#include <stdio.h>

#include "analysis/wait/wait_object.h"
#include "common/print.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"

#define USERS_SHOWN 3u

bool cli_wait_print_other(const struct ip_thread_states *t)
{
	if (t->tid < IP_KERNEL_OTHER)
		return false;
	ip_print(stdout, "another process on CPU %d", t->tid - IP_KERNEL_OTHER);
	return true;
}

static void print_thread(const struct ip_thread_states *t)
{
	if (cli_wait_print_other(t))
		return;
	if (*t->name)
		ip_print(stdout, "%s (%d)", t->name, t->tid);
	else
		ip_print(stdout, "thread %d", t->tid);
}

void cli_wait_print_ender(const struct cli_wait_trace *t, const struct ip_wait_culprit *c, size_t n)
{
	uint64_t all = 0;
	char time[32];

	for (size_t i = 0; i < n; i++)
		all += c[i].ticks;
	while (n && !c->thread)
		c++, n--;
	if (!n)
		return;
	ip_print(stdout, c->is_lock ? ", held by " : ", ended by ");
	print_thread(c->thread);
	if (c->in != IP_NO_FUNCTION)
		ip_print(stdout, " in %s", ip_names_shown(t->names, c->in));
	if (c->ticks < all - all / 20)
		ip_print(stdout, ": %s of it", ip_format_ns(cli_wait_ns(t, c->ticks), time));
}

void cli_wait_print_cpu_users(const struct cli_wait_trace *t,
			      const struct ip_wait_culprits *culprits, uint32_t function,
			      uint64_t ticks, bool idle)
{
	size_t n, shown = 0;
	const struct ip_wait_culprit *c = ip_wait_culprits_of(culprits, function, IP_RUN_QUEUE, &n);
	char time[32];

	ip_print(stdout, "%32s %10s %*s  the CPU had", "",
		 ip_format_ns(cli_wait_ns(t, ticks), time), idle ? 32 : 21, "");
	for (size_t i = 0; i < n && shown < USERS_SHOWN; i++) {
		if (!c[i].thread)
			continue;
		ip_print(stdout, "%s ", shown++ ? "," : "");
		print_thread(c[i].thread);
		ip_print(stdout, " %s", ip_format_ns(cli_wait_ns(t, c[i].ticks), time));
	}
	ip_print(stdout, "%s\n", shown ? "" : " nobody, as far as is known");
}

void cli_wait_json_culprits(struct ip_json *j, const struct cli_wait_trace *t,
			    const struct ip_wait_culprit *c, size_t n, const char *name)
{
	ip_json_array(j, name);
	for (size_t i = 0; i < n; i++) {
		ip_json_object(j, NULL);
		if (c[i].thread) {
			ip_json_uint(j, "tid", c[i].thread->tid);
			ip_json_string(j, "thread", c[i].thread->name);
		} else {
			ip_json_string(j, "tid", NULL);
			ip_json_string(j, "thread", NULL);
		}
		if (c[i].in != IP_NO_FUNCTION)
			ip_json_string(j, "function", ip_names_get(t->names, c[i].in));
		ip_json_uint(j, "ns", cli_wait_ns(t, c[i].ticks) + 0.5);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}
