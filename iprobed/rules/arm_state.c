/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a rule wants its target to be watched now. It does not while its limits (at_most, every)
 * forbid that it fires, nor while the target has none of its functions.
 *
 * A flight recorder begins again LEAD_NS before its rule may fire, so that its ring has what comes
 * before. One that runs goes on where that is less than REST_NS ahead: to end and to begin it stops
 * the target.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/now.h"
#include "common/units.h"
#include "iprobed/rules/rules_private.h"

#define LEAD_NS	       5000000000ull
#define REST_NS	       20000000000ull
#define ABSENT_NS      1000000000ull
#define ABSENT_MOST_NS 600000000000ull
#define DAY_NS	       86400000000000ull
#define ABSENT_NEAREST 256u

uint64_t ip_rules_arm_wait(const struct ip_rules_arm *arm, uint64_t now_ns)
{
	bool every;

	return ip_rules_service_wait(&arm->state->services, arm->state->rule, arm->service, now_ns,
				     &every);
}

bool ip_rules_arm_limit(const struct ip_rules_arm *arm, uint64_t now_ns, char text[IP_RULES_LIMIT])
{
	const struct ip_rules_rule *r = arm->state->rule;
	char per[24], at[32] = "?";
	struct tm tm;
	bool every;
	const uint64_t wait =
		ip_rules_service_wait(&arm->state->services, r, arm->service, now_ns, &every);
	const time_t next = time(NULL) + (wait + 999999999) / 1000000000;

	*text = '\0';
	if (!wait)
		return false;
	if (localtime_r(&next, &tm))
		strftime(at, sizeof(at), wait < DAY_NS ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
	if (every)
		snprintf(text, IP_RULES_LIMIT, "fired less than %s ago, next at %s",
			 ip_format_duration(r->cooldown_ns, per), at);
	else
		snprintf(text, IP_RULES_LIMIT, "limit %u per %s reached, next at %s", r->at_most,
			 ip_format_duration(r->per_ns, per), at);
	return true;
}

/* Whether a snapshot for the rule has been asked for and not been written yet. */
static bool awaits_snapshot(const struct ip_rules_target *t, const struct ip_rules_arm *arm)
{
	for (size_t i = 0; i < t->nwaiting; i++)
		if (t->waiting[i].arm == arm)
			return true;
	return t->side_by == arm;
}

bool ip_rules_arm_rests(const struct ip_rules_target *t, const struct ip_rules_arm *arm,
			uint64_t now_ns)
{
	const struct ip_rules_rule *r = arm->state->rule;

	/* a rule for requests may be fired at any time, however often it has fired */
	return r->action == IP_RULES_SNAPSHOT && !r->request && !awaits_snapshot(t, arm) &&
	       ip_rules_arm_wait(arm, now_ns) > LEAD_NS;
}

bool ip_rules_arm_watches_latency(const struct ip_rules_arm *arm, uint64_t now_ns)
{
	return arm->state->rule->until && now_ns >= arm->not_before_ns &&
	       ip_rules_arm_wait(arm, now_ns) <=
		       (arm->state->rule->action == IP_RULES_SNAPSHOT ? LEAD_NS : 0);
}

bool ip_rules_arm_wants_watch(const struct ip_rules_target *t, const struct ip_rules_arm *arm,
			      uint64_t now_ns)
{
	if (now_ns < arm->absent_ns)
		return false;
	return arm->state->rule->action == IP_RULES_SNAPSHOT
		       ? !ip_rules_arm_rests(t, arm, now_ns)
		       : ip_rules_arm_watches_latency(arm, now_ns);
}

void ip_rules_arms_tell_rest(struct ip_rules_target *t, uint64_t now_ns)
{
	for (size_t i = 0; i < t->narms; i++) {
		struct ip_rules_arm *arm = &t->arms[i];
		const bool recorder = arm->state->rule->action == IP_RULES_SNAPSHOT;
		char limit[IP_RULES_LIMIT];

		if (!ip_rules_watches(arm->state->rule) ||
		    ip_rules_arm_wants_watch(t, arm, now_ns)) {
			arm->told_rests = false;
			continue;
		}
		if (arm->told_rests || !ip_rules_arm_limit(arm, now_ns, limit))
			continue;
		ip_rules_log(arm->state, t, "%s: %s", limit,
			     recorder ? "its flight recorder rests until shortly before"
				      : "it is not watched until then");
		arm->told_rests = true;
	}
}

/* Whether the rule will not fire by itself for so long that to watch for it is in vain. */
static bool is_in_vain(const struct ip_rules_target *t, const struct ip_rules_arm *arm,
		       uint64_t now_ns)
{
	const struct ip_rules_rule *r = arm->state->rule;

	return ip_rules_arm_wait(arm, now_ns) > REST_NS &&
	       (r->action != IP_RULES_SNAPSHOT || ip_rules_arm_rests(t, arm, now_ns));
}

bool ip_rules_watch_is_over(const struct ip_rules_target *t, uint64_t now_ns)
{
	bool in_vain = t->nwatched;

	if (t->by)
		return is_in_vain(t, t->by, now_ns);
	for (size_t i = 0; i < t->narms; i++) {
		const struct ip_rules_arm *arm = &t->arms[i];

		/* only a session for all of them shows whether its functions have come */
		if (arm->absent_ns && ip_rules_arm_wants_watch(t, arm, now_ns))
			return true;
	}
	for (size_t i = 0; i < t->nwatched; i++)
		in_vain &= is_in_vain(t, t->watched[i], now_ns);
	return in_vain;
}

static void leave_out(struct ip_rules_target *t, struct ip_rules_arm *arm, const char *nearest,
		      uint64_t now_ns)
{
	const uint64_t said = ip_rules_hash(nearest) | 1;
	char again[16];

	if (now_ns < arm->absent_ns)
		return; /* another condition of the same rule */
	arm->absent_backoff_ns = arm->absent_backoff_ns ? 2 * arm->absent_backoff_ns : ABSENT_NS;
	if (arm->absent_backoff_ns > ABSENT_MOST_NS)
		arm->absent_backoff_ns = ABSENT_MOST_NS;
	arm->absent_ns = now_ns + arm->absent_backoff_ns;
	if (arm->absent_said == said)
		return;
	arm->absent_said = said;
	ip_rules_came_of(
		arm->state, t, false,
		"not watched: the process has no function %s%s%s; it is tried again in %s, and "
		"then less and less often",
		arm->state->rule->latency, *nearest ? "; nearest: " : "", nearest,
		ip_format_ns(arm->absent_backoff_ns, again));
}

bool ip_rules_arms_leave_out(struct ip_rules_target *t, uint64_t now_ns)
{
	char nearest[ABSENT_NEAREST];
	bool any = false;
	size_t condition;

	for (size_t i = 0; ip_rules_job_absent(&t->job, i, &condition, nearest, sizeof(nearest));
	     i++)
		if (condition >= 1 && condition <= t->nwatched) {
			leave_out(t, t->watched[condition - 1], nearest, now_ns);
			any = true;
		}
	return any;
}

void ip_rules_arms_found(struct ip_rules_target *t)
{
	for (size_t i = 0; i < t->nwatched; i++)
		t->watched[i]->absent_backoff_ns = t->watched[i]->absent_said = 0;
}
