/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps what may be spent.
 */
#include "fperf/credit.h"

#include <time.h>
#include <unistd.h>

#include "common/proc.h"

#define ADVANCE_S  0.05
#define YOUNG_S	   0.1 /* it is not yet known how busy a younger process is */
#define BUSY_LEAST 0.01

/* Returns the number of CPUs that the process has kept busy since its start. A process that hardly
 * runs must get a small advance, and its stops must count little. */
static double busy_so_far(pid_t pid, uint64_t cpu_ns)
{
	uint64_t started = ip_proc_started_at(pid);
	struct timespec t;
	double age = 0;

	if (started && clock_gettime(CLOCK_BOOTTIME, &t) == 0)
		age = t.tv_sec + t.tv_nsec / 1e9 - (double)started / sysconf(_SC_CLK_TCK);
	if (age < YOUNG_S)
		return 1;
	return cpu_ns / 1e9 / age > BUSY_LEAST ? cpu_ns / 1e9 / age : BUSY_LEAST;
}

void ip_credit_open(struct ip_credit *c, double budget, pid_t pid, uint64_t cpu_ns)
{
	*c = (struct ip_credit){.budget = budget, .busy = busy_so_far(pid, cpu_ns)};
	c->ns = ADVANCE_S * budget * 1e9 * c->busy;
}

double ip_credit_limit(const struct ip_credit *c)
{
	return IP_CREDIT_SAVE_S * c->budget * 1e9 * c->busy;
}

void ip_credit_note_busy(struct ip_credit *c, double cpu_ns, double wall_ns)
{
	c->busy = 0.9 * c->busy + 0.1 * cpu_ns / wall_ns;
}

void ip_credit_settle(struct ip_credit *c, double cpu_ns, double spent_ns)
{
	if (c->budget < 0)
		return;
	c->ns += IP_CREDIT_MARGIN * c->budget * cpu_ns - spent_ns;
	if (c->ns > ip_credit_limit(c))
		c->ns = ip_credit_limit(c);
	if (c->ns > c->debt_ns)
		c->debt_ns = c->ns < 0 ? c->ns : 0;
}

void ip_credit_refund(struct ip_credit *c, double ns)
{
	if (c->budget < 0)
		return;
	c->ns += ns;
	if (c->ns > ip_credit_limit(c))
		c->ns = ip_credit_limit(c);
	c->debt_ns = c->ns < 0 ? c->ns : 0;
}
