/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a directory with the traces of several processes (common/trace/trace_members.h) as one
 * trace.
 *
 * Each member is opened as a trace of its own: what its streams hold, and up to when its threads
 * lived, is found out there. Then the lists are put together. Events are read from the members'
 * files; the stream shifts their numbers (analysis/read/members.h).
 *
 * A member that is missing is passed over: it has just been announced, or its recording never
 * began. One that cannot be read, or whose times cannot be compared with those of the others, is
 * left out, and a line among the damages says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/callstack/process_parts.h"
#include "analysis/callstack/trace_private.h"
#include "analysis/read/members.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/trace_members.h"

/* Larger than any pid of Linux. */
#define PID_LIMIT (1u << 22)

/* Tells that a member was left out, and why. */
static int leave_out(struct ip_trace_reader *t, const char *name, const char *why)
{
	_cleanup_free_ char *line = NULL;
	size_t n = strlen(t->dir);
	/* what could not be opened is named by the error, too */
	bool named = !strncmp(why, t->dir, n) && why[n] == '/';

	if (asprintf(&line, "%s%s%s%s%s: it is left out", named ? "" : t->dir, named ? "" : "/",
		     named ? "" : name, named ? "" : ": ", why) < 0) {
		line = NULL;
		return ip_error("out of memory");
	}
	return ip_trace_reader_damaged(t, line);
}

/* Takes a member over into the lists. */
static int take(struct ip_trace_reader *t, struct ip_recording_members *members,
		const struct ip_trace_member *listed, struct ip_trace_reader *own)
{
	struct ip_recording_member *m;
	size_t n = members->n;

	if (ip_array_grow(&members->items, n, sizeof(*members->items)) < 0 ||
	    ip_array_grow(&t->members, n, sizeof(struct ip_trace_reader *)) < 0) {
		ip_trace_reader_close(own);
		return -1;
	}
	m = &members->items[n];
	*m = (struct ip_recording_member){
		.own = own->session, .name = strdup(listed->name), .pid = listed->pid};
	own->borrowed = true; /* its recording belongs to the members from now on */
	t->members[t->nmembers++] = own;
	members->n = n + 1;
	return m->name ? 0 : ip_error("out of memory");
}

static int open_member(struct ip_trace_reader *t, int fd, struct ip_trace_progress *progress,
		       struct ip_recording_members *members, const struct ip_trace_member *listed)
{
	_cleanup_close_ int there = ip_trace_member_open(fd, listed->name);
	_cleanup_free_ char *path = NULL;
	struct ip_trace_reader *own;
	const char *why;

	if (there < 0 && errno == ENOENT)
		return 0;
	if (there < 0)
		return leave_out(t, listed->name, strerror(errno));
	if (asprintf(&path, "%s/%s", t->dir, listed->name) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if (ip_trace_reader_open_one(path, progress, &own) < 0)
		return progress && progress->stopped
			       ? -1
			       : leave_out(t, listed->name, ip_error_message());
	why = members->n ? ip_recording_other_clock(members->items[0].own, own->session) : NULL;
	if (why) {
		ip_trace_reader_close(own);
		return leave_out(t, listed->name, why);
	}
	return take(t, members, listed, own);
}

/* The pid by which people know the process that the recording began with. A process in a pid
 * namespace has another one there, which its packets tell. */
static uint32_t shown_pid(const struct ip_trace_reader *own, uint32_t pid, uint32_t recorded)
{
	const struct ip_thread_packets *first = NULL;

	/* its first thread has the process's number; it may have recorded nothing, while what it
	 * has forked did */
	if (ip_recording_thread_name(own->session, 0, recorded))
		return pid;
	for (size_t i = 0; i < own->nruns; i++) {
		if (own->runs[i].pid == recorded)
			return pid; /* the numbers are those that the recorder sees */
		if (!first || own->runs[i].begin < first->begin)
			first = &own->runs[i];
	}
	/* the first that was heard of is the one that the recording began with */
	return first && first->pid == pid ? recorded : pid;
}

static int by_pid(const void *a, const void *b)
{
	const struct ip_trace_process *x = *(const struct ip_trace_process *const *)a,
				      *y = *(const struct ip_trace_process *const *)b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->began != y->began)
		return x->began ? -1 : 1;
	return (x > y) - (x < y);
}

/* Whether the process's own recording tells that it was forked by one of its processes. */
static bool has_forked(const struct ip_trace_reader *t, const struct ip_trace_process *p)
{
	const struct ip_recording_process *told =
		ip_recording_process(t->members[p->member]->session, p->own);

	return told && told->forked;
}

