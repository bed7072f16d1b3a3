/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What finds out why calls are slow when a rule has fired (do: darc): iprobe darc. It writes its
 * result into the directory of the recording, and tells it in one line. Its own recordings lie in
 * that directory while it searches, since they count as the rule's (disk).
 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/selection/selection.h"
#include "config/rule_search.h"
#include "iprobed/rules/command.h"
#include "iprobed/rules/store.h"

#define RESULT "darc.json"
#define PAGE   "darc.html"

static void add_number(struct ip_rules_command *c, const char *option, unsigned value)
{
	if (!value)
		return;
	ip_rules_command_add(c, "%s", option);
	ip_rules_command_add(c, "%u", value);
}

static void add_text(struct ip_rules_command *c, const char *option, const char *value)
{
	if (!value)
		return;
	ip_rules_command_add(c, "%s", option);
	ip_rules_command_add(c, "%s", value);
}

static void add_calls(const struct ip_rules_rule *r, struct ip_rules_command *c)
{
	const uint64_t slower_ns = ip_rules_search_slower(r);

	if (slower_ns) {
		ip_rules_command_add(c, "--slower-than");
		ip_rules_command_add(c, "%luns", slower_ns);
	}
	add_text(c, "--percentile", r->search.percentile);
	add_number(c, "--peak", r->search.peak);
}

static void add_limits(const struct ip_rules_rule *r, struct ip_rules_command *c)
{
	const double budget =
		r->search.budget_percent > 0 ? r->search.budget_percent : r->overhead_percent;

	ip_rules_command_add(c, "--duration");
	ip_rules_command_add(c, "%luns", r->for_ns);
	ip_rules_command_add(c, "--memory");
	ip_rules_command_add(c, "%lu", r->ring ? r->ring : IP_RULES_SEARCH_MEMORY);
	if (budget > 0) {
		ip_rules_command_add(c, "--budget");
		ip_rules_command_add(c, "%g%%", budget);
	}
	if (r->kernel)
		ip_rules_command_add(c, "--kernel=%s", r->kernel);
}

/* Where the rule names no function, it is the one whose latency has fired it: the rule may watch
 * several. */
static void add_function(const struct ip_rules_arm *arm, struct ip_rules_command *c)
{
	const struct ip_rules_rule *r = arm->state->rule;
	_cleanup_free_ char *quoted = NULL;

	if (!r->functions && arm->function) {
		quoted = ip_selection_quote(arm->function, strlen(arm->function));
		c->failed |= !quoted;
	}
	add_text(c, "-f", quoted ? quoted : r->functions ? r->functions : r->latency);
}

void ip_rules_search_command(const struct ip_rules *e, const struct ip_rules_target *t,
			     const struct ip_rules_arm *arm, struct ip_rules_command *c)
{
	const struct ip_rules_rule *r = arm->state->rule;

	ip_rules_command_iprobe(c, e, "darc");
	ip_rules_command_add(c, "--json");
	ip_rules_command_add(c, "-q");
	add_text(c, "-o", RESULT);
	add_text(c, "--html", r->search.html ? PAGE : NULL);
	add_calls(r, c);
	add_number(c, "--start-ops", r->search.start_ops);
	add_number(c, "--decision-ops", r->search.decision_ops);
	add_number(c, "--max-functions", r->search.max_functions);
	add_number(c, "--depth", r->search.depth);
	add_text(c, "--maxcount-percentage", r->search.maxcount_percentage);
	add_limits(r, c);
	add_function(arm, c);
	ip_rules_command_add(c, "%d", t->process.pid);
	c->temporary = ".";
}

bool ip_rules_search_said(const struct ip_rules_job *job, char *line, size_t size)
{
	return ip_rules_job_string(job, "said", line, size);
}

void ip_rules_search_tell_missing(struct ip_rules_target *t)
{
	if (!t->by->state->rule->kernel || !ip_rules_job_is(&t->job, "kernel", "false"))
		return;
	ip_rules_log(t->by->state, t, "it is searched without events of the kernel: %s",
		     *t->job.word ? t->job.word : "they cannot be had");
	ip_rules_store_note(t->dir, "without events of the kernel");
}
