/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints rules. See rules_print.h.
 */
#include "cli/check/rules_print.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/process_set.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"
#include "config/rule_text.h"
#include "iprobed/rules/find.h"
#include "kernel_trace/kernel_check.h"
#include "kernel_trace/recorder.h"

#define NAMED_MAX 8u /* processes of a rule that are named */

struct found {
	char *text; /* of the first NAMED_MAX */
	size_t n;
};

static void add_process(void *context, const struct ip_rules_process *process)
{
	struct found *found = context;
	char *longer;

	if (found->n++ >= NAMED_MAX ||
	    asprintf(&longer, "%s%s%d (%s)", found->text ? found->text : "",
		     found->text ? ", " : "pid ", process->pid, process->exe) < 0)
		return;
	free(found->text);
	found->text = longer;
}

/* A rule's exe is the file that runs; a link to it may have the name that people know. */
static void tell_called(void *context, const struct ip_rules_process *process)
{
	unsigned *n = context;

	if ((*n)++ < NAMED_MAX)
		ip_print(stdout,
			 "    pid %d is called so, and runs %s: exe is that file, not a link to "
			 "it\n",
			 process->pid, process->exe);
}

static void print_processes(const struct ip_rules_rule *rule, const char *program)
{
	struct found found = {0};

	ip_rules_find(rule, program, add_process, &found);
	if (!found.text) {
		unsigned n = 0;

		ip_print(stdout, "    no process that runs matches\n");
		ip_rules_find_called(rule, program, tell_called, &n);
	} else if (found.n <= NAMED_MAX)
		ip_print(stdout, "    matches %s\n", found.text);
	else
		ip_print(stdout, "    matches %s, and %zu others\n", found.text,
			 found.n - NAMED_MAX);
	free(found.text);
}

static void tell_users(const struct ip_rules_rule *rule)
{
	for (size_t i = 0; i < rule->user.n; i++) {
		const char *name = rule->user.items[i];

		if (name[strspn(name, "0123456789")] && !getpwnam(name))
			ip_print(stderr, "iprobed: %s:%u:%u: rule %s: there is no user '%s'\n",
				 rule->file, rule->line, rule->column, rule->name, name);
	}
}

/* What of the kernel's events cannot be had on this machine. */
static void tell_kernel(const struct ip_rules_rule *rule)
{
	_cleanup_free_ char *missing = NULL;
	unsigned groups;
	bool optional;

	if (!rule->kernel || ip_kernel_choice_parse(rule->kernel, &groups, &optional) < 0)
		return;
	if (ip_kernel_missing(groups, IP_KERNEL_SOURCE_AUTO, &missing) < 0)
		ip_print(stderr, "iprobed: %s:%u:%u: rule %s: no events of the kernel here%s: %s\n",
			 rule->file, rule->line, rule->column, rule->name,
			 optional ? ", it would record without" : "", ip_error_message());
	else if (*missing)
		ip_print(stderr, "iprobed: %s:%u:%u: rule %s: this kernel cannot tell of %s\n",
			 rule->file, rule->line, rule->column, rule->name, missing);
}

static void note_process(void *context, const struct ip_rules_process *process)
{
	ip_process_set_add(context, process->pid);
}

struct common {
	const struct ip_process_set *others;
	pid_t pid; /* the first that is for both rules; 0: none is */
};

static void find_common(void *context, const struct ip_rules_process *process)
{
	struct common *common = context;

	if (!common->pid && ip_process_set_has(common->others, process->pid))
		common->pid = process->pid;
}

/* Whether one of the rules keeps the other from its processes: one has a flight recorder, and the
 * other watches. */
static bool exclude_each_other(const struct ip_rules_rule *a, const struct ip_rules_rule *b)
{
	return a->enabled && b->enabled && ip_rules_watches(a) && ip_rules_watches(b) &&
	       (a->action == IP_RULES_SNAPSHOT || b->action == IP_RULES_SNAPSHOT);
}

/* Tells of a rule that waits as long as an earlier one watches its processes. */
static int tell_conflict(const struct ip_probes_d *probes, size_t at, const char *program)
{
	const struct ip_rules_rule *rule = &probes->rules[at];
	struct ip_process_set *own = NULL;
	struct common common = {0};

	for (size_t i = 0; i < at && !common.pid; i++) {
		const struct ip_rules_rule *first = &probes->rules[i];

		if (!exclude_each_other(first, rule))
			continue;
		if (!own) {
			own = ip_process_set_create(false);
			if (!own)
				return -1;
			ip_rules_find(rule, program, note_process, own);
			common.others = own;
		}
		ip_rules_find(first, program, find_common, &common);
		if (common.pid)
			ip_print(stderr,
				 "iprobed: %s:%u:%u: rule %s: waits as long as the rule '%s' "
				 "watches pid %d: a process has one session at a time, and %s a "
				 "flight recorder\n",
				 rule->file, rule->line, rule->column, rule->name, first->name,
				 common.pid,
				 rule->action == IP_RULES_SNAPSHOT ? "this rule has"
								   : "that one has");
	}
	ip_process_set_destroy(own);
	return 0;
}

void cli_rules_print(const struct ip_probes_d *probes, const char *program)
{
	for (size_t i = 0; i < probes->nrules; i++) {
		const struct ip_rules_rule *rule = &probes->rules[i];
		_cleanup_free_ char *text = ip_rules_text(rule);
		char *rest;

		ip_print(stdout, "  rule %s%s: %s\n", rule->name,
			 rule->enabled ? "" : " (not enabled)",
			 rule->description ? rule->description
					   : ip_rules_action_name(rule->action));
		for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
		     line = strtok_r(NULL, "\n", &rest))
			ip_print(stdout, "    %s\n", line);
		print_processes(rule, program);
	}
	fflush(stdout);
	for (size_t i = 0; i < probes->nrules; i++)
		if (probes->rules[i].enabled) {
			tell_users(&probes->rules[i]);
			tell_kernel(&probes->rules[i]);
			if (tell_conflict(probes, i, program) < 0)
				ip_print(stderr, "iprobed: %s\n", ip_error_message());
		}
}
