/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the system calls of a trace: sums, or one by one.
 */
#include "cli/syscalls/syscalls_trace.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/syscalls/syscall_text.h"
#include "analysis/wait/function_index.h"
#include "cli/syscalls/process_names.h"
#include "cli/syscalls/syscalls_list.h"
#include "cli/syscalls/syscalls_load.h"
#include "cli/syscalls/syscalls_table.h"
#include "cli/trace_args.h"
#include "common/array.h"
#include "common/error.h"

#define NO_FUNCTION   "(no traced function)"
#define NO_DESCRIPTOR "(no descriptor)"

/* What owners of sums are called: functions by their index, processes by their key, descriptors by
 * their place here. */
struct owners {
	struct cli_syscalls_trace *t;
	struct cli_process_names names;
	char **texts;
	size_t n;
	uint32_t *index; /* open addressing, text + 1 */
	size_t size;
};

bool cli_syscalls_wants(const struct cli_syscalls_options *o, const struct ip_syscall_call *call)
{
	unsigned error;

	return (!o->chosen || ip_syscall_set_has(&o->set, call->number)) &&
	       (!o->filter.tid || o->filter.tid == call->tid) &&
	       (!o->failed || (call->outcome == IP_SYSCALL_RETURNED &&
			       ip_syscall_is_error(call->result, &error)));
}

static const char *function_of(void *context, uint32_t owner, bool shown)
{
	const struct owners *o = context;

	if (owner == IP_NO_FUNCTION_AT)
		return shown ? NO_FUNCTION : NULL;
	return shown ? ip_names_shown(o->t->names, owner) : ip_names_get(o->t->names, owner);
}

static const char *descriptor_of(void *context, uint32_t owner, bool shown)
{
	const struct owners *o = context;

	return *o->texts[owner] ? o->texts[owner] : shown ? NO_DESCRIPTOR : NULL;
}

static const char *process_of(void *context, uint32_t owner, bool shown)
{
	struct owners *o = context;

	return shown ? cli_process_names_text(&o->names, owner)
		     : cli_process_names_get(&o->names, owner);
}

static uint32_t pid_of(void *context, uint32_t owner)
{
	return cli_process_names_pid(&((struct owners *)context)->names, owner);
}

/* By the name that the session has, which is that of the program that it recorded; otherwise by
 * what the kernel called the process while it was the program that made the call. */
static int note_process(struct owners *o, uint32_t pid, uint32_t program, uint32_t *ret)
{
	const struct ip_trace_reader *trace = o->t->trace;

	*ret = pid ? cli_process_key(pid, program) : 0;
	if (*cli_process_names_get(&o->names, *ret))
		return 0;
	for (size_t i = 0; i < trace->nprocesses && !program; i++)
		if (trace->process_list[i].pid == pid)
			return cli_process_names_note(&o->names, *ret, pid,
						      trace->process_list[i].name);
	return cli_process_names_note(&o->names, *ret, pid,
				      ip_syscall_reader_process(o->t->reader, pid, program));
}

