/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a trace: a list of them, and the choice of some.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/trace_private.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

/* The name of the program in a command line: of "nginx: worker process", "/bin/sh -c x" ... */
static char *name_of(const char *command)
{
	const char *end = command ? command + strcspn(command, " \t") : "", *begin = end;

	if (!command || end == command)
		return strdup("?");
	while (begin > command && begin[-1] != '/')
		begin--;
	if (end[-1] == ':' && end - begin > 1)
		end--;
	return strndup(begin, end - begin);
}

static int by_process(const void *a, const void *b)
{
	const struct ip_thread_packets *x = *(const struct ip_thread_packets *const *)a,
				       *y = *(const struct ip_thread_packets *const *)b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int add(struct ip_trace_reader *t, uint32_t pid)
{
	const struct ip_recording_process *told = ip_recording_process(t->session, pid);
	struct ip_trace_process *p;

	if (ip_array_grow(&t->process_list, t->nprocesses, sizeof(*t->process_list)) < 0)
		return -1;
	p = &t->process_list[t->nprocesses];
	*p = (struct ip_trace_process){.pid = pid,
				       .own = pid,
				       .command = told && *told->command ? told->command
									 : t->session->command,
				       .named = told && *told->name,
				       .parent = told ? told->parent : 0,
				       .forked = told && told->forked};
	p->name = p->named ? strdup(told->name) : name_of(p->command);
	if (!p->name)
		return ip_error("out of memory");
	t->nprocesses++;
	return 0;
}

int ip_trace_reader_list_processes(struct ip_trace_reader *t, uint64_t told)
{
	_cleanup_free_ struct ip_thread_packets **runs = calloc(t->nruns + 1, sizeof(*runs));

	if (!runs)
		return ip_error("out of memory");
	for (size_t i = 0; i < t->nruns; i++)
		runs[i] = &t->runs[i];
	if (t->nruns)
		qsort(runs, t->nruns, sizeof(*runs), by_process);
	for (size_t i = 0; i < t->nruns; i++) {
		struct ip_trace_process *p;

		if ((!i || runs[i - 1]->pid != runs[i]->pid) && add(t, runs[i]->pid) < 0)
			return -1;
		p = &t->process_list[t->nprocesses - 1];
		p->threads += !p->threads || runs[i - 1]->tid != runs[i]->tid;
		p->lost += runs[i]->lost;
		runs[i]->process = t->nprocesses - 1;
	}
	/* a process that has recorded nothing is one of the trace, too */
	if (!t->nprocesses && t->session->pid && add(t, t->session->pid) < 0)
		return -1;
	if (!t->nprocesses)
		return 0;
	/* what packets do not tell, or what is not counted as lost, is put down to the first */
	if (t->lost >= told)
		t->process_list[0].lost += t->lost - told;
	else
		for (size_t i = 0, less = told - t->lost; i < t->nprocesses; i++) {
			struct ip_trace_process *p = &t->process_list[i];
			uint64_t take = p->lost < less ? p->lost : less;

			p->lost -= take;
			less -= take;
		}
	return 0;
}

void ip_trace_reader_add_up(struct ip_trace_reader *t)
{
	t->threads = t->processes = t->lost = 0;
	for (size_t i = 0; i < t->nprocesses; i++) {
		const struct ip_trace_process *p = &t->process_list[i];

		if (p->off)
			continue;
		t->threads += p->threads;
		t->processes += p->threads || t->members;
		t->lost += p->lost;
	}
}

static bool is_chosen(const struct ip_trace_process *p, const char *text, int pid)
{
	return pid ? p->pid == (uint32_t)pid : fnmatch(text, p->name, 0) == 0;
}

/* The processes that there are, for people. */
static int no_such(const struct ip_trace_reader *t, const char *text)
{
	_cleanup_free_ char *there = NULL;
	size_t size;
	FILE *out = open_memstream(&there, &size);

	for (size_t i = 0; out && i < t->nprocesses && i < 8; i++)
		ip_print(out, "%s%s (%u)", i ? ", " : "", t->process_list[i].name,
			 t->process_list[i].pid);
	if (out && t->nprocesses > 8)
		ip_print(out, " and %zu more", t->nprocesses - 8);
	if (out)
		fclose(out);
	return ip_error("%s: no process '%s' in the trace; there %s %s", t->dir, text,
			t->nprocesses == 1 ? "is" : "are", there && *there ? there : "none");
}

int ip_trace_reader_choose(struct ip_trace_reader *t, const char *text)
{
	int pid = 0;
	size_t n = 0;

	if (!text)
		return 0;
	if (text[strspn(text, "0123456789")] || ip_parse_pid(text, &pid) < 0)
		pid = 0;
	for (size_t i = 0; i < t->nprocesses; i++) {
		t->process_list[i].off = !is_chosen(&t->process_list[i], text, pid);
		n += !t->process_list[i].off;
	}
	if (!n)
		return no_such(t, text);
	for (size_t i = 0; i < t->nruns; i++)
		t->runs[i].off = t->process_list[t->runs[i].process].off;
	for (size_t i = 0; i < t->nmembers; i++) {
		struct ip_trace_reader *own = t->members[i];

		for (size_t p = 0; p < own->nprocesses; p++)
			own->process_list[p].off = t->process_list[own->process_list[p].joined].off;
		for (size_t r = 0; r < own->nruns; r++)
			own->runs[r].off = own->process_list[own->runs[r].process].off;
	}
	ip_trace_reader_add_up(t);
	return 0;
}

uint64_t *ip_trace_reader_processes_events(const struct ip_trace_reader *t)
{
	uint64_t *events = calloc(t->nprocesses + 1, sizeof(*events));

	if (!events)
		ip_error("out of memory");
	for (size_t i = 0; events && i < t->nruns; i++)
		events[t->runs[i].process] += t->runs[i].events;
	return events;
}