static int by_number(const void *key, const void *item)
{
	const uint32_t pid = *(const uint32_t *)key;
	const struct ip_trace_process *p = *(const struct ip_trace_process *const *)item;

	return pid < p->pid ? -1 : pid > p->pid;
}

/* Finds the parents of those that a session of their own has recorded among the others; order is by
 * number. A number that several processes have, of several namespaces, tells nothing. */
static void find_parents(struct ip_trace_reader *t, struct ip_trace_process **order)
{
	for (size_t i = 0; i < t->nprocesses; i++) {
		struct ip_trace_process *p = &t->process_list[i], **found;

		if (p->forked || !p->parent || !t->nprocesses)
			continue;
		found = bsearch(&p->parent, order, t->nprocesses, sizeof(*order), by_number);
		p->forked = found && *found != p &&
			    (found == order || found[-1]->pid != p->parent) &&
			    (found + 1 == order + t->nprocesses || found[1]->pid != p->parent);
	}
}

/* Gives each process a number that no other one has, but for parts of it. The one that a recording
 * of its own began with keeps its number. */
static int separate_pids(struct ip_trace_reader *t)
{
	_cleanup_free_ struct ip_trace_process **order = calloc(t->nprocesses + 1, sizeof(*order));
	uint32_t next = PID_LIMIT;

	if (!order)
		return ip_error("out of memory");
	for (size_t i = 0; i < t->nprocesses; i++) {
		order[i] = &t->process_list[i];
		if (order[i]->pid >= next && order[i]->pid < UINT32_MAX)
			next = order[i]->pid + 1;
	}
	if (t->nprocesses)
		qsort(order, t->nprocesses, sizeof(*order), by_pid);
	find_parents(t, order);
	for (size_t i = 0, n; i < t->nprocesses; i += n) {
		const uint32_t pid = order[i]->pid;
		bool given = false;

		for (n = 0; i + n < t->nprocesses && order[i + n]->pid == pid; n++) {
			if (order[i + n]->later)
				continue;
			if (given)
				order[i + n]->pid = next++;
			given = true;
		}
	}
	return 0;
}

static int by_own(const void *key, const void *item)
{
	const uint32_t pid = *(const uint32_t *)key;
	const struct ip_trace_process *p = item;

	return pid < p->own ? -1 : pid > p->own;
}

/* Gives the parents of forked processes the numbers that people see. The processes of a member
 * follow each other, by their own numbers. */
static void show_parents(struct ip_trace_reader *t)
{
	for (size_t i = 0, first = 0; i < t->nprocesses; i++) {
		struct ip_trace_process *p = &t->process_list[i], *parent;

		if (p->member != t->process_list[first].member)
			first = i;
		if (!p->forked || !p->parent || !has_forked(t, p))
			continue;
		parent = bsearch(&p->parent, &t->process_list[first],
				 t->members[p->member]->nprocesses, sizeof(*parent), by_own);
		p->parent = parent ? parent->pid
				   : shown_pid(t->members[p->member], p->parent,
					       t->session->members->items[p->member].pid);
	}
}

/* The sub-directory NAME-PID without "-PID". */
static char *name_of(const char *directory)
{
	const char *dash = strrchr(directory, '-');
	size_t n = dash && dash > directory && dash[1] && !dash[1 + strspn(dash + 1, "0123456789")]
			   ? (size_t)(dash - directory)
			   : strlen(directory);

	return strndup(directory, n);
}

static int join_processes(struct ip_trace_reader *t, uint32_t member)
{
	const struct ip_recording_member *m = &t->session->members->items[member];
	const struct ip_trace_reader *own = t->members[member];

	for (size_t i = 0; i < own->nprocesses; i++) {
		struct ip_trace_process p = own->process_list[i];

		if (ip_array_grow(&t->process_list, t->nprocesses, sizeof(*t->process_list)) < 0)
			return -1;
		p.member = member;
		p.pid = shown_pid(own, p.own, m->pid);
		p.began = p.pid == m->pid;
		p.name = p.named ? strdup(p.name) : name_of(m->name);
		if (!p.name)
			return ip_error("out of memory");
		t->process_list[t->nprocesses++] = p;
	}
	return 0;
}

