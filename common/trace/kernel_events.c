/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the kernel's events: which tracepoint each comes from, and what is kept of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch/syscalls.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"

#define NEWER	 64u /* system calls than our table */
#define OPTIONAL "optional"

#define WOKEN                                                                                      \
	{                                                                                          \
		{"comm", NULL, IP_KERNEL_TEXT16}, {"tid", "pid", IP_KERNEL_S32},                   \
			{"prio", NULL, IP_KERNEL_S32}, {"target_cpu", NULL, IP_KERNEL_S32},        \
	}
#define FAULT                                                                                      \
	{                                                                                          \
		{"address", NULL, IP_KERNEL_X64}, {"ip", NULL, IP_KERNEL_X64},                     \
			{"error_code", NULL, IP_KERNEL_X64},                                       \
	}

/* A fork of a thread, not its process, and softirqs by the number of their kind: so LTTng has
 * them. */
static const struct ip_kernel_kind kinds[IP_KERNEL_EVENTS] = {
	[IP_KERNEL_SCHED_SWITCH] = {"sched_switch",
				    "sched",
				    "sched_switch",
				    IP_KERNEL_GROUP_SCHED,
				    true,
				    {{"prev_comm", NULL, IP_KERNEL_TEXT16},
				     {"prev_tid", "prev_pid", IP_KERNEL_S32},
				     {"prev_prio", NULL, IP_KERNEL_S32},
				     {"prev_state", NULL, IP_KERNEL_S64},
				     {"next_comm", NULL, IP_KERNEL_TEXT16},
				     {"next_tid", "next_pid", IP_KERNEL_S32},
				     {"next_prio", NULL, IP_KERNEL_S32}}},
	[IP_KERNEL_SCHED_WAKING] = {"sched_waking", "sched", "sched_waking", IP_KERNEL_GROUP_SCHED,
				    true, WOKEN},
	[IP_KERNEL_SCHED_WAKEUP] = {"sched_wakeup", "sched", "sched_wakeup", IP_KERNEL_GROUP_SCHED,
				    true, WOKEN},
	[IP_KERNEL_SCHED_WAKEUP_NEW] = {"sched_wakeup_new", "sched", "sched_wakeup_new",
					IP_KERNEL_GROUP_SCHED, true, WOKEN},
	[IP_KERNEL_SCHED_FORK] = {"sched_process_fork",
				  "sched",
				  "sched_process_fork",
				  IP_KERNEL_GROUP_SCHED,
				  true,
				  {{"parent_comm", NULL, IP_KERNEL_TEXT16},
				   {"parent_tid", "parent_pid", IP_KERNEL_S32},
				   {"child_comm", NULL, IP_KERNEL_TEXT16},
				   {"child_tid", "child_pid", IP_KERNEL_S32}}},
	[IP_KERNEL_SCHED_EXIT] = {"sched_process_exit",
				  "sched",
				  "sched_process_exit",
				  IP_KERNEL_GROUP_SCHED,
				  true,
				  {{"comm", NULL, IP_KERNEL_TEXT16},
				   {"tid", "pid", IP_KERNEL_S32},
				   {"prio", NULL, IP_KERNEL_S32}}},
	[IP_KERNEL_SIGNAL_DELIVER] = {"signal_deliver",
				      "signal",
				      "signal_deliver",
				      IP_KERNEL_GROUP_SYSCALLS,
				      false,
				      {{"sig", NULL, IP_KERNEL_S32},
				       {"errno", NULL, IP_KERNEL_S32},
				       {"code", NULL, IP_KERNEL_S32},
				       {"sa_handler", NULL, IP_KERNEL_X64},
				       {"sa_flags", NULL, IP_KERNEL_X64}}},
	[IP_KERNEL_IRQ_ENTRY] = {"irq_handler_entry",
				 "irq",
				 "irq_handler_entry",
				 IP_KERNEL_GROUP_IRQ,
				 false,
				 {{"irq", NULL, IP_KERNEL_S32}, {"name", NULL, IP_KERNEL_TEXT16}}},
	[IP_KERNEL_IRQ_EXIT] = {"irq_handler_exit",
				"irq",
				"irq_handler_exit",
				IP_KERNEL_GROUP_IRQ,
				false,
				{{"irq", NULL, IP_KERNEL_S32}, {"ret", NULL, IP_KERNEL_S32}}},
	[IP_KERNEL_SOFTIRQ_ENTRY] = {"softirq_entry",
				     "irq",
				     "softirq_entry",
				     IP_KERNEL_GROUP_IRQ,
				     false,
				     {{"vec", NULL, IP_KERNEL_U32}}},
	[IP_KERNEL_SOFTIRQ_EXIT] = {"softirq_exit",
				    "irq",
				    "softirq_exit",
				    IP_KERNEL_GROUP_IRQ,
				    false,
				    {{"vec", NULL, IP_KERNEL_U32}}},
	[IP_KERNEL_HRTIMER_ENTRY] = {"hrtimer_expire_entry",
				     "timer",
				     "hrtimer_expire_entry",
				     IP_KERNEL_GROUP_IRQ,
				     false,
				     {{"hrtimer", NULL, IP_KERNEL_X64},
				      {"now", NULL, IP_KERNEL_S64},
				      {"function", NULL, IP_KERNEL_X64}}},
	[IP_KERNEL_HRTIMER_EXIT] = {"hrtimer_expire_exit",
				    "timer",
				    "hrtimer_expire_exit",
				    IP_KERNEL_GROUP_IRQ,
				    false,
				    {{"hrtimer", NULL, IP_KERNEL_X64}}},
	[IP_KERNEL_TIMER_IRQ_ENTRY] = {"x86_irq_vectors_local_timer_entry",
				       "irq_vectors",
				       "local_timer_entry",
				       IP_KERNEL_GROUP_IRQ,
				       false,
				       {{"vector", NULL, IP_KERNEL_S32}}},
	[IP_KERNEL_TIMER_IRQ_EXIT] = {"x86_irq_vectors_local_timer_exit",
				      "irq_vectors",
				      "local_timer_exit",
				      IP_KERNEL_GROUP_IRQ,
				      false,
				      {{"vector", NULL, IP_KERNEL_S32}}},
	[IP_KERNEL_FAULT_USER] = {"x86_exceptions_page_fault_user", "exceptions", "page_fault_user",
				  IP_KERNEL_GROUP_FAULTS, false, FAULT},
	[IP_KERNEL_FAULT_KERNEL] = {"x86_exceptions_page_fault_kernel", "exceptions",
				    "page_fault_kernel", IP_KERNEL_GROUP_FAULTS, false, FAULT},
	[IP_KERNEL_BLOCK_ISSUE] = {"block_rq_issue",
				   "block",
				   "block_rq_issue",
				   IP_KERNEL_GROUP_BLOCK,
				   true,
				   {{"dev", NULL, IP_KERNEL_U32},
				    {"sector", NULL, IP_KERNEL_U64},
				    {"nr_sector", NULL, IP_KERNEL_U32},
				    {"bytes", NULL, IP_KERNEL_U32},
				    {"comm", NULL, IP_KERNEL_TEXT16}}},
	[IP_KERNEL_BLOCK_COMPLETE] = {"block_rq_complete",
				      "block",
				      "block_rq_complete",
				      IP_KERNEL_GROUP_BLOCK,
				      true,
				      {{"dev", NULL, IP_KERNEL_U32},
				       {"sector", NULL, IP_KERNEL_U64},
				       {"nr_sector", NULL, IP_KERNEL_U32},
				       {"error", NULL, IP_KERNEL_S32}}},
	[IP_KERNEL_PROCESS_STATE] = {"lttng_statedump_process_state",
				     NULL,
				     NULL,
				     IP_KERNEL_GROUP_SCHED,
				     true,
				     {{"tid", NULL, IP_KERNEL_S32},
				      {"pid", NULL, IP_KERNEL_S32},
				      {"ppid", NULL, IP_KERNEL_S32},
				      {"name", NULL, IP_KERNEL_TEXT16},
				      {"type", NULL, IP_KERNEL_S32},
				      {"mode", NULL, IP_KERNEL_S32},
				      {"submode", NULL, IP_KERNEL_S32},
				      {"status", NULL, IP_KERNEL_S32}}},
	[IP_KERNEL_SYSCALL_STATE] = {"iprobe_statedump_syscall",
				     NULL,
				     NULL,
				     IP_KERNEL_GROUP_SYSCALLS,
				     false,
				     {{"tid", NULL, IP_KERNEL_S32},
				      {"number", NULL, IP_KERNEL_S32},
				      {"arg0", NULL, IP_KERNEL_X64},
				      {"arg1", NULL, IP_KERNEL_X64},
				      {"arg2", NULL, IP_KERNEL_X64},
				      {"arg3", NULL, IP_KERNEL_X64},
				      {"arg4", NULL, IP_KERNEL_X64},
				      {"arg5", NULL, IP_KERNEL_X64}}},
	[IP_KERNEL_IDS_STATE] = {"iprobe_statedump_ids",
				 NULL,
				 NULL,
				 IP_KERNEL_GROUP_SCHED,
				 true,
				 {{"tid", NULL, IP_KERNEL_S32},
				  {"pid", NULL, IP_KERNEL_S32},
				  {"vtid", NULL, IP_KERNEL_S32},
				  {"vpid", NULL, IP_KERNEL_S32}}},
	[IP_KERNEL_SCHED_EXEC] = {"sched_process_exec",
				  "sched",
				  "sched_process_exec",
				  IP_KERNEL_GROUP_SCHED,
				  true,
				  {{"tid", "pid", IP_KERNEL_S32},
				   {"old_tid", "old_pid", IP_KERNEL_S32}},
				  true},
	[IP_KERNEL_TASK_RENAME] = {"task_rename",
				   "task",
				   "task_rename",
				   IP_KERNEL_GROUP_SCHED,
				   true,
				   {{"tid", "pid", IP_KERNEL_S32}},
				   true},
};

