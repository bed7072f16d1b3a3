/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes probes out and in.
 */
#include "fperf/recording_budget.h"

#include <stdlib.h>
#include <time.h>

#include "collector/rates.h"
#include "common/error.h"
#include "fperf/credit.h"
#include "fperf/fperf_private.h"
#include "fperf/policy.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"
#include "session/update.h"

#define LOOK_NS 2000000ull
#define CALM_NS 10000000ull /* while no probe is live */
/* After a change that failed. */
#define RETRY_NS 200000000ull
/* Probes come in where so much of what may be saved is there: then they stay for a while. */
#define ENOUGH 0.5

struct ip_recording_budget {
	struct ip_session_controller controller;
	struct ip_chooser chooser;
	struct ip_credit credit;
	struct ip_ring_looks *looks;
	double share;
	struct ip_fperf_allowance costs; /* count_ns: of a pair of probes; cold_ns */
	clockid_t clock;		 /* CPU clock of the process */
	uint64_t cpu_ns, looked_ns, stops_ns, next_ns;
	bool resting;
	bool open;
};

static enum ip_verdict judge(const void *data, const struct ip_module *module, uint32_t function)
{
	const struct ip_recording_budget *b = data;

	(void)module;
	(void)function;
	return b->resting ? IP_VERDICT_RESTS : IP_VERDICT_TAKEN;
}

static uint64_t cpu_of(const struct ip_recording_budget *b)
{
	struct timespec t;

	return clock_gettime(b->clock, &t) < 0 ? b->cpu_ns : t.tv_sec * 1000000000ull + t.tv_nsec;
}

static double new_stops(struct ip_recording_budget *b, const struct ip_session *s)
{
	const uint64_t all = s->summary->stops.ns + s->summary->remapped.changing_ns,
		       ns = all - b->stops_ns;

	b->stops_ns = all;
	return ns;
}

static void open_account(struct ip_recording_budget *b, const struct ip_session *s, uint64_t now)
{
	if (clock_getcpuclockid(s->target->pid, &b->clock) != 0)
		b->clock = CLOCK_MONOTONIC; /* it has ended already */
	b->cpu_ns = cpu_of(b);
	b->looked_ns = now;
	ip_ring_looks_grown(b->looks, s->area, NULL);
	ip_credit_open(&b->credit, b->share, s->target->pid, b->cpu_ns);
	b->open = true;
}

static void settle(struct ip_recording_budget *b, const struct ip_session *s, uint64_t now)
{
	const uint64_t cpu_ns = cpu_of(b), wall = now - b->looked_ns + 1;
	const double calls = ip_ring_looks_grown(b->looks, s->area, NULL) / 2.0,
		     cost = ip_fperf_call_cost(calls * 1e9 / wall, &b->costs);
	const double income = cpu_ns > b->cpu_ns ? cpu_ns - b->cpu_ns : 0;

	b->cpu_ns = cpu_ns;
	ip_credit_note_busy(&b->credit, income, wall);
	b->looked_ns = now;
	ip_credit_settle(&b->credit, income, calls * cost + new_stops(b, s) * b->credit.busy);
}

static void change(struct ip_recording_budget *b, struct ip_session *s, bool rest)
{
	const struct ip_change_options options = {.kind = IP_BUDGET_STOP,
						  .adds = !rest,
						  .max_stop_ns = s->options->max_stop_ns,
						  .values = s->options->values};
	struct ip_change_result result = {0};

	b->resting = rest;
	if (ip_session_update(s, &options, &result) == 0)
		return;
	/* those of several stops that were made are undone, or made again, by the next one */
	b->resting = !rest;
	b->next_ns = ip_now_ns() + RETRY_NS;
}

static enum ip_end_reason step(void *data, struct ip_session *s)
{
	struct ip_recording_budget *b = data;
	const uint64_t now = ip_now_ns();

	if (now < b->next_ns)
		return IP_END_NONE;
	if (!b->open)
		open_account(b, s, now);
	settle(b, s, now);
	b->next_ns = now + (b->resting ? CALM_NS : LOOK_NS);
	if (!b->resting && b->credit.ns < 0)
		change(b, s, true);
	else if (b->resting && b->credit.ns >= ENOUGH * ip_credit_limit(&b->credit))
		change(b, s, false);
	return IP_END_NONE;
}

static uint64_t nap(const void *data, uint64_t now_ns)
{
	const struct ip_recording_budget *b = data;

	return b->next_ns > now_ns ? b->next_ns - now_ns : 0;
}

struct ip_recording_budget *ip_recording_budget_create(double share)
{
	struct ip_recording_budget *b = calloc(1, sizeof(*b));
	double ns_per_tick;

	if (b)
		b->looks = ip_ring_looks_create();
	if (!b || !b->looks) {
		ip_recording_budget_destroy(b);
		ip_error("out of memory");
		return NULL;
	}
	b->costs.count_ns = ip_fperf_pair_cost(&ns_per_tick, &b->costs.cold_ns);
	b->share = share;
	b->chooser = (struct ip_chooser){.data = b, .judge = judge};
	b->controller = (struct ip_session_controller){
		.data = b, .chooser = &b->chooser, .step = step, .nap = nap};
	return b;
}

void ip_recording_budget_destroy(struct ip_recording_budget *b)
{
	if (!b)
		return;
	ip_ring_looks_destroy(b->looks);
	free(b);
}

const struct ip_session_controller *
ip_recording_budget_controller(const struct ip_recording_budget *b)
{
	return &b->controller;
}
