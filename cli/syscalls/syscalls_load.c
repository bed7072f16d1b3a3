/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the system calls of a trace.
 */
#include "cli/syscalls/syscalls_load.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "analysis/syscalls/syscall_callers.h"
#include "analysis/syscalls/syscall_text.h"
#include "analysis/wait/trace_waits.h"
#include "cli/trace_args.h"
#include "common/array.h"
#include "common/error.h"
#include "common/print.h"

/* Places of fields in IP_KERNEL_PROCESS_STATE (common/trace/kernel_events.c). */
enum { STATE_TID = 0, STATE_PID = 4 };

static size_t place_of(const struct cli_syscalls_trace *t, int32_t tid)
{
	size_t at = (uint32_t)tid * 2654435761u & (t->processes_size - 1);

	while (t->processes[at].tid && t->processes[at].tid != tid)
		at = (at + 1) & (t->processes_size - 1);
	return at;
}

static int make_room(struct cli_syscalls_trace *t)
{
	struct cli_syscalls_process *before = t->processes;
	const size_t size = t->processes_size;

	t->processes_size = size ? 2 * size : 256;
	t->processes = calloc(t->processes_size, sizeof(*t->processes));
	for (size_t i = 0; t->processes && i < size; i++)
		if (before[i].tid)
			t->processes[place_of(t, before[i].tid)] = before[i];
	free(before);
	return t->processes ? 0 : ip_error("out of memory");
}

/* The last note of a tid counts. */
static int note_process(struct cli_syscalls_trace *t, int32_t tid, uint32_t pid)
{
	size_t at;

	if (!tid)
		return 0;
	if (2 * (t->nprocesses + 1) > t->processes_size && make_room(t) < 0)
		return -1;
	at = place_of(t, tid);
	t->nprocesses += !t->processes[at].tid;
	t->processes[at] = (struct cli_syscalls_process){tid, pid};
	return 0;
}

/* The process of a thread by the notes; 0: not known. */
static uint32_t pid_of(const struct cli_syscalls_trace *t, int32_t tid)
{
	return t->processes_size && tid ? t->processes[place_of(t, tid)].pid : 0;
}

uint32_t cli_syscalls_process_of(const struct cli_syscalls_trace *t, int32_t tid, uint64_t tsc)
{
	/* tids are used again */
	return t->ids ? ip_machine_ids_pid(t->ids, tid, tsc) : pid_of(t, tid);
}

static uint32_t process_of(const void *context, int32_t tid, uint64_t tsc)
{
	return cli_syscalls_process_of(context, tid, tsc);
}

static int note_closing(struct cli_syscalls_trace *t, const struct ip_closing *closing)
{
	if (ip_array_grow(&t->closings, t->nclosings, sizeof(*closing)) < 0)
		return -1;
	t->closings[t->nclosings++] = *closing;
	return 0;
}

/* A call that closes descriptors, or gives their numbers to something else, does so at any time
 * from its entry on. */
static int note_call(struct cli_syscalls_trace *t, const struct ip_syscall_call *call)
{
	struct ip_closing c = {.tsc = call->begin, .tid = call->tid, .to = UINT32_MAX};
	const uint64_t *arguments = call->arguments;

	switch (call->number) {
	case SYS_close:
		if (call->timed)
			c.from = c.to = arguments[0];
		break;
	case SYS_dup2:
	case SYS_dup3:
		if (call->timed)
			c.from = c.to = arguments[1];
		break;
	case SYS_close_range:
		if (call->timed) {
			c.from = arguments[0];
			c.to = arguments[1];
		}
		break;
	case SYS_execve:
	case SYS_execveat:
		break;
	case SYS_clone: /* of a thread, not of a process */
		return call->timed && arguments[0] & CLONE_THREAD && call->result > 0 &&
				       pid_of(t, call->tid)
			       ? note_process(t, call->result, pid_of(t, call->tid))
			       : 0;
	default:
		return 0;
	}
	return note_closing(t, &c);
}

