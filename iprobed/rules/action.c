/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is recorded of a target when a rule has fired: the command lines, and their results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/now.h"
#include "common/units.h"
#include "iprobed/rules/command.h"
#include "iprobed/rules/members.h"
#include "iprobed/rules/store.h"

#define LINE 1024 /* of what was recorded or found */

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
	ip_rules_command_values(c, r);
	if (r->kernel) {
		ip_rules_command_add(c, "--kernel=%s", r->kernel);
		ip_rules_command_add(c, "--kernel-buffer");
		ip_rules_command_add(c, "%u", IP_RULES_KERNEL_BUFFER);
	}
	if (r->action == IP_RULES_HIST) {
		ip_rules_command_add(c, "--payload");
		ip_rules_command_add(c, "hist");
	}
}

static void fperf(const struct ip_rules *e, const struct ip_rules_rule *r,
		  struct ip_rules_command *c)
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

/* Notes in why.txt which processes of a service are recorded, and how many could not be had. */
static void note_members(const struct ip_rules *e, const struct ip_rules_target *t,
			 const struct ip_rules_state *state, const struct ip_rules_members *members,
			 const char *dir)
{
	char *text = NULL;
	size_t size, left_out;
	FILE *out = open_memstream(&text, &size);

	ip_rules_members_count(e, t, state, &left_out);
	for (size_t i = 0; out && i < members->n; i++)
		fprintf(out, "%s%d", i ? " " : "recorded ", members->pids[i]);
	if (out && left_out)
		fprintf(out,
			"; %zu of the service left out: %s recorded for another rule, or "
			"cleaned up after",
			left_out, left_out == 1 ? "it is" : "they are");
	if (out && fclose(out) == 0)
		ip_rules_store_note(dir, text);
	free(text);
}

/* Starts the command that records. */
static int start(struct ip_rules *e, struct ip_rules_target *t, const struct ip_rules_arm *arm,
		 const struct ip_rules_members *members)
{
	const struct ip_rules_rule *r = arm->state->rule;
	struct ip_rules_command c;

	if (r->action == IP_RULES_DARC) {
		ip_rules_search_command(e, t, arm, &c);
		return ip_rules_command_start(&c, e, members, t->dir, &t->job);
	}
	if (r->action == IP_RULES_FPERF) {
		fperf(e, r, &c);
	} else {
		ip_rules_command_iprobe(&c, e, "attach");
		ip_rules_command_options(&c, r, "trace");
		limits_of(r, &c);
	}
	/* what they fork meanwhile: the delegation leaves out what these execute */
	if (members->service)
		ip_rules_command_add(&c, "--children");
	ip_rules_command_pids(&c, members);
	return ip_rules_command_start(&c, e, members, t->dir, &t->job);
}

static int act_begin(struct ip_rules *e, struct ip_rules_target *t,
		     const struct ip_rules_firing *firing, const struct ip_rules_members *members)
{
	const struct ip_rules_state *state = firing->arm->state;

	if (ip_rules_note(e, &t->process) < 0)
		return -1;
	if (ip_rules_members_note(e, t) < 0 ||
	    ip_rules_begin_directory(e, t, firing->arm, firing->why, &t->dir) < 0)
		return -1;
	if (state->rule->service)
		note_members(e, t, state, members, t->dir);
	if (start(e, t, firing->arm, members) == 0)
		return 0;
	ip_rules_store_remove(t->dir);
	free(ip_steal_ptr(t->dir));
	return -1;
}

int ip_rules_act_begin(struct ip_rules *e, struct ip_rules_target *t,
		       const struct ip_rules_firing *firing)
{
	const struct ip_rules_rule *r = firing->arm->state->rule;
	struct ip_rules_members members;
	int done = ip_rules_members_led(e, t, firing->arm->state, &members);

	t->memory = ip_rules_memory_of(r, members.n);
	t->nmembers = members.service ? members.n : 0;
	if (done == 0)
		done = ip_rules_memory_check(e, t->memory);
	if (done == 0)
		done = act_begin(e, t, firing, &members);
	ip_rules_members_clear(&members);
	if (done < 0) {
		ip_rules_members_forget(e, t);
		ip_rules_forget(e, &t->process);
		return -1;
	}
	ip_rules_members_join(e, t);
	t->job.limit_ns = ip_now_ns() + r->for_ns + IP_RULES_TIMEOUT_NS;
	t->doing = IP_RULES_ACT;
	t->told_memory = false;
	t->by = firing->arm;
	return 0;
}

/* Returns how many processes have been recorded. Of several some may have failed, and the exit code
 * says so: the others are worth keeping. So is a trace whose events of the kernel are not whole. */
static size_t count_recorded(const struct ip_rules_target *t, bool is_fperf)
{
	_cleanup_free_ char *path = NULL;
	struct stat st;
	char end[64], line[64];

	if (!WIFEXITED(t->job.status))
		return 0;
	if (t->by->state->rule->action == IP_RULES_DARC)
		return ip_rules_search_said(&t->job, line, sizeof(line));
	/* a summary comes from a recording alone, also where events of the kernel were cut short */
	if (!t->nmembers)
		return !WEXITSTATUS(t->job.status) ||
		       (!is_fperf && ip_rules_job_string(&t->job, "end", end, sizeof(end)));
	if (!is_fperf)
		return ip_rules_job_figure(&t->job, "processes");
	if (asprintf(&path, "%s/fperf.json", t->dir) < 0) {
		path = NULL;
		return 0;
	}
	return stat(path, &st) == 0 && st.st_size;
}

