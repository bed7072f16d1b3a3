/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is recorded of a target when a rule has fired: the command lines, and their results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/now.h"
#include "common/units.h"
#include "iprobed/rules/command.h"
#include "iprobed/rules/store.h"

static void limits_of(const struct ip_rules_rule *r, struct ip_rules_command *c)
{
	ip_rules_command_add(c, "--duration");
	ip_rules_command_add(c, "%luns", r->for_ns);
	ip_rules_command_add(c, "--max-size");
	ip_rules_command_add(c, "%lu", r->disk / 2);
	if (r->ring) {
		ip_rules_command_add(c, "--memory");
		ip_rules_command_add(c, "%lu", r->ring);
	}
	if (r->args)
		ip_rules_command_add(c, "--args");
	if (r->retval)
		ip_rules_command_add(c, "--retval");
	for (size_t i = 0; i < r->args_of.n; i++)
		ip_rules_command_add(c, "--args=%s", r->args_of.items[i]);
	for (size_t i = 0; i < r->retval_of.n; i++)
		ip_rules_command_add(c, "--retval=%s", r->retval_of.items[i]);
	for (size_t i = 0; i < r->when.n; i++)
		ip_rules_command_add(c, "--when=%s", r->when.items[i]);
	if (r->action == IP_RULES_HIST) {
		ip_rules_command_add(c, "--payload");
		ip_rules_command_add(c, "hist");
	}
}

static void fperf(const struct ip_rules *e, const struct ip_rules_rule *r,
		  struct ip_rules_command *c, pid_t pid)
{
	*c = (struct ip_rules_command){0};
	ip_rules_command_add(c, "%s", e->fperf);
	ip_rules_command_add(c, "--json");
	ip_rules_command_add(c, "-q");
	ip_rules_command_add(c, "-o");
	ip_rules_command_add(c, "fperf.json");
	ip_rules_command_add(c, "--profile");
	ip_rules_command_add(c, "%s", r->profile);
	ip_rules_command_add(c, "--duration");
	ip_rules_command_add(c, "%luns", r->for_ns);
	if (r->overhead_percent > 0) {
		ip_rules_command_add(c, "--budget");
		ip_rules_command_add(c, "%g%%", r->overhead_percent);
	}
	ip_rules_command_add(c, "-p");
	ip_rules_command_add(c, "%d", pid);
}

static void make_room(const struct ip_rules *e, const struct ip_rules_state *state)
{
	unsigned removed;
	char size[16];

	if (ip_rules_store_make_room(e->options->traces, state->rule, &removed) == 0 && removed)
		ip_rules_log(state, NULL,
			     "the %u oldest of what it has recorded are removed, so that it has no "
			     "more than %s (disk)",
			     removed, ip_format_size(state->rule->disk, size));
}

/* Returns the command line for why.txt; "": it cannot be read. It may not have been read yet, since
 * not all rules ask for it. */
static const char *cmdline_of(struct ip_rules *e, struct ip_rules_target *t)
{
	return ip_rules_cmdline_read(&e->reader, &t->process) == 0 ? t->process.cmdline : "";
}

int ip_rules_begin_directory(struct ip_rules *e, struct ip_rules_target *t,
			     const struct ip_rules_arm *arm, const char *why, char **ret)
{
	const struct ip_rules_process *p = &t->process;

	make_room(e, arm->state);
	return ip_rules_store_begin(e->options->traces, arm->state->rule, p->pid, p->exe,
				    cmdline_of(e, t), t->service, why, ret);
}

int ip_rules_act_begin(struct ip_rules *e, struct ip_rules_target *t,
		       const struct ip_rules_firing *firing)
{
	const struct ip_rules_rule *r = firing->arm->state->rule;
	const struct ip_rules_process *p = &t->process;
	struct ip_rules_command c;

	t->memory = ip_rules_memory_of(r);
	if (ip_rules_memory_check(e, t->memory) < 0)
		return -1;
	if (ip_rules_note(e, p) < 0 ||
	    ip_rules_begin_directory(e, t, firing->arm, firing->why, &t->dir) < 0) {
		ip_rules_forget(e, p);
		return -1;
	}
	if (r->action == IP_RULES_FPERF) {
		fperf(e, r, &c, p->pid);
	} else {
		ip_rules_command_iprobe(&c, e, "attach");
		ip_rules_command_options(&c, r, "trace");
		limits_of(r, &c);
		ip_rules_command_add(&c, "--");
		ip_rules_command_add(&c, "%d", p->pid);
	}
	if (ip_rules_command_start(&c, e, t, t->dir, &t->job) < 0) {
		ip_rules_store_remove(t->dir);
		free(ip_steal_ptr(t->dir));
		ip_rules_forget(e, p);
		return -1;
	}
	t->job.limit_ns = ip_now_ns() + r->for_ns + IP_RULES_TIMEOUT_NS;
	t->doing = IP_RULES_ACT;
	t->told_memory = false;
	t->by = firing->arm;
	return 0;
}

bool ip_rules_act_end(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	const struct ip_rules_rule *r = t->by->state->rule;
	double events = ip_rules_job_figure(&t->job, "events"),
	       calls = ip_rules_job_figure(&t->job, "counted"),
	       stopped = 1e3 * ip_rules_job_figure(&t->job, "stop_us");
	char count[32], counted[32], stops[16], line[512];

	(void)e;
	if (!WIFEXITED(t->job.status) || WEXITSTATUS(t->job.status)) {
		ip_rules_log(t->by->state, t, "nothing is recorded: %s",
			     *t->job.word ? t->job.word : "its session was killed");
		ip_rules_store_remove(t->dir);
		ip_rules_service_failed(&t->by->state->services, t->by->service);
		return false;
	}
	if (r->action == IP_RULES_FPERF) {
		snprintf(line, sizeof(line), "counted");
	} else {
		snprintf(line, sizeof(line),
			 "%s events and %s calls counted, lost %.0f, stopped for %s in all",
			 ip_format_count(events, count), ip_format_count(calls, counted),
			 ip_rules_job_figure(&t->job, "lost"), ip_format_ns(stopped, stops));
		t->by->not_before_ns =
			now_ns + ip_rules_pay_back(events * IP_RULES_EVENT_NS +
							   calls * IP_RULES_MEASURE_NS + stopped,
						   r->overhead_percent);
	}
	ip_rules_store_note(t->dir, line);
	ip_rules_log(t->by->state, t, "has recorded: %s; in %s", line, t->dir);
	return true;
}

int ip_rules_clean_begin(struct ip_rules *e, struct ip_rules_target *t)
{
	struct ip_rules_command c;

	ip_rules_command_iprobe(&c, e, "detach");
	/* the session of another iprobe must not be ended */
	ip_rules_command_add(&c, "--left-over");
	ip_rules_command_add(&c, "--");
	ip_rules_command_add(&c, "%d", t->process.pid);
	if (ip_rules_command_start(&c, e, t, "/", &t->job) < 0)
		return -1;
	t->job.limit_ns = ip_now_ns() + IP_RULES_TIMEOUT_NS;
	t->doing = IP_RULES_CLEAN;
	return 0;
}
