/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of system calls: by call alone, or by call and an owner, such as the function that made it.
 */
#ifndef IP_SYSCALL_SUMS_H
#define IP_SYSCALL_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/profile/histogram.h"
#include "analysis/syscalls/syscall_reader.h"

struct ip_syscall_error {
	uint32_t number; /* errno */
	uint64_t count;
};

/* Times are ticks. */
struct ip_syscall_sum {
	uint32_t owner;
	uint16_t number;
	uint64_t calls; /* that have returned, as far as is known */
	uint64_t errors;
	uint64_t unknown;		/* of calls: the result is not known */
	uint64_t timed;			/* of calls: the time is known, from entry to return */
	uint64_t timed_ticks, min, max; /* of these */
	uint64_t ticks; /* of all that is known: also of the calls in earlier, and in open */
	uint64_t earlier, open; /* began before the recording; had not returned at its end */
	uint64_t open_ticks;
	struct ip_syscall_parts parts; /* of ticks */
	struct ip_histogram durations; /* of the timed ones */
	struct ip_syscall_error *by_error;
	size_t nby_error;
};

/* All zero: empty. */
struct ip_syscall_sums {
	struct ip_syscall_sum *items;
	size_t n;
	uint32_t *index; /* private: open addressing, item + 1 */
	size_t size;
};

void ip_syscall_sums_clear(struct ip_syscall_sums *sums);

/* Adds a call. Returns 0, or -1 with an error. */
int ip_syscall_sums_add(struct ip_syscall_sums *sums, uint32_t owner,
			const struct ip_syscall_call *call);

/* Makes *to, which is empty, the same as from. Returns 0, or -1 with an error; then *to is to be
 * cleared all the same. */
int ip_syscall_sums_copy(struct ip_syscall_sums *to, const struct ip_syscall_sums *from);

/* Puts the items in order: the longest time first; the errors of each, the most frequent first. To
 * be called behind the last ip_syscall_sums_add(). */
void ip_syscall_sums_sort(struct ip_syscall_sums *sums);

/* The mean of the calls whose time is known; 0: there is none. */
uint64_t ip_syscall_sum_mean(const struct ip_syscall_sum *sum);

#endif
