/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells which functions of iprobe top wait. See top_waits.h.
 */
#include "cli/top/top_waits.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/now.h"

static const char *const names[] = {[CLI_TOP_WAITS_BELOW] = "below",
				    [CLI_TOP_WAITS_HIDE] = "hide",
				    [CLI_TOP_WAITS_AMONG] = "among"};

int cli_top_waits_of(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

int cli_top_cpu_begin(struct cli_top_cpu *cpu, pid_t pid)
{
	struct cli_top_cpu_begun *begun;
	int done;

	if (ip_array_grow(&cpu->begun, cpu->nbegun, sizeof(*cpu->begun)) < 0)
		return -1;
	begun = &cpu->begun[cpu->nbegun];
	*begun = (struct cli_top_cpu_begun){.pid = pid, .started = ip_proc_started_at(pid)};
	done = cli_top_process_cpu_read(&begun->used, pid);
	if (done > 0)
		cpu->nbegun++;
	return done < 0 ? -1 : 0;
}

/* Takes over what was read of the process before its session. If nothing was, all that it has had
 * since it was started counts. */
static void begin(struct cli_top_cpu *cpu, struct cli_top_waits_process *c,
		  const struct cli_live_process *p)
{
	for (size_t i = 0; !p->joined && i < cpu->nbegun; i++) {
		struct cli_top_cpu_begun *begun = &cpu->begun[i];

		if (begun->pid != p->pid || begun->started != ip_proc_started_at(p->pid) ||
		    !begun->started)
			continue;
		c->now = begun->used;
		c->now.queued_ns = 0;
		c->begin_ns = c->shown_from_ns = begun->used.used_ns;
		c->begun = true;
		*begun = cpu->begun[--cpu->nbegun];
		return;
	}
}

/* Reads a process. Of one that has ended, the last reading stays, and it may have had a CPU ever
 * since. */
static int read_one(struct cli_top_cpu *cpu, struct cli_top_waits_process *c,
		    const struct cli_live_process *p)
{
	const uint64_t now_ns = ip_now_ns();
	uint64_t before, used;
	int done;

	if (!c->known && !c->gone)
		begin(cpu, c, p);
	before = c->now.used_ns;
	/* the number may be another process's by now */
	if (c->gone || ip_proc_cpu_used(p->pid, &used) < 0 || used < before) {
		if (c->known && !c->gone)
			c->now.used_ns += now_ns - c->read_ns;
		c->gone = true;
		return 0;
	}
	done = cli_top_process_cpu_read(&c->now, p->pid);
	if (done < 0)
		return -1;
	if (!c->known && !c->begun && !p->joined)
		c->shown_from_ns = c->now.used_ns;
	c->read_ns = now_ns;
	c->known = true;
	c->gone = p->ended || !done;
	return 0;
}

int cli_top_cpu_read(struct cli_top_cpu *cpu, const struct cli_live_counts *counts)
{
	cpu->before_ns = cpu->used_ns;
	cpu->used_ns = 0;
	cpu->known = true;
	for (size_t i = 0; i < counts->n; i++) {
		if (i == cpu->n) {
			if (ip_array_grow(&cpu->items, cpu->n, sizeof(*cpu->items)) < 0)
				return -1;
			cpu->items[cpu->n++] = (struct cli_top_waits_process){0};
		}
		if (read_one(cpu, &cpu->items[i], &counts->processes[i]) < 0)
			return -1;
		cpu->known &= cpu->items[i].known || !counts->processes[i].known;
		cpu->used_ns += cpu->items[i].now.used_ns - cpu->items[i].shown_from_ns;
	}
	return 0;
}

void cli_top_cpu_clear(struct cli_top_cpu *cpu)
{
	for (size_t i = 0; i < cpu->n; i++)
		cli_top_process_cpu_clear(&cpu->items[i].now);
	for (size_t i = 0; i < cpu->nbegun; i++)
		cli_top_process_cpu_clear(&cpu->begun[i].used);
	free(cpu->items);
	free(cpu->begun);
	*cpu = (struct cli_top_cpu){0};
}

/* For how long functions that compute had a CPU, or might have, in all threads of a process. */
static uint64_t most_of(const struct cli_top_waits_process *c)
{
	return c->now.used_ns - c->begin_ns + c->now.queued_ns;
}

bool cli_top_cpu_is_wait(const struct cli_top_cpu *cpu, size_t process, uint64_t self_ns)
{
	uint64_t most = 0;

	if (process < cpu->n)
		return cpu->items[process].known && self_ns / 2 > most_of(&cpu->items[process]);
	for (size_t i = 0; i < cpu->n; i++)
		most += cpu->items[i].known ? most_of(&cpu->items[i]) : 0;
	return cpu->known && cpu->n && self_ns / 2 > most;
}
