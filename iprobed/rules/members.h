/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that are recorded together when a rule with `record: service` fires.
 *
 * They are the targets that the rule is for, and that run the same executable in the same unit of
 * systemd, or outside of units in the same control groups, for the same user. A process counts as
 * the user's of its oldest ancestor of that kind: a server begins as root, and its workers have
 * given that up. So two users' processes are never recorded together because one of them was slow.
 * What limits a rule (service.h) counts more coarsely, by name.
 *
 *   1. The target whose condition held has fired: it leads. As long as it waits for its turn,
 *      nothing is done to the others.
 *   2. When it may act it claims the members. Their watches end. A member that is being recorded,
 *      or cleaned up after, just then is left out, and why.txt says so. While another
 *      leader has claimed a member, this one claims nobody, and waits: no two leaders wait for
 *      each other.
 *   3. When all are free one command records all of them (iprobe attach with several processes).
 *      The others are joined: nothing else is done to them until it has ended. A target that is
 *      found meanwhile, such as a new worker, is joined, too: it may be recorded, as a child.
 *   4. The end: all are free again, and are watched as before. After a failure each of them is
 *      cleaned up after by itself.
 * While the others fire for the same rule in steps 1 to 3, that is the same firing.
 */
#ifndef IP_RULES_MEMBERS_H
#define IP_RULES_MEMBERS_H

#include "iprobed/rules/rules_private.h"

/* Targets of one command. */
struct ip_rules_members {
	pid_t *pids;
	int *pidfds; /* borrowed of the targets */
	size_t n;
	bool service; /* what these fork may be touched, too */
};

/* Each returns 0, or -1 with an error. To be cleared in either case. */
int ip_rules_members_one(const struct ip_rules_target *t, struct ip_rules_members *ret);
/* The target, and those that it leads, for the rule. */
int ip_rules_members_led(const struct ip_rules *e, const struct ip_rules_target *t,
			 const struct ip_rules_state *state, struct ip_rules_members *ret);
/* The target, and the members whose flight recorder of the rule runs. */
int ip_rules_members_watched(const struct ip_rules *e, const struct ip_rules_target *t,
			     const struct ip_rules_state *state, struct ip_rules_members *ret);
void ip_rules_members_clear(struct ip_rules_members *members);

/* Finds out anew which targets belong together. To be called when some have been added. */
void ip_rules_members_sort(struct ip_rules *e);
/* Whether the rule, if it records services, records both targets together. */
bool ip_rules_members_same(const struct ip_rules_target *t, const struct ip_rules_target *other,
			   const struct ip_rules_state *state);
/* Whether no other member has a lower pid: what is judged of the whole service is judged of this
 * one. */
bool ip_rules_members_is_first(const struct ip_rules *e, const struct ip_rules_target *t,
			       const struct ip_rules_state *state);

/* Whether another member has fired for the rule, and that is not over. */
bool ip_rules_members_are_waiting(const struct ip_rules *e, const struct ip_rules_target *t,
				  const struct ip_rules_state *state);
/* The rule has fired: its timers begin anew for all members. */
void ip_rules_members_have_fired(const struct ip_rules *e, const struct ip_rules_target *t,
				 const struct ip_rules_state *state, uint64_t now_ns);

/* Step 2. Returns whether all members that can be had are free. */
bool ip_rules_members_claim(const struct ip_rules *e, struct ip_rules_target *t,
			    const struct ip_rules_state *state);
/* How many targets would record, this one included; and how many of its members cannot be had. */
size_t ip_rules_members_count(const struct ip_rules *e, const struct ip_rules_target *t,
			      const struct ip_rules_state *state, size_t *ret_left_out);
/* The memory of watches that end for it, in bytes. */
uint64_t ip_rules_members_watching(const struct ip_rules *e, const struct ip_rules_target *t,
				   const struct ip_rules_state *state);
/* It does not act after all: gives up its claims. */
void ip_rules_members_release(const struct ip_rules *e, struct ip_rules_target *t);
/* Step 3. ip_rules_members_note() writes notes of those that it leads, or none. */
int ip_rules_members_note(const struct ip_rules *e, const struct ip_rules_target *t);
void ip_rules_members_forget(const struct ip_rules *e, const struct ip_rules_target *t);
void ip_rules_members_join(const struct ip_rules *e, const struct ip_rules_target *t);
/* Whether nothing may be begun with the target: it is claimed or joined. Joins it, if it was found
 * while its service was being recorded already. */
bool ip_rules_members_hold(const struct ip_rules *e, struct ip_rules_target *t);
/* Step 4. */
void ip_rules_members_end(const struct ip_rules *e, struct ip_rules_target *t, bool good);

/* The cost of a recording is the whole service's: the rule rests for all members. */
void ip_rules_members_pay(const struct ip_rules *e, const struct ip_rules_target *t,
			  const struct ip_rules_state *state, uint64_t not_before_ns);

#endif