/* What the kernel could not tell, where the rule records without it. */
static void tell_missing(struct ip_rules_target *t, const char *missing)
{
	_cleanup_free_ char *line = NULL;

	ip_rules_log(t->by->state, t, "it is recorded without events of the kernel: %s", missing);
	if (asprintf(&line, "without events of the kernel: %s", missing) < 0)
		line = NULL;
	if (line)
		ip_rules_store_note(t->dir, line);
}

bool ip_rules_act_end(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	struct ip_rules_state *state = t->by->state;
	const struct ip_rules_rule *r = state->rule;
	double events = ip_rules_job_figure(&t->job, "events"),
	       calls = ip_rules_job_figure(&t->job, "counted"),
	       stopped = 1e3 * ip_rules_job_figure(&t->job, t->nmembers ? "stopped_us" : "stop_us"),
	       kernel = ip_rules_job_figure_in(&t->job, "kernel", "events"),
	       cost = events * IP_RULES_EVENT_NS + calls * IP_RULES_MEASURE_NS +
		      kernel * IP_RULES_KERNEL_NS + stopped;
	size_t n = count_recorded(t, r->action == IP_RULES_FPERF);
	char count[32], counted[32], stops[16], line[LINE], of[48] = "", beside[48] = "",
							    missing[256] = "";

	if (!n) {
		const pid_t iprobe = ip_rules_job_taken_by(&t->job);

		if (iprobe)
			ip_rules_came_of(
				t->by->state, t, false,
				"nothing is recorded: it has a session of iprobe %d, which "
				"iprobe detach %d ends",
				iprobe, t->process.pid);
		else
			ip_rules_came_of(t->by->state, t, false, "nothing is %s: %s",
					 r->action == IP_RULES_DARC ? "searched" : "recorded",
					 *t->job.word ? t->job.word : "its session was killed");
		ip_rules_store_remove(t->dir);
		if (WIFSIGNALED(t->job.status)) {
			free(t->left_dir);
			t->left_dir = ip_steal_ptr(t->dir);
		}
		ip_rules_service_failed(&t->by->state->services, t->by->service);
		return false;
	}
	if (r->action == IP_RULES_FPERF) {
		snprintf(line, sizeof(line), "counted");
	} else if (r->action == IP_RULES_DARC) {
		ip_rules_search_said(&t->job, line, sizeof(line));
	} else {
		if (t->nmembers)
			snprintf(of, sizeof(of), " of %zu process%s", n, n == 1 ? "" : "es");
		if (kernel > 0)
			snprintf(beside, sizeof(beside), ", %s events of the kernel",
				 ip_format_count(kernel, count));
		snprintf(line, sizeof(line),
			 "%s events and %s calls counted%s%s, lost %.0f, stopped for %s in all",
			 ip_format_count(events, count), ip_format_count(calls, counted), of,
			 beside, ip_rules_job_figure(&t->job, "lost"),
			 ip_format_ns(stopped, stops));
		/* of a service, it is a share of all its processes' time */
		t->by->not_before_ns = now_ns + ip_rules_pay_back(cost / n, r->overhead_percent);
		if (r->service)
			ip_rules_members_pay(e, t, state, t->by->not_before_ns);
	}
	ip_rules_store_note(t->dir, line);
	if (r->action == IP_RULES_DARC)
		ip_rules_search_tell_missing(t);
	if (r->kernel && ip_rules_job_string(&t->job, "missing", missing, sizeof(missing)))
		tell_missing(t, missing);
	if (WEXITSTATUS(t->job.status) && !t->nmembers)
		ip_rules_log(state, t, "%s", t->job.word);
	else if (WEXITSTATUS(t->job.status))
		ip_rules_log(t->by->state, t, "not all of its service could be recorded: %s",
			     t->job.word);
	ip_rules_came_of(t->by->state, t, true, "has %s: %s; in %s",
			 r->action == IP_RULES_DARC ? "searched" : "recorded", line, t->dir);
	return true;
}

int ip_rules_clean_begin(struct ip_rules *e, struct ip_rules_target *t)
{
	struct ip_rules_members members;
	struct ip_rules_command c;
	int done;

	ip_rules_command_iprobe(&c, e, "detach");
	/* the session of another iprobe must not be ended */
	ip_rules_command_add(&c, "--left-over");
	ip_rules_command_add(&c, "--");
	ip_rules_command_add(&c, "%d", t->process.pid);
	done = ip_rules_members_one(t, &members);
	if (done == 0)
		done = ip_rules_command_start(&c, e, &members, "/", &t->job);
	ip_rules_members_clear(&members);
	if (done < 0)
		return -1;
	t->job.limit_ns = ip_now_ns() + IP_RULES_TIMEOUT_NS;
	t->doing = IP_RULES_CLEAN;
	return 0;
}
