/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are recorded together. members.h describes the steps; the comments here name them.
 */
#include "iprobed/rules/members.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

#define ANCESTORS 64u

/* ---- which targets are members ---- */

static bool runs_the_same(const struct ip_rules_target *a, const struct ip_rules_target *b)
{
	return a->unit && b->unit && !strcmp(a->process.exe, b->process.exe) &&
	       !strcmp(a->unit, b->unit);
}

/* Returns the target's parent, if it is a target of the same kind. A process that was there before
 * its parent has got that number later. */
static const struct ip_rules_target *parent_of(const struct ip_rules *e,
					       const struct ip_rules_target *t)
{
	for (size_t i = 0; t->process.parent > 1 && i < e->ntargets; i++) {
		const struct ip_rules_target *p = e->targets[i];

		if (p->process.pid == t->process.parent && p->process.start <= t->process.start)
			return runs_the_same(p, t) ? p : NULL;
	}
	return NULL;
}

void ip_rules_members_sort(struct ip_rules *e)
{
	for (size_t i = 0; i < e->ntargets; i++) {
		const struct ip_rules_target *oldest = e->targets[i], *parent;

		for (unsigned n = 0; n < ANCESTORS && (parent = parent_of(e, oldest)); n++)
			oldest = parent;
		e->targets[i]->owner = oldest->process.uid;
	}
	e->unsorted = false;
}

static struct ip_rules_arm *arm_of(const struct ip_rules_target *t,
				   const struct ip_rules_state *state)
{
	for (size_t i = 0; i < t->narms; i++)
		if (t->arms[i].state == state)
			return &t->arms[i];
	return NULL;
}

bool ip_rules_members_same(const struct ip_rules_target *t, const struct ip_rules_target *other,
			   const struct ip_rules_state *state)
{
	return state->rule->service && arm_of(other, state) && t->owner == other->owner &&
	       runs_the_same(t, other);
}

/* Whether the other is a member beside t. */
static bool is_beside(const struct ip_rules_target *t, const struct ip_rules_target *other,
		      const struct ip_rules_state *state)
{
	return other != t && !other->gone && ip_rules_members_same(t, other, state);
}

bool ip_rules_members_is_first(const struct ip_rules *e, const struct ip_rules_target *t,
			       const struct ip_rules_state *state)
{
	for (size_t i = 0; i < e->ntargets; i++)
		if (e->targets[i]->process.pid < t->process.pid &&
		    is_beside(t, e->targets[i], state))
			return false;
	return true;
}

/* ---- targets of a command ---- */

static int add(struct ip_rules_members *members, const struct ip_rules_target *t)
{
	if (ip_array_grow(&members->pids, members->n, sizeof(*members->pids)) < 0 ||
	    ip_array_grow(&members->pidfds, members->n, sizeof(*members->pidfds)) < 0)
		return -1;
	members->pids[members->n] = t->process.pid;
	members->pidfds[members->n++] = t->pidfd;
	return 0;
}

int ip_rules_members_one(const struct ip_rules_target *t, struct ip_rules_members *ret)
{
	*ret = (struct ip_rules_members){0};
	return add(ret, t);
}

int ip_rules_members_led(const struct ip_rules *e, const struct ip_rules_target *t,
			 const struct ip_rules_state *state, struct ip_rules_members *ret)
{
	int done = ip_rules_members_one(t, ret);

	ret->service = state->rule->service;
	for (size_t i = 0; i < e->ntargets && done == 0; i++)
		if (e->targets[i]->lead == t)
			done = add(ret, e->targets[i]);
	return done;
}

int ip_rules_members_watched(const struct ip_rules *e, const struct ip_rules_target *t,
			     const struct ip_rules_state *state, struct ip_rules_members *ret)
{
	int done = ip_rules_members_one(t, ret);

	ret->service = state->rule->service;
	for (size_t i = 0; i < e->ntargets && done == 0; i++) {
		const struct ip_rules_target *m = e->targets[i];

		if (is_beside(t, m, state) && m->doing == IP_RULES_WATCH && m->by &&
		    m->by->state == state)
			done = add(ret, m);
	}
	return done;
}

void ip_rules_members_clear(struct ip_rules_members *members)
{
	free(members->pids);
	free(members->pidfds);
	*members = (struct ip_rules_members){0};
}

/* ---- firing ---- */

static bool has_fired(const struct ip_rules_target *t, const struct ip_rules_state *state)
{
	bool has = (t->side_by && t->side_by->state == state) ||
		   (t->doing == IP_RULES_ACT && t->by && t->by->state == state);

	for (size_t i = 0; i < t->nwaiting; i++)
		has |= t->waiting[i].arm->state == state;
	return has;
}

bool ip_rules_members_are_waiting(const struct ip_rules *e, const struct ip_rules_target *t,
				  const struct ip_rules_state *state)
{
	/* a leader whose process has ended may still record */
	for (size_t i = 0; i < e->ntargets; i++)
		if (e->targets[i] != t && ip_rules_members_same(t, e->targets[i], state) &&
		    has_fired(e->targets[i], state))
			return true;
	return false;
}

void ip_rules_members_have_fired(const struct ip_rules *e, const struct ip_rules_target *t,
				 const struct ip_rules_state *state, uint64_t now_ns)
{
	for (size_t i = 0; i < e->ntargets && state->rule->every_ns; i++)
		if (is_beside(t, e->targets[i], state))
			arm_of(e->targets[i], state)->every_ns = now_ns + state->rule->every_ns;
}