static int take(void *context, const struct ip_syscall_call *call)
{
	struct cli_syscalls_trace *t = context;

	if (t->keeps && note_call(t, call) < 0)
		return -1;
	if (!cli_syscalls_wants(t->options, call) || cli_syscalls_own_take(&t->own, call))
		return 0;
	if (!t->keeps)
		return ip_syscall_sums_add(&t->sums, 0, call);
	if (ip_array_grow(&t->calls, t->ncalls, sizeof(*call)) < 0)
		return -1;
	t->calls[t->ncalls++] = *call;
	return 0;
}

/* By process alone, neither functions nor descriptors are asked for. */
static bool is_by_process(const struct cli_syscalls_options *o)
{
	return !o->filter.functions && !o->list && !o->slowest &&
	       (o->by == CLI_SYSCALLS_BY_PROCESS ||
		(o->by == CLI_SYSCALLS_BY_CALL && o->filter.process));
}

/* What is not in the calls. */
static int note_record(struct cli_syscalls_trace *t, const struct ip_kernel_record *record)
{
	const struct ip_closing all = {.tsc = record->lost_since, .to = UINT32_MAX};

	if (record->id == IP_KERNEL_IDS_STATE && !is_by_process(t->options))
		return ip_error("%s: which functions of a process in a container made its system "
				"calls is not known: its threads have other ids there",
				t->trace->dir);
	if (record->id == IP_KERNEL_PROCESS_STATE)
		return note_process(t, ip_kernel_s32(record, STATE_TID),
				    ip_kernel_s32(record, STATE_PID));
	/* a closing may have been lost, of any process: the tid 0 has none */
	return record->id == IP_KERNEL_LOST && !record->all ? note_closing(t, &all) : 0;
}

static bool has_scheduler(const struct cli_syscalls_trace *t)
{
	return t->trace->session->kernel_groups &&
	       strstr(t->trace->session->kernel_groups, "sched");
}

static int take_record(void *context, const struct ip_kernel_record *record)
{
	struct cli_syscalls_trace *t = context;

	return t->keeps && note_record(t, record) < 0 ? -1
						      : ip_syscall_reader_feed(t->reader, record);
}

/* Threads are told apart by their states, where these are known. */
static int read_events(struct cli_syscalls_trace *t, struct ip_kernel_reader *reader)
{
	const struct ip_kernel_observer also = {take_record, t};
	struct ip_kernel_record record;
	int got;

	t->reader = ip_syscall_reader_create(take, t);
	if (!t->reader)
		return -1;
	if (has_scheduler(t))
		ip_syscall_reader_expect_scheduler(t->reader);
	if (t->keeps && has_scheduler(t)) {
		t->states = ip_states_read_with(reader, &also);
		got = t->states ? 0 : -1;
	} else {
		while ((got = ip_kernel_reader_next(reader, &record)) > 0)
			if (take_record(t, &record) < 0)
				return -1;
	}
	t->read = ip_syscall_reader_read(t->reader);
	return got < 0 ? -1 : ip_syscall_reader_end(t->reader, t->read.end);
}

