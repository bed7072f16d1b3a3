/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of a rule (processes), shared among users.
 *
 * A user may have as many places as are free. When none is free, a user who has at least two fewer
 * than the user with most of them takes one of that user's places. It is the place of the newest
 * process to which nothing is done except watching. So a user's thousand processes keep no other
 * user out. If there is only one user, he has all places. No place goes back and forth. A process
 * that has lost its place waits for a free one, like others that came too late.
 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "iprobed/rules/rules_private.h"

/* Returns whether the process has a place of the rule. */
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

/* Finds the user who has most of the n places. Returns the number of his places; 0: it cannot be
 * found out. */
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

/* Returns the target whose place the user may have. NULL with *ret_free: a place is free. NULL
 * without it: there is none. */
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
	/* a user who has half of the places has as many as any other */
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
	/* It is matched again when what is done to it has ended: other rules may be for it, too. */
	t->gone = true;
	ip_rules_scan_pending(e, t->process.pid);
	return true;
}