const struct ip_kernel_kind *ip_kernel_kind_of(unsigned id)
{
	return id < IP_KERNEL_EVENTS && kinds[id].name ? &kinds[id] : NULL;
}

size_t ip_kernel_type_size(enum ip_kernel_type type)
{
	return type == IP_KERNEL_TEXT16 ? 16 : type <= IP_KERNEL_U32 ? 4 : 8;
}

static int arguments_size(uint64_t number)
{
	const struct ip_syscall *call = ip_syscall_find(number);
	int n;

	if (!call)
		return IP_SYSCALL_ARGUMENTS * 8;
	n = *call->arguments ? 1 : 0;
	for (const char *at = call->arguments; *at; at++)
		n += *at == ',';
	return n * 8;
}

bool ip_kernel_has_syscall(uint64_t number)
{
	/* behind the table stand those that are newer than it */
	return ip_syscall_find(number) ||
	       (number >= ip_syscall_end() && number < ip_syscall_end() + NEWER);
}

bool ip_kernel_is_function(unsigned id, unsigned *ret_function, bool *ret_exit)
{
	*ret_exit = id >= IP_KERNEL_FUNCTION_EXIT;
	if (id < IP_KERNEL_FUNCTION_ENTRY)
		return false;
	*ret_function = id - (*ret_exit ? IP_KERNEL_FUNCTION_EXIT : IP_KERNEL_FUNCTION_ENTRY);
	return *ret_function < IP_KERNEL_FUNCTIONS_MAX;
}

