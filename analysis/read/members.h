/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several recordings as one: those of the members of a trace (common/trace/trace_members.h).
 *
 * Each process numbers its functions and signatures by itself. In the recording that is put
 * together, the numbers of a member are shifted by a base of its own: its number n becomes
 * numbers + n. Members with the same tables share one base. Functions of the same name, of modules
 * with the same path and build-id, are one function; their modules are loaded elsewhere in each
 * process.
 *
 * Times lie on one axis. Members whose times cannot, since they come from another machine, another
 * boot or another clock, are not taken.
 */
#ifndef IP_MEMBERS_H
#define IP_MEMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/read/session.h"

struct ip_recording_member {
	/* its recording, by its own numbers. Its strings are those of the whole, too. */
	struct ip_recording *own;
	char *name;   /* of its sub-directory */
	uint32_t pid; /* as the iprobe that recorded it saw it */
	/* Its numbers up to most become numbers + number; larger ones are not known, and become
	 * numbers + most + 1. Likewise the signatures. */
	uint32_t numbers, most;
	uint32_t signatures, most_signature;
	/* By its own index: the index in the whole. A module that is not there: IP_NO_MODULE. */
	uint32_t *functions, *modules;
	size_t stacks;		   /* how many stacks of other members come before its own */
	uint32_t others, nothers;  /* its files without probes: in session->others */
	struct ip_changes changes; /* of its functions, by their index in the whole */
};

struct ip_recording_members {
	char *service;	     /* how the processes were chosen; NULL: not told */
	char *kernel_groups; /* NULL: no kernel events were recorded for all of them */
	char *kernel_source;
	struct ip_recording_member *items;
	size_t n;
};

/* The bounds of all members together, which keep the memory within some GB. */
#define IP_MEMBERS_NUMBERS    (1u << 26)
#define IP_MEMBERS_SIGNATURES (1u << 18)

void ip_recording_members_destroy(struct ip_recording_members *members);

/* Returns why the times of a recording cannot be compared with those of another one, as a text for
 * people that is valid until the next call in the thread. NULL: they can. */
const char *ip_recording_other_clock(const struct ip_recording *a, const struct ip_recording *b);

/* Puts the members together. There is at least one, and their times can be compared. *ret owns the
 * members from then on, also where it fails. Returns 0, or -1 with an error. */
int ip_recording_join(struct ip_recording_members *members, struct ip_recording **ret);

/* Returns the changes of a member's functions. */
const struct ip_changes *ip_recording_changes(const struct ip_recording *session, uint32_t member);

/* Return the number in the whole of a member's own number. */
static inline uint32_t ip_member_number(const struct ip_recording_member *m, uint32_t number)
{
	return m->numbers + (number <= m->most ? number : m->most + 1);
}

#endif
