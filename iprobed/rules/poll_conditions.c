/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions that are checked from outside. Latency is not one of them: a session watches it
 * (session/controllers/until.h).
 */
#include <stdio.h>

#include "common/error.h"
#include "common/units.h"
#include "iprobed/rules/members.h"
#include "iprobed/rules/rules_private.h"

#define LOOK_NS 500000000ull /* the kernel counts CPU time in steps of 10 ms */

static void look_at_memory(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm,
			   const struct ip_rules_stat *now, uint64_t now_ns)
{
	const struct ip_rules_level *level = &arm->state->rule->memory;
	char have[16], limit[16];

	if (level->set && ip_rules_above(level, &arm->memory, now->resident, now_ns, now_ns))
		ip_rules_fire(e, t, arm, false, now_ns, "it has %s of memory, more than %s",
			      ip_format_size(now->resident, have),
			      ip_format_size(level->limit, limit));
}

/* Returns the CPU time that all members of the service take, each as it was looked at last. */
static double cpu_of_service(const struct ip_rules *e, const struct ip_rules_target *t,
			     const struct ip_rules_state *state)
{
	double sum = 0;

	for (size_t i = 0; i < e->ntargets; i++)
		if (!e->targets[i]->gone && ip_rules_members_same(t, e->targets[i], state))
			sum += e->targets[i]->cpu_percent;
	return sum;
}

static void look_at_cpu(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm,
			uint64_t now_ns)
{
	const struct ip_rules_level *level = &arm->state->rule->cpu;
	const bool of_service = arm->state->rule->service;
	double share = t->cpu_percent;

	if (!level->set || !t->looked_ns)
		return;
	/* one of them judges all */
	if (of_service && !ip_rules_members_is_first(e, t, arm->state)) {
		arm->cpu.above = false;
		return;
	}
	if (of_service)
		share = cpu_of_service(e, t, arm->state);
	if (ip_rules_above(level, &arm->cpu, share, t->looked_ns, now_ns))
		ip_rules_fire(e, t, arm, false, now_ns, "%s %.0f %% of a CPU, more than %.0f %%",
			      of_service ? "its service takes" : "it takes", share, level->limit);
}

static void look_at_pressure(struct ip_rules *e, struct ip_rules_target *t,
			     struct ip_rules_arm *arm, enum ip_rules_pressure what, uint64_t now_ns)
{
	const struct ip_rules_level *level = &arm->state->rule->pressure[what];
	uint64_t us, before = arm->pressure_us[what];
	double share;

	if (!level->set || arm->told_deaf)
		return;
	if (ip_rules_pressure_read(&t->process, what, &us) < 0) {
		ip_rules_log(arm->state, t, "%s: this condition will never be met",
			     ip_error_message());
		arm->told_deaf = true;
		return;
	}
	arm->pressure_us[what] = us;
	if (!t->looked_ns || !before || us < before)
		return;
	share = 100.0 * (us - before) * 1000 / (now_ns - t->looked_ns);
	if (ip_rules_above(level, &arm->pressure[what], share, t->looked_ns, now_ns))
		ip_rules_fire(
			e, t, arm, false, now_ns,
			"its cgroup has waited for %s in %.1f %% of the time, more than %.1f %%",
			ip_rules_pressure_name(what), share, level->limit);
}

void ip_rules_look(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns)
{
	struct ip_rules_stat now;
	bool wanted = false;
	char every[16];

	for (size_t i = 0; i < t->narms; i++) {
		struct ip_rules_arm *arm = &t->arms[i];
		const struct ip_rules_rule *r = arm->state->rule;

		wanted |= ip_rules_has_level(r);
		if (arm->fresh && r->start)
			ip_rules_fire(e, t, arm, false, now_ns, "it has started");
		arm->fresh = false;
		if (!arm->every_ns || now_ns < arm->every_ns)
			continue;
		ip_rules_fire(e, t, arm, false, now_ns, "every %s",
			      ip_format_ns(r->every_ns, every));
		arm->every_ns = now_ns + r->every_ns;
	}
	if (!wanted || (t->looked_ns && now_ns - t->looked_ns < LOOK_NS))
		return;
	if (ip_rules_stat_read(t->process.pid, &now) < 0 || now.start != t->process.start) {
		t->gone = true;
		return;
	}
	if (t->looked_ns && now.cpu_ns >= t->stat.cpu_ns)
		t->cpu_percent = 100.0 * (now.cpu_ns - t->stat.cpu_ns) / (now_ns - t->looked_ns);
	for (size_t i = 0; i < t->narms; i++) {
		look_at_memory(e, t, &t->arms[i], &now, now_ns);
		look_at_cpu(e, t, &t->arms[i], now_ns);
		for (unsigned k = 0; k < IP_RULES_PRESSURES; k++)
			look_at_pressure(e, t, &t->arms[i], k, now_ns);
	}
	t->stat = now;
	t->looked_ns = now_ns;
}