int ip_kernel_fields_size(unsigned id)
{
	const struct ip_kernel_kind *kind = ip_kernel_kind_of(id);
	unsigned function;
	bool exit;
	int size = 0;

	if (ip_kernel_is_function(id, &function, &exit))
		return sizeof(struct ip_kernel_function_fields);
	if (id >= IP_KERNEL_SYSCALL_EXIT)
		return ip_kernel_has_syscall(id - IP_KERNEL_SYSCALL_EXIT) ? 8 : -1;
	if (id >= IP_KERNEL_SYSCALL_ENTRY)
		return ip_kernel_has_syscall(id - IP_KERNEL_SYSCALL_ENTRY)
			       ? arguments_size(id - IP_KERNEL_SYSCALL_ENTRY)
			       : -1;
	if (!kind)
		return -1;
	for (size_t i = 0; i < IP_KERNEL_FIELDS_MAX && kind->fields[i].name; i++)
		size += ip_kernel_type_size(kind->fields[i].type);
	return size;
}

const char *ip_kernel_group_name(enum ip_kernel_group group)
{
	static const char *const names[IP_KERNEL_GROUPS] = {"sched", "syscalls", "irq", "faults",
							    "block"};

	return names[group];
}

int ip_kernel_groups_parse(const char *text, unsigned *ret)
{
	/* without it nothing else can be understood */
	*ret = 1u << IP_KERNEL_GROUP_SCHED;
	do {
		size_t n = strcspn(text, ",");
		unsigned i;

		for (i = 0; i < IP_KERNEL_GROUPS; i++)
			if (strlen(ip_kernel_group_name(i)) == n &&
			    !memcmp(text, ip_kernel_group_name(i), n))
				break;
		if (i == IP_KERNEL_GROUPS && !(n == 3 && !memcmp(text, "all", 3)))
			return ip_error("--kernel takes sched, syscalls, irq, faults, block, all "
					"and optional, separated by commas, not '%.*s'",
					(int)(n < 40 ? n : 40), text);
		*ret |= i < IP_KERNEL_GROUPS ? 1u << i : (1u << IP_KERNEL_GROUPS) - 1;
		text += n + (text[n] == ',');
	} while (*text);
	return 0;
}

