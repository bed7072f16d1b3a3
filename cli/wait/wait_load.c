/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads traces with kernel events.
 */
#include "cli/wait/wait_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace_args.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

static int by_tid(const void *left, const void *right)
{
	const struct cli_wait_process *a = left, *b = right;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int find_processes(struct cli_wait_trace *t)
{
	t->processes = calloc(t->trace->nruns + 1, sizeof(*t->processes));
	if (!t->processes)
		return ip_error("out of memory");
	for (size_t i = 0; i < t->trace->nruns; i++)
		t->processes[t->nprocesses++] =
			(struct cli_wait_process){t->trace->runs[i].tid, t->trace->runs[i].pid};
	qsort(t->processes, t->nprocesses, sizeof(*t->processes), by_tid);
	return 0;
}

uint32_t cli_wait_process(void *context, int32_t tid)
{
	const struct cli_wait_trace *t = context;
	const struct cli_wait_process key = {.tid = tid}, *found;

	found = bsearch(&key, t->processes, t->nprocesses, sizeof(key), by_tid);
	return found ? found->pid : 0;
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
	if (cli_reader_open(dir, NULL, &ret->trace) < 0)
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
	if (ip_descriptors_read(dir, &ret->descriptors) < 0)
		return -1;
	if (find_processes(ret) < 0)
		return -1;
	ip_descriptors_end(&ret->descriptors, ret->states->closings, ret->states->nclosings,
			   cli_wait_process, ret);
	ret->object_names = ip_object_names_create(ret->trace->session);
	return ret->object_names ? 0 : -1;
}

void cli_wait_clear(struct cli_wait_trace *t)
{
	free(t->processes);
	free(t->selected);
	ip_object_names_destroy(t->object_names);
	ip_descriptors_clear(&t->descriptors);
	ip_names_destroy(t->names);
	ip_states_destroy(t->states);
	ip_trace_reader_close(t->trace);
}

double cli_wait_ns(const struct cli_wait_trace *t, uint64_t ticks)
{
	return (double)ticks * 1e9 / (double)t->trace->session->tsc_hz;
}

void cli_wait_print_head(const struct cli_wait_trace *t, uint64_t count)
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
	ip_print(stdout, "\n\n");
}
