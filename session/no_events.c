/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out why a session has recorded nothing. See no_events.h.
 */
#include "session/no_events.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/now.h"
#include "common/proc.h"
#include "common/selection/selection.h"
#include "common/units.h"
#include "common/values/value_request.h"
#include "hotpatcher/plan/inlined_calls.h"
#include "session/session_private.h"

/* Threads that were woken to go live are back in their waits by then. */
#define SETTLED_NS   20000000ull
#define CHILDREN_MAX 4096u /* processes that are looked at */

/* Looks whether a thread of the process runs, or would if it had a CPU: one that has been runnable
 * for some time and has not run is still so. If none does: whether one is stopped by a signal. What
 * cannot be looked at counts as running. */
static void look_at_states(pid_t pid, struct ip_cpu_used *used)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[300], text[256], *end;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	used->waits = !dir;
	while (dir && !used->waits && (entry = readdir(dir))) {
		_cleanup_fclose_ FILE *file = NULL;
		size_t n;

		snprintf(name, sizeof(name), "/proc/%d/task/%s/stat", pid, entry->d_name);
		file = isdigit((unsigned char)entry->d_name[0]) ? fopen(name, "re") : NULL;
		n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
		text[n] = '\0';
		end = strrchr(text, ')'); /* the name before it may hold anything */
		used->waits = end && !strncmp(end, ") R", 3);
		used->stopped |= end && !strncmp(end, ") T", 3);
	}
}

void ip_session_look_at_cpu(struct ip_session *s, bool ends)
{
	struct ip_cpu_used *used = &s->cpu_used;
	uint64_t now;

	if (ends ? !used->from_ns : used->from_ns != 0)
		return;
	now = ip_now_ns();
	if (ends) {
		/* in this order: a thread that is not seen to wait has not run since, either */
		look_at_states(s->target->pid, used);
		used->known = ip_proc_cpu_used(s->target->pid, &used->last_ns) == 0;
	} else if (now - s->start_ns >= SETTLED_NS &&
		   ip_proc_cpu_used(s->target->pid, &used->first_ns) == 0)
		used->from_ns = now - s->start_ns;
}

struct processes {
	pid_t *items;
	size_t n;
};

static int add_child(void *context, pid_t child)
{
	struct processes *p = context;

	if (p->n == CHILDREN_MAX || ip_array_grow(&p->items, p->n, sizeof(*p->items)) < 0)
		return -1;
	p->items[p->n++] = child;
	return 0;
}

static bool runs_same(pid_t pid, const struct stat *program)
{
	struct stat st;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	return stat(name, &st) == 0 && st.st_dev == program->st_dev && st.st_ino == program->st_ino;
}

/* Counts the processes below the target, at any depth, that run its program. A process that we may
 * not look at does not count. */
static size_t count_children(pid_t pid)
{
	struct processes below = {0};
	struct stat program;
	size_t same = 0;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	if (stat(name, &program) < 0)
		return 0;
	ip_proc_each_child(pid, add_child, &below);
	for (size_t i = 0; i < below.n; i++) { /* below.n grows */
		same += runs_same(below.items[i], &program);
		ip_proc_each_child(below.items[i], add_child, &below);
	}
	free(below.items);
	return same;
}

/* A list of filters as the options say them: "--tid 12, --depth 3". */
struct filter_text {
	char text[160];
};

static void add_filter(void *data, const char *text)
{
	struct filter_text *f = data;
	size_t length = strlen(f->text);

	snprintf(f->text + length, sizeof(f->text) - length, "%s%s", length ? ", " : "", text);
}

static void explain_calls(struct ip_session *s, struct ip_no_events *why)
{
	const struct ip_session_summary *sum = s->summary;
	const struct ip_cpu_used *cpu = &s->cpu_used;
	char what[80], used[16], from[16];

	if (cpu->known && cpu->last_ns == cpu->first_ns && cpu->waits) {
		ip_no_events_add(
			why, "no_cpu",
			"the process got no CPU time, from %s after the start on, although "
			"it would run: others keep the CPUs busy",
			ip_format_ns(cpu->from_ns, from));
		return;
	}
	if (cpu->known && cpu->last_ns == cpu->first_ns && cpu->stopped) {
		ip_no_events_add(
			why, "stopped",
			"the process is stopped by a signal (kill -CONT %d lets it go on): from "
			"%s after the start on its threads used no CPU time",
			s->target->pid, ip_format_ns(cpu->from_ns, from));
		return;
	}
	if (cpu->known && cpu->last_ns == cpu->first_ns) {
		ip_no_events_add(why, "slept",
				 "the process slept: from %s after the start on its threads used "
				 "no CPU time",
				 ip_format_ns(cpu->from_ns, from));
		return;
	}
	/* another tool had taken probes away for a while: calls may be missing */
	if (sum->disturbed)
		return;
	if (sum->functions == 1)
		snprintf(what, sizeof(what), "the function was not called");
	else
		snprintf(what, sizeof(what), "none of the %zu functions was called",
			 sum->functions);
	if (cpu->known && cpu->last_ns > cpu->first_ns)
		ip_no_events_add(why, "not_called",
				 "%s; the process used %s of CPU time for other code", what,
				 ip_format_ns(cpu->last_ns - cpu->first_ns, used));
	else
		ip_no_events_add(why, "not_called", "%s", what);
}