int ip_kernel_choice_parse(const char *text, unsigned *ret_groups, bool *ret_optional)
{
	_cleanup_free_ char *groups = strdup(text ? text : "");
	size_t n = 0;

	*ret_optional = false;
	if (!groups)
		return ip_error("out of memory");
	for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		const size_t length = strcspn(at, ",");

		if (length == strlen(OPTIONAL) && !memcmp(at, OPTIONAL, length)) {
			*ret_optional = true;
			continue;
		}
		if (n)
			groups[n++] = ',';
		memcpy(groups + n, at, length);
		n += length;
	}
	groups[n] = '\0';
	return ip_kernel_groups_parse(text && (n || !*ret_optional) ? groups : IP_KERNEL_USUAL,
				      ret_groups);
}

char *ip_kernel_groups_text(unsigned groups)
{
	char text[64] = "";
	size_t n = 0;

	for (unsigned i = 0; i < IP_KERNEL_GROUPS; i++)
		if (groups >> i & 1)
			n += snprintf(text + n, sizeof(text) - n, "%s%s", n ? "," : "",
				      ip_kernel_group_name(i));
	return strdup(text);
}

bool ip_kernel_segment_parse(const char *text, uint32_t *ret)
{
	const size_t n = strspn(text, "0123456789");
	unsigned long number;

	/* each has one name */
	if (!n || n > 9 || text[n] || (*text == '0' && n > 1))
		return false;
	number = strtoul(text, NULL, 10);
	*ret = number;
	return true;
}

bool ip_kernel_stream_name_parse(const char *name, struct ip_kernel_stream_name *ret)
{
	static const char *const parts[] = {IP_KERNEL_ALL, IP_KERNEL_TARGET, IP_KERNEL_STATE};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		size_t n = strlen(parts[i]), digits;

		if (strncmp(name, parts[i], n) || name[n] != '_')
			continue;
		digits = strspn(name + n + 1, "0123456789");
		*ret = (struct ip_kernel_stream_name){.base = n + 1 + digits, .all = i == 0};
		ret->in_segments = name[ret->base] == '-';
		return digits && (ret->in_segments ? ip_kernel_segment_parse(name + ret->base + 1,
									     &ret->segment)
						   : !name[ret->base]);
	}
	return false;
}