/* ---- step 2 ---- */

static bool can_be_had(const struct ip_rules_target *t)
{
	return t->doing == IP_RULES_NOTHING || t->doing == IP_RULES_WATCH;
}

bool ip_rules_members_claim(const struct ip_rules *e, struct ip_rules_target *t,
			    const struct ip_rules_state *state)
{
	bool all_free = true;

	for (size_t i = 0; i < e->ntargets; i++)
		if (is_beside(t, e->targets[i], state) && e->targets[i]->lead &&
		    e->targets[i]->lead != t) {
			ip_rules_members_release(e, t);
			return false;
		}
	for (size_t i = 0; i < e->ntargets; i++) {
		struct ip_rules_target *m = e->targets[i];
		const bool claimed = is_beside(t, m, state) && can_be_had(m);

		if (claimed) {
			m->lead = t;
			t->leads = true;
		} else if (m->lead == t) {
			m->lead = NULL;
		}
		all_free &= !claimed || ip_rules_target_rests(m);
	}
	return all_free;
}

size_t ip_rules_members_count(const struct ip_rules *e, const struct ip_rules_target *t,
			      const struct ip_rules_state *state, size_t *ret_left_out)
{
	size_t n = 1;

	*ret_left_out = 0;
	for (size_t i = 0; i < e->ntargets; i++) {
		const struct ip_rules_target *m = e->targets[i];

		if (is_beside(t, m, state)) {
			n += can_be_had(m);
			*ret_left_out += !can_be_had(m);
		}
	}
	return n;
}

uint64_t ip_rules_members_watching(const struct ip_rules *e, const struct ip_rules_target *t,
				   const struct ip_rules_state *state)
{
	uint64_t all = 0;

	for (size_t i = 0; i < e->ntargets; i++)
		if (is_beside(t, e->targets[i], state) && e->targets[i]->doing == IP_RULES_WATCH)
			all += e->targets[i]->memory;
	return all;
}

void ip_rules_members_release(const struct ip_rules *e, struct ip_rules_target *t)
{
	for (size_t i = 0; i < e->ntargets && t->leads; i++)
		if (e->targets[i]->lead == t)
			e->targets[i]->lead = NULL;
	t->leads = false;
}

/* ---- steps 3 and 4 ---- */

void ip_rules_members_forget(const struct ip_rules *e, const struct ip_rules_target *t)
{
	for (size_t i = 0; i < e->ntargets; i++)
		if (e->targets[i]->lead == t)
			ip_rules_forget(e, &e->targets[i]->process);
}

int ip_rules_members_note(const struct ip_rules *e, const struct ip_rules_target *t)
{
	for (size_t i = 0; i < e->ntargets; i++)
		if (e->targets[i]->lead == t && ip_rules_note(e, &e->targets[i]->process) < 0) {
			ip_rules_members_forget(e, t);
			return -1;
		}
	return 0;
}

void ip_rules_members_join(const struct ip_rules *e, const struct ip_rules_target *t)
{
	for (size_t i = 0; i < e->ntargets; i++)
		if (e->targets[i]->lead == t)
			e->targets[i]->doing = IP_RULES_JOINED;
}

/* Returns who records the target's service now; NULL: nobody. */
static struct ip_rules_target *find_leader(const struct ip_rules *e,
					   const struct ip_rules_target *t)
{
	for (size_t i = 0; i < e->ntargets && e->leading; i++) {
		struct ip_rules_target *leader = e->targets[i];

		if (leader != t && leader->doing == IP_RULES_ACT && leader->by &&
		    ip_rules_members_same(leader, t, leader->by->state))
			return leader;
	}
	return NULL;
}

bool ip_rules_members_hold(const struct ip_rules *e, struct ip_rules_target *t)
{
	struct ip_rules_target *leader;

	if (t->lead || t->doing != IP_RULES_NOTHING)
		return t->lead;
	leader = find_leader(e, t);
	if (!leader)
		return false;
	t->lead = leader;
	leader->leads = true;
	/* without a note it would only be lost when all processes are killed at once */
	if (ip_rules_note(e, &t->process) < 0)
		ip_rules_log(NULL, t, "%s", ip_error_message());
	t->doing = IP_RULES_JOINED;
	return true;
}

void ip_rules_members_end(const struct ip_rules *e, struct ip_rules_target *t, bool good)
{
	for (size_t i = 0; i < e->ntargets && t->leads; i++) {
		struct ip_rules_target *m = e->targets[i];

		if (m->lead != t)
			continue;
		m->lead = NULL;
		if (m->doing != IP_RULES_JOINED)
			continue;
		m->doing = good ? IP_RULES_NOTHING : IP_RULES_CLEAN;
		m->unclean = false;
		if (good)
			ip_rules_forget(e, &m->process);
	}
	t->leads = false;
}

void ip_rules_members_pay(const struct ip_rules *e, const struct ip_rules_target *t,
			  const struct ip_rules_state *state, uint64_t not_before_ns)
{
	for (size_t i = 0; i < e->ntargets; i++)
		if (is_beside(t, e->targets[i], state))
			arm_of(e->targets[i], state)->not_before_ns = not_before_ns;
}
