/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who kept functions waiting: which thread ended a wait, and in which function it was then; who
 * had a lock (lock_holder.h), and in which function when the wait began; and who had the CPU that a
 * thread waited for. An interrupt ends waits, too, and is nobody.
 */
#ifndef IP_WAIT_CULPRITS_H
#define IP_WAIT_CULPRITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/wait/cpu_users.h"
#include "analysis/wait/thread_states.h"
#include "analysis/wait/wait_profile.h"
#include "analysis/wait/waker_paths.h"

#define IP_RUN_QUEUE   UINT32_MAX /* in place of an object */
#define IP_NO_FUNCTION UINT32_MAX

struct ip_wait_culprit {
	uint32_t owner;	 /* whose wait: a function; while the profile is made: a node */
	uint32_t object; /* of the profile, or IP_RUN_QUEUE */
	/* NULL: nobody, as far as is known */
	const struct ip_thread_states *thread;
	bool is_lock; /* which the thread had */
	uint32_t in;  /* the function that the thread was in, or IP_NO_FUNCTION */
	uint64_t ticks;
	const struct ip_thread_wait *wait; /* while the profile is made */
};

struct ip_wait_culprits {
	struct ip_wait_culprit *items; /* by function, then by object; the longest first */
	size_t n;
	/* Private. */
	const struct ip_states *states;
	const struct ip_cpu_users *users;
	const struct ip_wait_part *part; /* that is being looked at */
	size_t *index;			 /* a hash table of items: index + 1; 0: free */
	size_t index_size;
	struct ip_wait_culprit *waits; /* of which it is not known in which function they ended */
	size_t nwaits;
};

/* Begins. What is given must outlive *ret, which the caller clears in any case. */
void ip_wait_culprits_begin(const struct ip_states *states, const struct ip_cpu_users *users,
			    struct ip_wait_culprits *ret);
/* Takes part in the making of a profile: see struct ip_wait_observer. context: struct
 * ip_wait_culprits. */
int ip_wait_culprits_part(void *context, const struct ip_wait_part *part);
/* Whether ip_wait_culprits_end() needs to know in which calls threads were when they woke others.
 */
bool ip_wait_culprits_need_wakers(const struct ip_wait_culprits *culprits);
/* The profile is made: adds up. wakers: of the same trace; NULL where they are not needed. Returns
 * 0, or -1 with an error. */
int ip_wait_culprits_end(struct ip_wait_culprits *culprits, const struct ip_wait_profile *profile,
			 const struct ip_waker_paths *wakers);
void ip_wait_culprits_clear(struct ip_wait_culprits *culprits);

/* Those of a function's waits for an object, or for a CPU (IP_RUN_QUEUE): *ret_n of them. */
const struct ip_wait_culprit *ip_wait_culprits_of(const struct ip_wait_culprits *culprits,
						  uint32_t function, uint32_t object,
						  size_t *ret_n);

/* Puts those of several objects together, as if it were one. Returns how many are left: the longest
 * first. */
size_t ip_wait_culprits_join(struct ip_wait_culprit *items, size_t n);

#endif
