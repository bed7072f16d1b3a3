/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads traces with kernel events.
 */
#include "cli/wait/wait_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/wait/trace_waits.h"
#include "cli/trace_args.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

static int by_tid(const void *left, const void *right)
{
	const struct cli_wait_member *a = left, *b = right;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static uint32_t pid_of(const void *trace, int32_t tid, uint64_t tsc)
{
	const struct cli_wait_trace *t = trace;

	return ip_machine_ids_pid(t->ids, tid, tsc);
}

static uint32_t member_of(const void *trace, int32_t tid)
{
	const struct cli_wait_trace *t = trace;
	const struct cli_wait_member key = {.tid = tid}, *found;

	found = bsearch(&key, t->members, t->nmembers, sizeof(key), by_tid);
	return found ? found->member : 0;
}

/* To whom threads belong, and what is known of descriptors, by the machine's ids. */
static int load_owners(struct cli_wait_trace *t)
{
	t->ids = ip_machine_ids_create(t->trace, t->states);
	if (!t->ids)
		return -1;
	t->members = calloc(t->trace->nruns + 1, sizeof(*t->members));
	if (!t->members)
		return ip_error("out of memory");
	for (size_t i = 0; i < t->trace->nruns; i++)
		t->members[t->nmembers++] = (struct cli_wait_member){t->trace->runs[i].machine_tid,
								     t->trace->runs[i].member};
	qsort(t->members, t->nmembers, sizeof(*t->members), by_tid);
	t->owners = (struct ip_thread_owners){pid_of, member_of, t};
	return ip_trace_descriptors_read(t->dir, t->states, t->ids, &t->descriptors);
}

const char *cli_wait_state_name(uint8_t state)
{
	static const char *const names[] = {[IP_THREAD_UNKNOWN] = "unknown",
					    [IP_THREAD_RUNNING] = "cpu",
					    [IP_THREAD_RUNNABLE] = "runqueue",
					    [IP_THREAD_BLOCKED] = "blocked",
					    [IP_THREAD_GONE] = "unknown"};

	return names[state];
}

int cli_wait_load(const char *dir, const struct cli_wait_options *o, struct cli_wait_trace *ret)
{
	struct ip_kernel_reader *reader = NULL;
	int got;

	*ret = (struct cli_wait_trace){.dir = dir, .options = o};
	if (cli_reader_open(dir, o->filter.process, &ret->trace) < 0)
		return -1;
	got = ip_kernel_reader_open(dir, &reader);
	if (got == 0 && ret->trace->session->trimmed)
		return ip_error("%s is a part of a trace, and has no events of the kernel (iprobe "
				"trim and split leave them out): look at the whole trace",
				dir);
	if (got == 0)
		return ip_error(
			"%s has no events of the kernel: record with iprobe attach --kernel", dir);
	if (got < 0)
		return -1;
	cli_reader_use_jobs(ret->trace, o->filter.jobs);
	if (ip_kernel_reader_use_jobs(reader, ret->trace->jobs) == 0)
		ret->states = ip_states_read(reader);
	for (const char *const *line = ip_kernel_reader_damage(reader); *line; line++)
		ip_print(stderr, "iprobe: %s\n", *line);
	ip_kernel_reader_close(reader);
	ret->selected = ret->states ? cli_reader_select(ret->trace, o->filter.functions) : NULL;
	ret->names = ret->selected ? ip_names_create(ret->trace->session) : NULL;
	if (!ret->names)
		return -1;
	if (o->filter.full_names)
		ip_names_use_full(ret->names);
	if (load_owners(ret) < 0)
		return -1;
	ret->object_names = ip_object_names_create(ret->trace->session);
	return ret->object_names ? ip_cpu_users_make(ret->states, &ret->users) : -1;
}

int cli_wait_find_idle(struct cli_wait_trace *t)
{
	return t->options->idle
		       ? 0
		       : ip_idle_waits_find(t->trace, t->states, &t->descriptors, &t->idle);
}

const struct ip_idle_waits *cli_wait_idle(const struct cli_wait_trace *t)
{
	return t->options->idle ? NULL : &t->idle;
}

void cli_wait_clear(struct cli_wait_trace *t)
{
	ip_idle_waits_clear(&t->idle);
	ip_cpu_users_clear(&t->users);
	free(t->members);
	free(t->selected);
	ip_object_names_destroy(t->object_names);
	ip_descriptors_clear(&t->descriptors);
	ip_machine_ids_destroy(t->ids);
	ip_names_destroy(t->names);
	ip_states_destroy(t->states);
	ip_trace_reader_close(t->trace);
}

double cli_wait_ns(const struct cli_wait_trace *t, uint64_t ticks)
{
	return (double)ticks * 1e9 / (double)t->trace->session->tsc_hz;
}

void cli_wait_print_head(const struct cli_wait_trace *t, uint64_t count, uint64_t idle)
{
	char events[32], kernel[32], duration[64];

	ip_print(stdout, "# %s events, %s of the kernel, %s", ip_format_count(count, events),
		 ip_format_count(t->states->events, kernel),
		 cli_reader_duration(t->trace, duration));
	if (t->trace->session->kernel_groups &&
	    !strstr(t->trace->session->kernel_groups, "syscalls"))
		ip_print(stdout, "; no system calls: what was waited for is not known");
	if (t->states->lost)
		ip_print(stdout,
			 "; %" PRIu64 " of the kernel LOST: what they would tell is unknown",
			 t->states->lost);
	if (idle)
		ip_print(stdout,
			 "\n# idle: for %s threads waited for new work: that is set aside in IDLE, "
			 "and orders nothing\n# (--idle: a part of BLOCKED)",
			 ip_format_ns(cli_wait_ns(t, idle), duration));
	ip_print(stdout, "\n\n");
}

void cli_wait_print_columns(const char *count, const char *name, bool idle)
{
	ip_print(stdout, "%10s %10s %10s %10s %10s %10s", count, "ELAPSED", "CPU", "RUN QUEUE",
		 "BLOCKED", "UNKNOWN");
	if (idle)
		ip_print(stdout, " %10s", "IDLE");
	ip_print(stdout, "  %s\n", name);
}

void cli_wait_print_parts(const struct cli_wait_trace *t, uint64_t count,
			  const struct ip_wait_parts *p, bool idle)
{
	const uint64_t blocked = p->elapsed - p->cpu - p->runqueue - p->unknown - p->idle;
	char text[6][32];

	ip_print(stdout, "%10" PRIu64 " %10s %10s %10s %10s %10s", count,
		 ip_format_ns(cli_wait_ns(t, p->elapsed), text[0]),
		 ip_format_ns(cli_wait_ns(t, p->cpu), text[1]),
		 ip_format_ns(cli_wait_ns(t, p->runqueue), text[2]),
		 ip_format_ns(cli_wait_ns(t, blocked), text[3]),
		 ip_format_ns(cli_wait_ns(t, p->unknown), text[4]));
	if (idle)
		ip_print(stdout, " %10s", ip_format_ns(cli_wait_ns(t, p->idle), text[5]));
	ip_print(stdout, "  ");
}

void cli_wait_print_idle(const struct cli_wait_trace *t, const struct ip_wait_profile *profile,
			 const struct ip_wait_sum *waits, size_t n, int indent, const char *mark)
{
	const struct ip_wait_sum *longest = NULL;
	const struct ip_wait_object *o;
	uint64_t idle = 0, count = 0;
	size_t objects = 0;
	char time[32];

	for (size_t i = 0; i < n; i++) {
		idle += waits[i].idle;
		count += waits[i].idle_count;
		objects += waits[i].idle > 0;
		if (waits[i].idle && (!longest || waits[i].idle > longest->idle))
			longest = &waits[i];
	}
	if (!longest)
		return;
	o = &profile->objects[longest->object];
	ip_print(stdout, "%65s %10s  %*s%sidle: waiting for work (%" PRIu64 " time%s): %s %s", "",
		 ip_format_ns(cli_wait_ns(t, idle), time), indent, "", mark, count,
		 ip_plural(count), ip_wait_kind_name(o->kind), ip_object_name(t->object_names, o));
	ip_print(stdout, "%s\n", objects > 1 ? ", ..." : "");
}

void cli_wait_print_times(uint64_t count)
{
	if (count)
		ip_print(stdout, " (%" PRIu64 " time%s)", count, ip_plural(count));
	else
		ip_print(stdout, " (since before)");
}
