/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells which functions of iprobe top wait. See top_waits.h.
 */
#include "cli/top/top_waits.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/now.h"

#define SLACK_NS 250000000ull

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

/* Reads a process. Of one that has ended, the last reading stays, and it may have had a CPU ever
 * since. */
static void read_one(struct cli_top_waits_process *c, const struct cli_live_process *p)
{
	const uint64_t now_ns = ip_now_ns();
	struct ip_proc_cpu now;

	/* the number may be another process's by now */
	if (c->gone || ip_proc_cpu(p->pid, &now) < 0 || now.used_ns < c->now.used_ns) {
		if (c->known && !c->gone)
			c->now.used_ns += now_ns - c->read_ns;
		c->gone = true;
		return;
	}
	if (!c->known && !p->joined)
		c->begin = now;
	/* threads that end take what they have waited with them */
	if (c->known && now.queued_ns < c->now.queued_ns)
		now.queued_ns = c->now.queued_ns;
	c->now = now;
	c->read_ns = now_ns;
	c->known = true;
	c->gone = p->ended;
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
		read_one(&cpu->items[i], &counts->processes[i]);
		cpu->known &= cpu->items[i].known || !counts->processes[i].known;
		cpu->used_ns += cpu->items[i].now.used_ns - cpu->items[i].begin.used_ns;
	}
	return 0;
}

void cli_top_cpu_clear(struct cli_top_cpu *cpu)
{
	free(cpu->items);
	*cpu = (struct cli_top_cpu){0};
}

/* For how long all threads of a process had a CPU, or might have. */
static uint64_t most_of(const struct cli_top_waits_process *c)
{
	return SLACK_NS + c->now.used_ns - c->begin.used_ns + c->now.queued_ns - c->begin.queued_ns;
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