/* No call reached a live site; but calls that have none may have been made. */
static void explain_inlined(const struct ip_session *s, struct ip_no_events *why)
{
	_cleanup_free_ char *readable = NULL;
	char name[512];
	size_t all, found = ip_plan_inlined(s->target, &s->modules, &s->selections, &all, name,
					    sizeof(name));

	if (!found)
		return;
	readable = ip_demangle(name, true);
	if (all == 1)
		ip_no_events_add(
			why, "inlined",
			"the compiler has inlined %.100s into callers as well, where it has "
			"no probe: IPROBE_PLACEMENT=inline gives it some",
			readable ? readable : name);
	else
		ip_no_events_add(why, "inlined",
				 "the compiler has inlined %zu of the functions into callers as "
				 "well (%.100s%s), where they have no probes: "
				 "IPROBE_PLACEMENT=inline gives them some",
				 found, readable ? readable : name, found > 1 ? ", ..." : "");
}

/* Other options and commands take patterns, and --when takes none. */
static void explain_literals(const struct ip_value_requests *requests, struct ip_no_events *why)
{
	for (size_t i = 0; requests && i < requests->n; i++) {
		const struct ip_value_request *r = &requests->items[i];
		const struct ip_expression *text =
			r->kind == IP_REQUEST_WHEN && r->n
				? ip_expression_literal_pattern(r->items[0].expression)
				: NULL;

		if (!text)
			continue;
		ip_no_events_add(why, "literal",
				 "== compares with %.*s as it is written, and takes no pattern: "
				 "=^ asks for a beginning, and report --value takes patterns",
				 (int)(text->end - text->begin), r->items[0].text + text->begin);
		return;
	}
}

static void explain(struct ip_session *s, struct ip_no_events *why)
{
	const struct ip_filter_options *filters = &s->options->filters;
	struct ip_session_summary *sum = s->summary;
	struct filter_text filter = {""};
	size_t children;
	char count[32];

	if (filters->start.name && s->area->filters && !s->area->filters->started)
		ip_no_events_add(why, "start_on",
				 "--start-on %s: that call did not come, and nothing is recorded "
				 "before it",
				 filters->start.name);
	else if (sum->filtered) {
		ip_filters_describe(filters, add_filter, &filter);
		ip_no_events_add(why, "filtered",
				 "the filters left out all %s event%s that happened (%s)",
				 ip_format_count(sum->filtered, count),
				 sum->filtered == 1 ? "" : "s", filter.text);
		explain_literals(filters->requests, why);
	} else {
		explain_calls(s, why);
		if (why->n && !strcmp(why->items[0].code, "not_called"))
			explain_inlined(s, why);
	}
	/* the children of a service may have sessions of their own */
	children =
		s->options->follow_fork || s->options->service ? 0 : count_children(s->target->pid);
	if (children == 1)
		ip_no_events_add(why, "children",
				 "its child process runs the same program: add --children");
	else if (children)
		ip_no_events_add(why, "children",
				 "its %zu child processes run the same program: add --children",
				 children);
	if (sum->foreign)
		ip_no_events_add(why, "foreign",
				 "%zu of the selected sites hold%s what another tool has put there "
				 "(a breakpoint, a uprobe), and %s not recorded",
				 sum->foreign, sum->foreign == 1 ? "s" : "",
				 sum->foreign == 1 ? "is" : "are");
}

void ip_session_explain(struct ip_session *s)
{
	const struct ip_session_summary *sum = s->summary;

	if (sum->events || sum->lost || sum->invalid || sum->overwritten || sum->rotated.events ||
	    sum->calls || s->user.path || ip_controllers_program(s) || s->execed)
		return;
	explain(s, &s->summary->no_events);
	for (size_t i = 0; i < sum->no_events.n; i++)
		ip_trace_add_no_events(s->trace, &sum->no_events.items[i]);
}
