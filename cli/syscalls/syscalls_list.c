/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints system calls one by one.
 */
#include "cli/syscalls/syscalls_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "analysis/syscalls/syscall_flags.h"
#include "analysis/syscalls/syscall_set.h"
#include "common/json.h"
#include "common/print.h"
#include "common/trace/call_path.h"

#define TEXT_MAX (3 * IP_CALL_PATH_MOST) /* of two paths */

static int64_t ns_of(const struct cli_syscalls_list *list, int64_t ticks)
{
	return (double)ticks * 1e9 / (double)list->hz;
}

static void print_time(const struct cli_syscalls_list *list, uint64_t tsc)
{
	const uint64_t ns = list->realtime_ns + ns_of(list, (int64_t)(tsc - list->start));
	const time_t seconds = ns / 1000000000u;
	struct tm tm;
	char text[16];

	if (!localtime_r(&seconds, &tm) || !strftime(text, sizeof(text), "%H:%M:%S", &tm))
		*text = '\0';
	ip_print(list->out, "%s.%06u", text, (unsigned)(ns % 1000000000u / 1000));
}

static void print_text(const struct cli_syscalls_list *list, const struct ip_syscall_call *call,
		       const char *thread, const char *function)
{
	char text[TEXT_MAX], result[TEXT_MAX];
	const double seconds = ns_of(list, (int64_t)(call->end - call->begin)) / 1e9;

	print_time(list, call->begin);
	ip_print(list->out, " [%d%s%s]", call->tid, *thread ? " " : "", thread);
	if (function)
		ip_print(list->out, " %s:", function);
	ip_print(list->out, " %s", ip_syscall_text(call, list->descriptors, text, sizeof(text)));
	if (call->outcome != IP_SYSCALL_OPEN)
		ip_print(list->out, " = %s",
			 ip_syscall_result_text(call, list->descriptors, result, sizeof(result)));
	if (call->timed)
		ip_print(list->out, " <%s%.9f>", call->earlier ? ">" : "", seconds);
	ip_print(list->out, "\n");
}

static void print_json(const struct cli_syscalls_list *list, const struct ip_syscall_call *call,
		       const char *thread, const char *function)
{
	static const char *const outcomes[] = {[IP_SYSCALL_RETURNED] = "returned",
					       [IP_SYSCALL_LOST] = "lost",
					       [IP_SYSCALL_OPEN] = "open"};
	char text[TEXT_MAX], name[32];
	struct ip_json j;
	unsigned error;

	ip_json_init(&j, list->out);
	ip_json_object(&j, NULL);
	ip_json_int(&j, "ts", ns_of(list, (int64_t)(call->begin - list->start)));
	ip_json_int(&j, "tid", call->tid);
	ip_json_string(&j, "thread", *thread ? thread : NULL);
	ip_json_string(&j, "function", function);
	ip_json_string(&j, "name", ip_syscall_name(call->number, name));
	ip_json_string(&j, "text", ip_syscall_text(call, list->descriptors, text, sizeof(text)));
	ip_json_string(&j, "outcome", outcomes[call->outcome]);
	if (call->outcome == IP_SYSCALL_RETURNED) {
		ip_json_int(&j, "result", call->result);
		ip_json_string(&j, "result_text",
			       ip_syscall_result_text(call, list->descriptors, text, sizeof(text)));
		if (ip_syscall_is_error(call->result, &error))
			ip_json_string(&j, "error", ip_syscall_error_name(error, name));
	}
	if (call->timed) {
		ip_json_uint(&j, "duration_ns", ns_of(list, call->end - call->begin));
		ip_json_bool(&j, "earlier", call->earlier);
	}
	if (call->timed && list->scheduled) {
		ip_json_uint(&j, "cpu_ns", ns_of(list, call->parts.cpu));
		ip_json_uint(&j, "runqueue_ns", ns_of(list, call->parts.runqueue));
		ip_json_uint(&j, "blocked_ns", ns_of(list, call->parts.blocked));
		ip_json_uint(&j, "unknown_ns", ns_of(list, call->parts.unknown));
	}
	ip_json_end_object(&j);
}

void cli_syscalls_list_print(const struct cli_syscalls_list *list,
			     const struct ip_syscall_call *call, const char *thread,
			     const char *function)
{
	(list->json ? print_json : print_text)(list, call, thread, function);
}