static uint32_t *slot_of(const struct owners *o, const char *text)
{
	uint64_t hash = 14695981039346656037ull;
	size_t at;

	for (const char *c = text; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211ull;
	at = (hash ^ hash >> 32) & (o->size - 1);
	while (o->index[at] && strcmp(o->texts[o->index[at] - 1], text))
		at = (at + 1) & (o->size - 1);
	return &o->index[at];
}

/* The owner that a text is; it is made where it is new. Returns 0, or -1 with an error. */
static int find_text(struct owners *o, const char *text, uint32_t *ret)
{
	uint32_t *slot;
	char *copy;

	if (2 * (o->n + 1) > o->size) {
		const size_t size = o->size ? 2 * o->size : 256;
		uint32_t *index = calloc(size, sizeof(*index));

		if (!index)
			return ip_error("out of memory");
		free(o->index);
		o->index = index;
		o->size = size;
		for (size_t i = 0; i < o->n; i++)
			*slot_of(o, o->texts[i]) = i + 1;
	}
	slot = slot_of(o, text);
	if (!*slot) {
		if (ip_array_grow(&o->texts, o->n, sizeof(*o->texts)) < 0)
			return -1;
		copy = strdup(text);
		if (!copy)
			return ip_error("out of memory");
		o->texts[o->n] = copy;
		*slot = ++o->n;
	}
	*ret = *slot - 1;
	return 0;
}

static void clear_owners(struct owners *o)
{
	for (size_t i = 0; i < o->n; i++)
		free(o->texts[i]);
	free(o->texts);
	free(o->index);
	cli_process_names_clear(&o->names);
}

/* A descriptor whose name is not known is one of its thread's process: its number is all there is,
 * and its kind, where the calls tell of which it is.
 */
static const char *unnamed(const struct owners *o, const struct ip_syscall_call *call, int32_t fd,
			   uint64_t tsc, char ret[48])
{
	const uint32_t pid = cli_syscalls_process_of(o->t, call->tid, tsc);
	const enum ip_wait_kind kind =
		pid ? ip_descriptors_kind(&o->t->descriptors, pid, fd, tsc) : IP_WAIT_OTHER;

	if (kind == IP_WAIT_OTHER)
		snprintf(ret, 48, "descriptor %d", fd);
	else
		snprintf(ret, 48, "%s, descriptor %d", ip_wait_kind_name(kind), fd);
	return ret;
}

static int owner_of(struct owners *o, size_t i, uint32_t *ret)
{
	const struct ip_syscall_call *call = &o->t->calls[i];
	const char *text;
	char number[48];
	uint64_t tsc;
	bool made;
	int32_t fd;

	*ret = 0;
	if (o->t->options->by == CLI_SYSCALLS_BY_FUNCTION)
		*ret = o->t->functions[i];
	if (o->t->options->by == CLI_SYSCALLS_BY_PROCESS)
		return note_process(o, cli_syscalls_process_of(o->t, call->tid, call->begin),
				    call->program, ret);
	if (o->t->options->by != CLI_SYSCALLS_BY_DESCRIPTOR)
		return 0;
	fd = ip_syscall_descriptor(call, &made);
	tsc = made ? call->end : ip_syscall_before(call);
	text = fd >= 0 ? cli_syscalls_descriptor(o->t, call->tid, fd, tsc) : "";
	return find_text(o, text ? text : unnamed(o, call, fd, tsc, number), ret);
}

/* Keeps the calls of the processes that were chosen: by number, or by the name that each had when
 * it made the call. Returns 0, or -1 with an error. */
static int choose_process(struct cli_syscalls_trace *t, const char *text)
{
	struct owners owners = {.t = t};
	char *end;
	const unsigned long pid = strtoul(text, &end, 10);
	const bool is_number = *text >= '0' && *text <= '9' && !*end;
	size_t n = 0;
	int ret = 0;

	for (size_t i = 0; i < t->ncalls && ret == 0; i++) {
		const struct ip_syscall_call *call = &t->calls[i];
		const uint32_t of = cli_syscalls_process_of(t, call->tid, call->begin);
		uint32_t key;

		ret = note_process(&owners, of, call->program, &key);
		if (ret < 0 || !of ||
		    (is_number ? of != pid
			       : fnmatch(text, cli_process_names_get(&owners.names, key), 0) != 0))
			continue;
		t->calls[n] = *call;
		if (t->functions)
			t->functions[n] = t->functions[i];
		n++;
	}
	clear_owners(&owners);
	if (ret == 0 && t->ncalls && !n)
		ret = ip_error("%s: no process '%s' made system calls that are wanted: iprobe "
			       "syscalls --by process shows who did",
			       t->trace->dir, text);
	t->ncalls = n;
	return ret;
}

static int print_table(struct cli_syscalls_trace *t)
{
	struct owners owners = {.t = t};
	struct cli_syscalls_table table = {.options = t->options,
					   .read = t->read,
					   .hz = t->trace->session->tsc_hz,
					   .own = t->own,
					   .context = &owners};
	static const char *(*const owner_texts[])(void *context, uint32_t owner, bool shown) = {
		[CLI_SYSCALLS_BY_CALL] = NULL,
		[CLI_SYSCALLS_BY_FUNCTION] = function_of,
		[CLI_SYSCALLS_BY_DESCRIPTOR] = descriptor_of,
		[CLI_SYSCALLS_BY_PROCESS] = process_of};
	uint32_t owner;
	int ret = 0;

	table.owner = owner_texts[t->options->by];
	table.pid_of = pid_of;
	for (size_t i = 0; i < t->ncalls && ret == 0; i++) {
		ret = owner_of(&owners, i, &owner);
		if (ret == 0)
			ret = ip_syscall_sums_add(&t->sums, owner, &t->calls[i]);
	}
	table.sums = t->sums;
	if (ret == 0 && t->options->json)
		cli_syscalls_table_json(&table);
	else if (ret == 0)
		cli_syscalls_table_print(&table, stdout, SIZE_MAX);
	t->sums = table.sums;
	clear_owners(&owners);
	return ret;
}

/* For qsort(), which passes no context. */
static const struct ip_syscall_call *sorted;

static int by_begin(const void *left, const void *right)
{
	const struct ip_syscall_call *a = &sorted[*(const size_t *)left],
				     *b = &sorted[*(const size_t *)right];

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int by_length(const void *left, const void *right)
{
	const struct ip_syscall_call *a = &sorted[*(const size_t *)left],
				     *b = &sorted[*(const size_t *)right];
	const uint64_t x = a->end - a->begin, y = b->end - b->begin;

	return x != y ? (x > y ? -1 : 1) : by_begin(left, right);
}

static int print_list(struct cli_syscalls_trace *t)
{
	const struct ip_syscall_descriptors descriptors = {cli_syscalls_descriptor,
							   cli_syscalls_path, t};
	const struct ip_recording *s = t->trace->session;
	const struct cli_syscalls_list list = {.out = stdout,
					       .descriptors = &descriptors,
					       .start = s->tsc_start,
					       .realtime_ns = s->start_realtime,
					       .hz = s->tsc_hz,
					       .json = t->options->json,
					       .scheduled = t->read.scheduled};
	size_t *order = calloc(t->ncalls + 1, sizeof(*order)), n = t->ncalls;

	if (!order)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	sorted = t->calls;
	qsort(order, n, sizeof(*order), t->options->slowest ? by_length : by_begin);
	if (t->options->slowest && n > t->options->slowest)
		n = t->options->slowest;
	for (size_t i = 0; i < n && i < t->options->filter.limit; i++) {
		const struct ip_syscall_call *call = &t->calls[order[i]];
		const uint32_t function = t->functions[order[i]];

		cli_syscalls_list_print(&list, call, ip_syscall_reader_caller(t->reader, call),
					function == IP_NO_FUNCTION_AT ? NULL
					: list.json ? ip_names_get(t->names, function)
						    : ip_names_shown(t->names, function));
	}
	free(order);
	/* those that functions were in are not known */
	if (!t->options->filter.functions)
		cli_syscalls_own_print(&t->own, list.hz, "iprobe: ", stderr);
	return 0;
}

int cli_syscalls_trace(const char *dir, const struct cli_syscalls_options *o)
{
	struct cli_syscalls_trace t;
	int ret = cli_syscalls_load(dir, o, &t);

	if (ret == 0 && o->filter.process)
		ret = choose_process(&t, o->filter.process);
	if (ret == 0) {
		cli_reader_warn(t.trace);
		ret = o->list || o->slowest ? print_list(&t) : print_table(&t);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	cli_syscalls_clear(&t);
	return ret;
}