static int join_streams(struct ip_trace_reader *t, uint32_t member)
{
	const struct ip_trace_reader *own = t->members[member];
	size_t names = t->nnames, streams = t->nstreams, processes = t->nprocesses;

	for (size_t i = 0; i < own->nnames; i++) {
		if (ip_array_grow(&t->names, t->nnames, sizeof(*t->names)) < 0)
			return -1;
		t->names[t->nnames] = strdup(own->names[i]);
		if (!t->names[t->nnames])
			return ip_error("out of memory");
		t->nnames++;
	}
	for (size_t i = 0; i < own->nstreams; i++) {
		if (ip_array_grow(&t->first, t->nstreams, sizeof(*t->first)) < 0 ||
		    ip_array_grow(&t->stream_member, t->nstreams, sizeof(*t->stream_member)) < 0)
			return -1;
		t->stream_member[t->nstreams] = member;
		t->first[t->nstreams++] = names + own->first[i];
	}
	for (size_t i = 0; i < own->nruns; i++) {
		struct ip_thread_packets run = own->runs[i];

		if (ip_array_grow(&t->runs, t->nruns, sizeof(*t->runs)) < 0)
			return -1;
		run.stream += streams;
		run.process += processes;
		run.member = member;
		run.stack += run.stack ? t->session->members->items[member].stacks : 0;
		t->runs[t->nruns++] = run;
	}
	return join_processes(t, member);
}

static int join_member(struct ip_trace_reader *t, uint32_t member)
{
	const struct ip_trace_reader *own = t->members[member];

	if (!member || own->begin < t->begin)
		t->begin = own->begin;
	if (own->end > t->end)
		t->end = own->end;
	t->ended += own->ended;
	if (own->ended_within > t->ended_within)
		t->ended_within = own->ended_within;
	t->missing += own->missing;
	for (size_t i = 0; i < own->ndamages; i++)
		if (ip_trace_reader_damaged(t, own->damages[i]) < 0)
			return -1;
	return join_streams(t, member);
}

static int join(struct ip_trace_reader *t)
{
	struct ip_recording *s = t->session;

	for (uint32_t i = 0; i < s->members->n; i++)
		if (join_member(t, i) < 0)
			return -1;
	if (ip_process_parts_find(t) < 0 || separate_pids(t) < 0)
		return -1;
	show_parents(t);
	for (size_t i = 0; i < t->nruns; i++)
		t->runs[i].pid = t->process_list[t->runs[i].process].pid;
	for (size_t i = 0; i < s->nexecs; i++)
		for (size_t k = 0; k < t->nprocesses; k++)
			if (t->process_list[k].member == s->execs[i].member &&
			    t->process_list[k].own == s->execs[i].pid) {
				s->execs[i].pid = t->process_list[k].pid;
				break;
			}
	if (s->trimmed) {
		s->trimmed_from = t->begin;
		s->trimmed_to = t->end;
	}
	if (ip_process_parts_join(t) < 0)
		return -1;
	ip_trace_reader_add_up(t);
	return 0;
}

/* Opens the members that there are. */
static int open_members(struct ip_trace_reader *t, int fd, struct ip_trace_progress *progress,
			struct ip_trace_members *list)
{
	struct ip_recording_members *members = calloc(1, sizeof(*members));

	if (!members)
		return ip_error("out of memory");
	members->service = ip_steal_ptr(list->service);
	members->kernel_groups = ip_steal_ptr(list->kernel_groups);
	members->kernel_source = ip_steal_ptr(list->kernel_source);
	for (size_t i = 0; i < list->n; i++)
		if (open_member(t, fd, progress, members, &list->items[i]) < 0) {
			ip_recording_members_destroy(members);
			return -1;
		}
	if (!members->n) {
		ip_recording_members_destroy(members);
		return t->ndamages ? ip_error("%s", t->damages[0])
				   : ip_error("%s: no process of it has been recorded yet", t->dir);
	}
	if (ip_recording_join(members, &t->session) < 0)
		return -1;
	t->session->kernel_groups = members->kernel_groups;
	t->session->kernel_events = list->kernel_events;
	t->session->kernel_lost = list->kernel_lost;
	t->session->kernel_source = members->kernel_source;
	return join(t);
}

int ip_trace_reader_open(const char *dir, struct ip_trace_reader **ret)
{
	return ip_trace_reader_open_told(dir, NULL, ret);
}

int ip_trace_reader_open_told(const char *dir, struct ip_trace_progress *progress,
			      struct ip_trace_reader **ret)
{
	_cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct ip_trace_members list;
	struct ip_trace_reader *t;
	int none = fd < 0 ? 1 : ip_trace_members_read(fd, dir, &list), bad;

	if (none)
		return none < 0 ? -1 : ip_trace_reader_open_one(dir, progress, ret);
	t = calloc(1, sizeof(*t));
	if (t)
		t->dir = strdup(dir);
	bad = t && t->dir ? open_members(t, fd, progress, &list) : ip_error("out of memory");
	ip_trace_members_clear(&list);
	if (bad < 0) {
		ip_trace_reader_close(t);
		return -1;
	}
	*ret = t;
	return 0;
}
