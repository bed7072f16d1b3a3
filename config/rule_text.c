/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a rule in words. See rule_text.h.
 */
#include "config/rule_text.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/condition.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"
#include "config/rule_search.h"

/* A list of texts: each is parted from the one before. */
struct parts {
	FILE *out;
	const char *between;
	bool any;
};

__attribute__((format(printf, 2, 3))) static void put(struct parts *p, const char *format, ...)
{
	va_list args;

	fputs(p->any ? p->between : "", p->out);
	va_start(args, format);
	vfprintf(p->out, format, args);
	va_end(args);
	p->any = true;
}

static void put_level(struct parts *p, const char *what, const struct ip_rules_level *level,
		      bool bytes)
{
	char value[24], length[24];

	if (!level->set)
		return;
	if (bytes)
		ip_format_size(level->limit, value);
	else
		snprintf(value, sizeof(value), "%g%%", level->limit);
	put(p, "%s is above %s%s%s", what, value, level->for_ns ? " for " : "",
	    level->for_ns ? ip_format_duration(level->for_ns, length) : "");
}

/* The condition is parsed once more without its functions: the names in them may be of selections
 * that only probes.d knows. */
static void put_latency(struct parts *p, const struct ip_rules_rule *r)
{
	const int length = (int)strcspn(r->until, ":");
	const int measure = (int)strcspn(r->until, ">");
	_cleanup_free_ char *text = NULL;
	struct ip_condition c;
	char limit[24], over[24];

	if (asprintf(&text, "%.*s:x", length, r->until) < 0) {
		text = NULL;
		return;
	}
	if (ip_condition_parse(text, &c) < 0)
		return;
	ip_format_duration(c.over_ns, over);
	if (c.measure == IP_CONDITION_RATE)
		put(p, "%s is called more than %lu times in %s", r->latency, c.limit, over);
	else
		put(p, "%.*s of %s is above %s in %s", measure, r->until, r->latency,
		    ip_format_duration(c.limit, limit), over);
	ip_condition_clear(&c);
}

static void put_conditions(const struct ip_rules_rule *r, FILE *out)
{
	struct parts p = {.out = out, .between = ", or "};
	char every[24], what[64];

	if (r->start)
		put(&p, "a process starts");
	if (r->request)
		put(&p, "it is asked for");
	if (r->every_ns)
		put(&p, "%s have passed", ip_format_duration(r->every_ns, every));
	put_level(&p, "its CPU time", &r->cpu, false);
	put_level(&p, "its memory", &r->memory, true);
	for (unsigned i = 0; i < IP_RULES_PRESSURES; i++) {
		snprintf(what, sizeof(what), "the %s pressure of its cgroup",
			 ip_rules_pressure_name(i));
		put_level(&p, what, &r->pressure[i], false);
	}
	if (r->until)
		put_latency(&p, r);
	if (r->signal)
		put(&p, "iprobed gets signal %s", r->signal == SIGUSR1 ? "USR1" : "USR2");
}

static void put_texts(const char *what, bool all, const struct ip_rules_texts *texts, FILE *out)
{
	if (all)
		fprintf(out, ", %s of all", what);
	for (size_t i = 0; i < texts->n; i++)
		fprintf(out, ", %s %s", what, texts->items[i]);
}

static void put_kernel(const struct ip_rules_rule *r, FILE *out)
{
	_cleanup_free_ char *text = NULL;
	unsigned groups;
	bool optional;

	if (!r->kernel || ip_kernel_choice_parse(r->kernel, &groups, &optional) < 0)
		return;
	text = ip_kernel_groups_text(groups);
	fprintf(out, ", with events of the kernel (%s)%s", text ? text : "",
		optional ? " where it tells them" : "");
}

static void put_search(const struct ip_rules_rule *r, FILE *out)
{
	const struct ip_rules_search *s = &r->search;
	const uint64_t slower_ns = ip_rules_search_slower(r);
	const double budget = s->budget_percent > 0 ? s->budget_percent : r->overhead_percent;
	char text[24];

	fputs(r->functions ? r->functions : r->latency, out);
	if (slower_ns)
		fprintf(out, " (%s or longer)", ip_format_duration(slower_ns, text));
	else if (s->percentile)
		fprintf(out, " (from the %s on)", s->percentile);
	else if (s->peak)
		fprintf(out, " (peak %u)", s->peak);
	else
		fputs(" (rightmost peak)", out);
	if (budget > 0)
		fprintf(out, ", budget %g%%", budget);
}

static void put_action(const struct ip_rules_rule *r, FILE *out)
{
	const char *functions = r->functions ? r->functions : "all functions";
	char size[16];

	switch (r->action) {
	case IP_RULES_TRACE:
		fprintf(out, "a trace of %s", functions);
		break;
	case IP_RULES_HIST:
		fprintf(out, "histograms of %s", functions);
		break;
	case IP_RULES_FPERF:
		fprintf(out, "fperf by profile %s", r->profile);
		break;
	case IP_RULES_SNAPSHOT:
		fprintf(out, "a snapshot of the flight recorder of %s%s%s", functions,
			r->functions && r->until ? " and " : "",
			r->functions && r->until ? r->latency : "");
		break;
	case IP_RULES_DARC:
		fputs("the root causes of slow calls of ", out);
		put_search(r, out);
		break;
	}
	put_texts("args", r->args, &r->args_of, out);
	put_texts("retval", r->retval, &r->retval_of, out);
	put_texts("when", false, &r->when, out);
	put_kernel(r, out);
	if (r->ring)
		fprintf(out, ", memory %s", ip_format_size(r->ring, size));
}

static void put_limits(const struct ip_rules_rule *r, FILE *out)
{
	struct parts p = {.out = out, .between = ", "};
	char text[24];

	put(&p, "for %s%s", ip_format_duration(r->for_ns, text),
	    r->action == IP_RULES_SNAPSHOT ? " after the moment"
	    : r->action == IP_RULES_DARC   ? " at most"
					   : "");
	if (r->service)
		put(&p, "all processes of the service");
	if (r->cooldown_ns)
		put(&p, "at most every %s", ip_format_duration(r->cooldown_ns, text));
	if (r->at_most)
		put(&p, "at most %u per %s", r->at_most, ip_format_duration(r->per_ns, text));
	if (r->overhead_percent > 0)
		put(&p, "overhead %g%%", r->overhead_percent);
	put(&p, "disk %s", ip_format_size(r->disk, text));
	put(&p, "at most %u process%s", r->processes, r->processes == 1 ? "" : "es");
}

char *ip_rules_text(const struct ip_rules_rule *rule)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fputs("when ", out);
	put_conditions(rule, out);
	fputs(": ", out);
	put_action(rule, out);
	putc('\n', out);
	put_limits(rule, out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
