/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what the page tells of the processes of a trace.
 */
#include "analysis/export/html_processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/members.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"

/* The stops of a process; sites: those that an attach made live. */
struct stops {
	uint64_t n, longest_ns, sites;
};

/* The recording that began with the process; NULL: the process was forked in it. */
static const struct ip_recording *begun_with(const struct ip_trace_reader *t,
					     const struct ip_trace_process *p)
{
	const struct ip_recording_members *members = t->session->members;

	if (!members)
		return p->own == t->session->pid ? t->session : NULL;
	return p->pid == members->items[p->member].pid ? members->items[p->member].own : NULL;
}

static struct stops stops_of(const struct ip_trace_reader *t, const struct ip_trace_process *p)
{
	const struct ip_recording *own = begun_with(t, p);
	struct stops sum = {0};

	if (!own)
		return sum;
	sum.n = own->more_stops;
	sum.longest_ns = own->more_stops_longest_ns;
	for (size_t i = 0; i < t->session->nstops; i++) {
		const struct ip_recording_stop *stop = &t->session->stops[i];

		if (stop->member != p->member)
			continue;
		sum.n++;
		sum.sites += strcmp(stop->kind, "attach") ? 0 : stop->sites;
		if (stop->duration_ns > sum.longest_ns)
			sum.longest_ns = stop->duration_ns;
	}
	return sum;
}

char *ip_html_processes(const struct ip_trace_reader *trace)
{
	_cleanup_free_ uint64_t *events = ip_trace_reader_processes_events(trace);
	char *json = NULL;
	size_t size, n = 0;
	FILE *memory = events ? open_memstream(&json, &size) : NULL;
	struct ip_json j;

	if (!memory) {
		ip_error("out of memory");
		return NULL;
	}
	ip_json_init(&j, memory);
	ip_json_array(&j, NULL);
	for (size_t i = 0; i < trace->nprocesses && n < IP_HTML_PROCESSES; i++) {
		const struct ip_trace_process *p = &trace->process_list[i];
		const struct stops stops = stops_of(trace, p);

		if (p->off)
			continue;
		n++;
		ip_json_object(&j, NULL);
		ip_json_uint(&j, "pid", p->pid);
		ip_json_string(&j, "name", p->name);
		ip_json_string(&j, "command", p->command);
		ip_json_uint(&j, "threads", p->threads);
		ip_json_uint(&j, "events", events[i]);
		ip_json_uint(&j, "lost", p->lost);
		ip_json_uint(&j, "sites", stops.sites);
		ip_json_uint(&j, "stops", stops.n);
		ip_json_uint(&j, "longest", stops.longest_ns);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	return ip_print_end_text(memory, &json);
}
