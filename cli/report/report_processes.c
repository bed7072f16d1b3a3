/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the processes of a trace.
 */
#include "cli/report/report_processes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/read/members.h"
#include "common/cleanup.h"
#include "common/print.h"
#include "common/units.h"

/* The stops of a member. A process that was forked in it has no stops of its own. */
struct stops {
	uint64_t n, ns, longest_ns;
};

static struct stops stops_of(const struct ip_trace_reader *t, const struct ip_trace_process *p)
{
	struct stops sum = {0};

	for (size_t i = 0; i < t->session->nstops; i++) {
		const struct ip_recording_stop *stop = &t->session->stops[i];

		if (stop->member != p->member)
			continue;
		sum.n++;
		sum.ns += stop->duration_ns;
		if (stop->duration_ns > sum.longest_ns)
			sum.longest_ns = stop->duration_ns;
	}
	if (t->session->members) {
		const struct ip_recording *own = t->session->members->items[p->member].own;

		sum.n += own->more_stops;
		sum.ns += own->more_stops_ns;
		if (own->more_stops_longest_ns > sum.longest_ns)
			sum.longest_ns = own->more_stops_longest_ns;
	}
	return sum;
}

/* Whether the recording of a member began with the process: it has the member's stops. */
static bool is_first(const struct ip_trace_reader *t, const struct ip_trace_process *p)
{
	return t->session->members && p->pid == t->session->members->items[p->member].pid;
}

void cli_processes_json(struct ip_json *j, const struct ip_trace_reader *t)
{
	_cleanup_free_ uint64_t *events = ip_trace_reader_processes_events(t);

	ip_json_array(j, "processes");
	for (size_t i = 0; events && i < t->nprocesses; i++) {
		const struct ip_trace_process *p = &t->process_list[i];

		if (p->off)
			continue;
		ip_json_object(j, NULL);
		ip_json_uint(j, "pid", p->pid);
		ip_json_string(j, "name", p->name);
		ip_json_string(j, "command", p->command);
		if (p->parent)
			ip_json_uint(j, "parent_pid", p->parent);
		if (p->forked && p->parent)
			ip_json_uint(j, "forked_from", p->parent);
		ip_json_uint(j, "threads", p->threads);
		ip_json_uint(j, "events", events[i]);
		ip_json_uint(j, "lost", p->lost);
		if (is_first(t, p)) {
			struct stops stops = stops_of(t, p);

			ip_json_string(j, "dir", t->session->members->items[p->member].name);
			ip_json_uint(j, "stops", stops.n);
			ip_json_double(j, "stops_us", stops.ns / 1e3);
			ip_json_double(j, "stops_longest_us", stops.longest_ns / 1e3);
			ip_json_uint(j, "looks", t->session->members->items[p->member].own->looks);
			ip_json_double(j, "looks_us",
				       t->session->members->items[p->member].own->looks_ns / 1e3);
		}
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

void cli_processes_print(const struct ip_trace_reader *t)
{
	_cleanup_free_ uint64_t *events = ip_trace_reader_processes_events(t);

	for (size_t i = 0; events && t->processes > 1 && i < t->nprocesses; i++) {
		const struct ip_trace_process *p = &t->process_list[i];
		struct stops stops = stops_of(t, p);
		char count[32], threads[32], lost[32], sum[16], longest[16];

		if (p->off)
			continue;
		ip_print(stdout, "process    %u %s", p->pid, p->name);
		if (p->forked && p->parent)
			ip_print(stdout, ", forked from %u", p->parent);
		ip_print(stdout, ": %s events of %s thread%s", ip_format_count(events[i], count),
			 ip_format_count(p->threads, threads), p->threads == 1 ? "" : "s");
		if (p->lost)
			ip_print(stdout, ", %s LOST", ip_format_count(p->lost, lost));
		if (is_first(t, p) && stops.n)
			ip_print(stdout, "; %s stop%s, together %s, the longest %s",
				 ip_format_count(stops.n, count), stops.n == 1 ? "" : "s",
				 ip_format_ns(stops.ns, sum),
				 ip_format_ns(stops.longest_ns, longest));
		ip_print(stdout, "\n");
	}
}

const char *cli_in_member(const struct ip_trace_reader *t, uint32_t member, char buffer[16])
{
	*buffer = '\0';
	if (t->session->members)
		snprintf(buffer, 16, " in %u", t->session->members->items[member].pid);
	return buffer;
}
