/* SPDX-License-Identifier: Apache-2.0 */
#include "fperf/account.h"

#include <time.h>
#include <unistd.h>

#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"

#define MOST_OWN 0.05
/* What hooks measure of themselves is not all that a sample costs: the kernel's code and data for
 * reading counters have replaced the program's in the near caches. In gnugo 2,500 samples a second
 * took two to three times what the hooks measured, in bzip2 hardly more. */
#define SAMPLED 1.5
/* CPU time that may pass between reading the counters and reading the clock */
#define MISSED_NS 100000u

double ip_fperf_own(clockid_t clock)
{
	struct timespec t;

	return clock_gettime(clock, &t) < 0 ? 0 : t.tv_sec + t.tv_nsec / 1e9;
}

double ip_fperf_pause(const struct ip_fperf *f, double own_s, double share)
{
	double budget = f->options.budget >= 0 && f->options.budget < MOST_OWN ? f->options.budget
									       : MOST_OWN;

	return budget > 0 ? own_s / (share * budget) : own_s / (share * 1e-3);
}

double ip_fperf_learn(double known, double now)
{
	if (!known || now < known)
		return now;
	return (1 - IP_FPERF_SETTLED) * known +
	       IP_FPERF_SETTLED * (now < 2 * known ? now : 2 * known);
}

static uint64_t clock_of(const struct ip_fperf *f)
{
	struct timespec t;

	if (clock_gettime(f->clock, &t) < 0)
		return f->cpu_start_ns + f->cpu_ns;
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Returns the CPU time of the process. The clock may be behind the counters. It may not be ahead of
 * them by more than it was behind at the start: otherwise there are threads that are not
 * watched. */
static uint64_t cpu_of(struct ip_fperf *f)
{
	uint64_t clock = clock_of(f), ns, most;

	if (!ip_fperf_is_watched(f))
		return clock;
	most = IP_FPERF_TICK_S * 1e9 * f->cpu_time.n + MISSED_NS;
	if (ip_cpu_time_read(&f->cpu_time, &ns) && f->cpu_time_start_ns + ns + most >= clock)
		return f->cpu_time_start_ns + ns;
	ip_fperf_unwatch(f);
	return clock;
}

void ip_fperf_watch(struct ip_fperf *f, pid_t pid)
{
	if (ip_cpu_time_start(&f->cpu_time, pid))
		f->cpu_time_start_ns = clock_of(f);
	else
		ip_cpu_time_clear(&f->cpu_time); /* for good: turns have to be longer then */
}

void ip_fperf_unwatch(struct ip_fperf *f)
{
	ip_cpu_time_stop(&f->cpu_time);
}

bool ip_fperf_is_watched(const struct ip_fperf *f)
{
	return f->cpu_time.n > 0;
}

/* Returns the time of stops since the last call. It includes stops that are no longer listed one by
 * one, in a session that goes on for long. */
static double new_stops(struct ip_fperf *f, const struct ip_session *s)
{
	uint64_t all = s->summary->stops.ns + s->summary->remapped.changing_ns,
		 ns = all - f->stops_seen_ns;

	f->stops_seen_ns = all;
	if (ns)
		f->longest_stop_ns = ip_stop_log_longest(&s->summary->stops);
	f->longest_gap_ns = s->summary->remapped.gap_ns;
	return ns;
}

/* So many calls were only counted up to now. */
static void note_counted(struct ip_fperf *f, double calls)
{
	if (calls > f->count_calls)
		f->counting_ns += (calls - f->count_calls) * f->call_ns;
	f->count_calls = calls;
}

static void sum_up(struct ip_fperf *f, const struct ip_fperf_spent *spent)
{
	double samples = spent->ticks * f->ns_per_tick, after = (SAMPLED - 1) * samples,
	       left = f->cpu_ns - samples;

	/* If nearly all CPU time is samples, they can slow down little else. */
	if (after > left / 2)
		after = left > 0 ? left / 2 : 0;
	f->hooks_ns = samples + after + spent->hooks * f->hook_ns + f->counting_ns;
	f->spent_ns = f->hooks_ns + f->stops_ns;
}

void ip_fperf_settle(struct ip_fperf *f, struct ip_session *s, bool counted)
{
	struct ip_fperf_spent spent = ip_fperf_spent(f);
	uint64_t now = ip_now_ns(), cpu = cpu_of(f) - f->cpu_start_ns;
	double before = f->spent_ns, income, stops, wall = now - f->looked_ns + 1;
	uint64_t calls;

	/* After an exec the clock of the process goes on. */
	cpu = cpu > f->rested_cpu_ns ? cpu - f->rested_cpu_ns : 0;
	income = cpu > f->cpu_ns ? cpu - f->cpu_ns : 0;
	if (f->resting) {
		f->rested_cpu_ns += income;
		income = 0;
	}
	f->cpu_ns += income;
	if (!f->resting)
		ip_credit_note_busy(&f->credit, income, wall);
	f->looked_ns = now;
	if (counted) {
		calls = ip_fperf_calls(f);
		note_counted(f, calls > spent.entries ? calls - spent.entries : 0);
	}
	stops = new_stops(f, s) * f->credit.busy;
	f->stops_ns += stops;
	sum_up(f, &spent);
	ip_credit_settle(&f->credit, income, f->spent_ns - before);
}

void ip_fperf_refund_stops(struct ip_fperf *f, double stops_ns)
{
	double spent = f->stops_ns - stops_ns;

	f->stops_ns -= spent;
	f->spent_ns -= spent;
	ip_credit_refund(&f->credit, spent);
}

void ip_fperf_open_account(struct ip_fperf *f, const struct ip_session *s, uint64_t now)
{
	ip_cpu_time_clear(&f->cpu_time);
	ip_cpu_time_init(&f->cpu_time);
	if (clock_getcpuclockid(s->target->pid, &f->clock) != 0)
		f->clock = CLOCK_MONOTONIC; /* it has ended already */
	f->cpu_ns = 0;
	f->cpu_start_ns = cpu_of(f);
	f->looked_ns = now;
	ip_credit_open(&f->credit, f->options.budget, s->target->pid, f->cpu_start_ns);
	f->stops_ns = new_stops(f, s) * f->credit.busy;
	f->spent_ns = 0;
}

struct ip_fperf_spent ip_fperf_close_account(struct ip_fperf *f)
{
	struct ip_fperf_spent spent = ip_fperf_spent(f);
	uint64_t calls = ip_fperf_calls(f);

	note_counted(f, calls > spent.entries ? calls - spent.entries : 0);
	sum_up(f, &spent);
	return spent;
}

double ip_fperf_sample_cost(const struct ip_fperf *f, const struct ip_fperf_spent *spent,
			    uint64_t samples)
{
	return SAMPLED * spent->ticks * f->ns_per_tick / samples;
}

double ip_fperf_undisturbed(const struct ip_fperf *f)
{
	return (f->cpu_ns - IP_FPERF_LIKELY * f->hooks_ns) / 1e9;
}