static int by_time(const void *left, const void *right)
{
	const struct ip_closing *a = left, *b = right;

	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

static int find_ids(struct cli_syscalls_trace *t)
{
	if (!t->states)
		return 0;
	t->ids = ip_machine_ids_create(t->trace, t->states);
	return t->ids ? 0 : -1;
}

static int read_descriptors(struct cli_syscalls_trace *t, const char *dir)
{
	if (find_ids(t) < 0)
		return -1;
	/* also what children inherit, and of what kind those are that nobody could name */
	if (t->states)
		return ip_trace_descriptors_read(dir, t->states, t->ids, &t->descriptors);
	if (ip_descriptors_read(dir, &t->descriptors) < 0)
		return -1;
	if (t->nclosings)
		qsort(t->closings, t->nclosings, sizeof(*t->closings), by_time);
	ip_descriptors_end(&t->descriptors, t->closings, t->nclosings, process_of, t);
	return 0;
}

static int find_functions(struct cli_syscalls_trace *t)
{
	size_t n = 0;

	t->functions = malloc((t->ncalls + 1) * sizeof(*t->functions));
	if (!t->functions)
		return ip_error("out of memory");
	if (ip_syscall_callers_find(t->trace, t->calls, t->ncalls, t->functions) < 0)
		return -1;
	for (size_t i = 0; t->selected && i < t->ncalls; i++) {
		if (t->functions[i] == IP_NO_FUNCTION_AT || !t->selected[t->functions[i]])
			continue;
		t->calls[n] = t->calls[i];
		t->functions[n++] = t->functions[i];
	}
	t->ncalls = t->selected ? n : t->ncalls;
	return 0;
}

static int open_events(const char *dir, const struct ip_trace_reader *trace,
		       struct ip_kernel_reader **ret)
{
	const char *groups = trace->session->kernel_groups;
	int got = ip_kernel_reader_open(dir, ret);

	if (got == 0 && trace->session->trimmed)
		return ip_error("%s is a part of a trace, and has no events of the kernel (iprobe "
				"trim and split leave them out): look at the whole trace",
				dir);
	if (got == 0 || (got > 0 && groups && !strstr(groups, "syscalls")))
		return ip_error("%s has no system calls: record with iprobe attach --kernel", dir);
	return got;
}

int cli_syscalls_load(const char *dir, const struct cli_syscalls_options *o,
		      struct cli_syscalls_trace *ret)
{
	struct ip_kernel_reader *reader = NULL;
	int done;

	*ret = (struct cli_syscalls_trace){.options = o};
	ret->keeps = o->list || o->slowest || o->by != CLI_SYSCALLS_BY_CALL ||
		     o->filter.functions || o->filter.process;
	if (cli_reader_open(dir, NULL, &ret->trace) < 0)
		return -1;
	for (size_t i = 0; i < ret->trace->nruns; i++)
		if (note_process(ret, ret->trace->runs[i].tid, ret->trace->runs[i].pid) < 0)
			return -1;
	if (o->filter.functions) {
		ret->selected = cli_reader_select(ret->trace, o->filter.functions);
		if (!ret->selected)
			return -1;
	}
	ret->names = ip_names_create(ret->trace->session);
	if (!ret->names)
		return -1;
	if (o->filter.full_names)
		ip_names_use_full(ret->names);
	done = open_events(dir, ret->trace, &reader);
	if (done > 0) {
		cli_reader_use_jobs(ret->trace, o->filter.jobs);
		done = ip_kernel_reader_use_jobs(reader, ret->trace->jobs);
		done = done < 0 ? done : read_events(ret, reader);
	}
	for (const char *const *line = reader ? ip_kernel_reader_damage(reader) : NULL;
	     line && *line; line++)
		ip_print(stderr, "iprobe: %s\n", *line);
	ip_kernel_reader_close(reader);
	if (done == 0 && is_by_process(o))
		done = find_ids(ret);
	else if (done == 0 && ret->keeps)
		done = read_descriptors(ret, dir) < 0 ? -1 : find_functions(ret);
	return done;
}

void cli_syscalls_clear(struct cli_syscalls_trace *t)
{
	ip_syscall_reader_destroy(t->reader);
	ip_syscall_sums_clear(&t->sums);
	ip_descriptors_clear(&t->descriptors);
	ip_names_destroy(t->names);
	free(t->selected);
	free(t->calls);
	free(t->functions);
	free(t->closings);
	free(t->processes);
	ip_machine_ids_destroy(t->ids);
	ip_states_destroy(t->states);
	ip_trace_reader_close(t->trace);
}

const char *cli_syscalls_descriptor(void *context, int32_t tid, int32_t fd, uint64_t tsc)
{
	const struct cli_syscalls_trace *t = context;
	const uint32_t pid = cli_syscalls_process_of(t, tid, tsc);
	const struct ip_descriptor *d =
		pid ? ip_descriptors_find(&t->descriptors, pid, fd, tsc) : NULL;

	return d ? d->text : NULL;
}

const char *cli_syscalls_path(void *context, const struct ip_syscall_call *call, unsigned argument)
{
	const struct cli_syscalls_trace *t = context;

	return ip_syscall_path(&t->descriptors.paths, call, argument);
}
