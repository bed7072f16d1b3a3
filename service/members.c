/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a service. See members.h.
 */
#include "service/members.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

#define TICK_NS 10000000ull /* of the times at which processes were started */

static struct ip_service_member *find(const struct ip_service_members *members,
				      const struct ip_service_process *p)
{
	for (size_t i = 0; i < members->n; i++)
		if (members->items[i]->process.pid == p->pid &&
		    members->items[i]->process.started == p->started)
			return members->items[i];
	return NULL;
}

static int add(struct ip_service_members *members, const struct ip_service_process *p,
	       uint64_t again_ns)
{
	struct ip_service_member *m;

	if (ip_array_grow(&members->items, members->n, sizeof(*members->items)) < 0)
		return -1;
	m = calloc(1, sizeof(*m));
	if (!m)
		return ip_error("out of memory");
	m->process = *p;
	m->again_ns = again_ns;
	m->worker = m->restorer = (struct ip_service_worker){.socket = -1, .out = -1};
	members->items[members->n++] = m;
	return 0;
}

/* That its parent's session has let it go is of no interest where it executes another program: that
 * one was not recorded. Where it may not be looked at, it is the same program as far as is known.
 */
static void take(struct ip_service_member *m, const struct ip_service_process *p)
{
	if (p->exe && m->process.exe && p->exe != m->process.exe)
		m->let_go = false;
	m->process = *p;
}

bool ip_service_member_refresh(struct ip_service_member *m)
{
	struct ip_service_process p = m->process;

	if (!ip_service_process_refresh(&p))
		return false;
	take(m, &p);
	return true;
}

/* What was found out before does not hold for another program, nor for other users. */
static void meet_anew(struct ip_service_member *m, const struct ip_service_process *p,
		      uint64_t again_ns)
{
	const bool changed = p->identity != m->process.identity;

	take(m, p);
	m->gone = false;
	if (!changed || !(m->state == IP_SERVICE_LEFT || m->state == IP_SERVICE_FOLLOWED ||
			  (m->state == IP_SERVICE_RECORDED && m->execed)))
		return;
	m->state = IP_SERVICE_WAITING;
	m->tries = 0;
	m->again_ns = again_ns;
}

int ip_service_members_meet(struct ip_service_members *members,
			    const struct ip_service_processes *found, uint64_t new_ns,
			    uint64_t changed_ns)
{
	for (size_t i = 0; i < members->n; i++)
		members->items[i]->gone = true;
	for (size_t i = 0; i < found->n; i++) {
		struct ip_service_member *m = find(members, &found->items[i]);

		if (m)
			meet_anew(m, &found->items[i], changed_ns);
		else if (add(members, &found->items[i], new_ns) < 0)
			return -1;
	}
	return 0;
}

void ip_service_members_clear(struct ip_service_members *members)
{
	for (size_t i = 0; i < members->n; i++) {
		ip_service_worker_clear(&members->items[i]->worker);
		ip_service_worker_clear(&members->items[i]->restorer);
		free(members->items[i]);
	}
	free(members->items);
	*members = (struct ip_service_members){0};
}

size_t ip_service_members_count(const struct ip_service_members *members,
				enum ip_service_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < members->n; i++)
		n += members->items[i]->state == state;
	return n;
}

static const struct ip_service_member *find_parent(const struct ip_service_members *members,
						   const struct ip_service_member *m)
{
	for (size_t i = 0; i < members->n; i++)
		if (!members->items[i]->gone && members->items[i]->process.pid == m->process.parent)
			return members->items[i];
	return NULL;
}

bool ip_service_member_is_followed(const struct ip_service_members *members,
				   const struct ip_service_member *m)
{
	const struct ip_service_member *p = find_parent(members, m);

	/* the parent may have executed another program since its session began */
	if (!p || p->recorded != m->process.identity)
		return false;
	return p->state == IP_SERVICE_FOLLOWED ||
	       (p->state == IP_SERVICE_RECORDING && p->live_ns && p->worker.follows &&
		m->process.started * TICK_NS > p->live_ns + TICK_NS);
}

/* Whether a session of its parent, which may have ended since, has followed the child. */
static bool was_followed(const struct ip_service_members *members,
			 const struct ip_service_member *m)
{
	for (size_t i = 0; i < members->n; i++) {
		const struct ip_service_member *p = members->items[i];

		if (p->process.pid == m->process.parent && p->recorded == m->process.identity &&
		    (p->state == IP_SERVICE_FOLLOWED ||
		     (p->live_ns && p->worker.follows &&
		      m->process.started * TICK_NS > p->live_ns + TICK_NS)))
			return true;
	}
	return false;
}

bool ip_service_member_is_missed(const struct ip_service_members *members,
				 const struct ip_service_member *m)
{
	if (m->let_go)
		return !m->live_ns;
	if (!m->process.exe || (m->live_ns && m->recorded == m->process.identity) ||
	    was_followed(members, m))
		return false;
	for (size_t i = 0; i < members->n; i++)
		if (members->items[i]->live_ns && members->items[i]->process.exe == m->process.exe)
			return true;
	return false;
}

/* Whose session records what the member forks; NULL: nobody's. */
static const struct ip_service_member *recorder(const struct ip_service_member *m)
{
	if (m->state == IP_SERVICE_FOLLOWED)
		return m->follower;
	return m->state == IP_SERVICE_RECORDING ? m : NULL;
}

void ip_service_member_set_followed(const struct ip_service_members *members,
				    struct ip_service_member *m)
{
	const struct ip_service_member *parent = find_parent(members, m);

	m->state = IP_SERVICE_FOLLOWED;
	m->recorded = m->process.identity;
	m->follower = parent ? recorder(parent) : NULL;
}

bool ip_service_member_is_followed_by(const struct ip_service_member *m,
				      const struct ip_service_member *by)
{
	return m->state == IP_SERVICE_FOLLOWED && (!m->follower || m->follower == by);
}

bool ip_service_member_is_let_go(const struct ip_service_members *members,
				 const struct ip_service_member *m)
{
	const struct ip_service_member *parent = find_parent(members, m);

	return m->let_go || (parent && parent->process.identity != m->process.identity);
}

static void free_one(struct ip_service_member *m, uint64_t again_ns)
{
	m->state = IP_SERVICE_WAITING;
	m->follower = NULL;
	m->freed = true;
	m->tries = 0;
	m->again_ns = again_ns;
}

bool ip_service_members_let_go(struct ip_service_members *members, pid_t pid, uint64_t again_ns)
{
	for (size_t i = 0; i < members->n; i++) {
		struct ip_service_member *m = members->items[i];

		if (m->gone || m->process.pid != pid)
			continue;
		m->let_go = true;
		/* its own session may have begun, or be about to */
		if (m->state == IP_SERVICE_FOLLOWED || m->state == IP_SERVICE_LEFT)
			free_one(m, again_ns);
		m->freed = true;
		return true;
	}
	return false;
}

void ip_service_members_free_followed(struct ip_service_members *members,
				      const struct ip_service_member *by, uint64_t again_ns)
{
	for (size_t i = 0; i < members->n; i++) {
		struct ip_service_member *m = members->items[i];

		if (!ip_service_member_is_followed_by(m, by))
			continue;
		free_one(m, again_ns);
	}
}
