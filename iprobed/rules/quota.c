/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of a rule (processes), shared among users.
 *
 * A user may have as many as are free. When none is, one who has at least two fewer than the user
 * who has most takes one of these: that of the newest process to which nothing is being done but
 * that it is watched. So a user's thousand processes keep nobody else out, where there is but one
 * user he has all places, and no place goes back and forth. Who has lost his waits for a free one,
 * like others that came too late.
 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "iprobed/rules/rules_private.h"

/* Whether the process has a place of the rule. */
static bool has_one(const struct ip_rules_target *t, const struct ip_rules_state *state)
{
	for (size_t k = 0; k < t->narms && !t->gone; k++)
		if (t->arms[k].state == state)
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	const uid_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Who has most of the n places, and how many; 0: it cannot be told. */
static size_t richest(const struct ip_rules *e, const struct ip_rules_state *state, size_t n,
		      uid_t *ret)
{
	_cleanup_free_ uid_t *uids = malloc(n * sizeof(*uids));
	size_t found = 0, most = 0;

	for (size_t i = 0; uids && i < e->ntargets; i++)
		if (has_one(e->targets[i], state))
			uids[found++] = e->targets[i]->process.uid;
	if (found)
		qsort(uids, found, sizeof(*uids), compare);
	for (size_t i = 0, run = 0; i < found; i++) {
		run = i && uids[i] == uids[i - 1] ? run + 1 : 1;
		if (run > most) {
			most = run;
			*ret = uids[i];
		}
	}
	return most;
}

static bool is_busy(const struct ip_rules_target *t)
{
	return (t->doing != IP_RULES_NOTHING && t->doing != IP_RULES_WATCH) || t->nwaiting ||
	       t->side.pid;
}

/* Whose place the user may have; NULL with *ret_free: one is free; NULL without: nobody's. */
static struct ip_rules_target *look_for(struct ip_rules *e, const struct ip_rules_state *state,
					uid_t uid, bool *ret_free)
{
	struct ip_rules_target *newest = NULL;
	size_t all = 0, his = 0;
	uid_t rich = uid;

	for (size_t i = 0; i < e->ntargets; i++)
		if (has_one(e->targets[i], state)) {
			all++;
			his += e->targets[i]->process.uid == uid;
		}
	*ret_free = all < state->rule->processes;
	/* who has half of them has as many as any other */
	if (*ret_free || 2 * his >= all || richest(e, state, all, &rich) < his + 2)
		return NULL;
	for (size_t i = 0; i < e->ntargets; i++) {
		struct ip_rules_target *t = e->targets[i];

		if (t->process.uid != rich || !has_one(t, state))
			continue;
		if (is_busy(t))
			e->wanted = true;
		else if (!newest || t->process.start > newest->process.start)
			newest = t;
	}
	return newest;
}

bool ip_rules_has_place(struct ip_rules *e, const struct ip_rules_state *state, uid_t uid)
{
	bool is_free;

	return look_for(e, state, uid, &is_free) || is_free;
}

bool ip_rules_take_place(struct ip_rules *e, const struct ip_rules_state *state, uid_t uid)
{
	bool is_free;
	struct ip_rules_target *t = look_for(e, state, uid, &is_free);

	if (!t)
		return is_free;
	ip_rules_log(state, t,
		     "its place is another user's now, who has fewer of them (processes)");
	/* it is met anew when what is done to it has ended: other rules may be for it, too */
	t->gone = true;
	ip_rules_scan_pending(e, t->process.pid);
	return true;
}
