/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a service that is being recorded: each process that was found, how far its
 * recording has come, and whose session records a process that has none of its own.
 */
#ifndef IP_SERVICE_MEMBERS_H
#define IP_SERVICE_MEMBERS_H

#include "common/trace/trace_members.h"
#include "service/processes.h"
#include "service/workers.h"

enum ip_service_state {
	IP_SERVICE_WAITING, /* for its time */
	IP_SERVICE_RECORDING,
	/* its worker was killed: another one puts back what is live */
	IP_SERVICE_RESTORING,
	IP_SERVICE_RECORDED,
	IP_SERVICE_LEFT, /* there is nothing to record, or it cannot be recorded */
	IP_SERVICE_FOLLOWED,
};

struct ip_service_member {
	struct ip_service_process process;
	enum ip_service_state state;
	uint64_t again_ns; /* WAITING: until then */
	unsigned tries;
	bool gone; /* it was not found at the last look */
	bool late; /* it was not found at the first look */
	char name[IP_TRACE_MEMBER_NAME];
	struct ip_service_worker worker, restorer;
	/* FOLLOWED: whose session records it; NULL: not known */
	const struct ip_service_member *follower;
	bool freed; /* the session that followed it does so no longer: it gets its own */
	/* since it has become another user; it still executes the program that was recorded */
	bool let_go;
	/* its identity when its session was begun, or was found to be followed */
	uint64_t recorded;
	bool execed;	  /* its session has ended, since it executes another program */
	uint64_t live_ns; /* when its session went live, since boot; 0: it has not */
};

struct ip_service_members {
	struct ip_service_member **items; /* a member stays where it is */
	size_t n;
};

/* Takes in what a look has found: processes that are new, and known ones that execute another
 * program or have become another user by now. Both wait until new_ns and changed_ns. Returns 0, or
 * -1 with an error. */
int ip_service_members_meet(struct ip_service_members *members,
			    const struct ip_service_processes *found, uint64_t new_ns,
			    uint64_t changed_ns);

/* Releases the workers, which must have ended. */
void ip_service_members_clear(struct ip_service_members *members);

size_t ip_service_members_count(const struct ip_service_members *members,
				enum ip_service_state state);

/* Whether a session has recorded the child since its fork: it is what its parent is, and was forked
 * after its parent's session, which follows forks, had gone live. Of others a worker finds it
 * out. */
bool ip_service_member_is_followed(const struct ip_service_members *members,
				   const struct ip_service_member *member);

/* Looks again at what the member executes (ip_service_process_refresh()). Returns false where it
 * has ended. */
bool ip_service_member_refresh(struct ip_service_member *member);

/* Whether the member ended before anything of it could be recorded: it had no session, its parent's
 * did not follow it, and its program is one that is recorded in others. Or its parent's session let
 * it go, and it ended before it had one of its own. */
bool ip_service_member_is_missed(const struct ip_service_members *members,
				 const struct ip_service_member *member);

/* The session that records the member's parent records the member, too. */
void ip_service_member_set_followed(const struct ip_service_members *members,
				    struct ip_service_member *member);

/* Whether that session may be the one of `by`. */
bool ip_service_member_is_followed_by(const struct ip_service_member *member,
				      const struct ip_service_member *by);

/* Whether the session that follows the child lets it go: the child has become another user, and
 * that session has not seen it yet, or still has to put the child back. */
bool ip_service_member_is_let_go(const struct ip_service_members *members,
				 const struct ip_service_member *member);

/* The session that followed the process has let it go: it is to get one of its own, from again_ns
 * on. Returns false where there is no such member. */
bool ip_service_members_let_go(struct ip_service_members *members, pid_t pid, uint64_t again_ns);

/* The session of `by` has ended early: each process that it has followed is to get a session of its
 * own, from again_ns on. */
void ip_service_members_free_followed(struct ip_service_members *members,
				      const struct ip_service_member *by, uint64_t again_ns);

#endif
