/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bit for each number that a process may have.
 */
#include "common/process_set.h"

#include <sys/mman.h>

#include "common/error.h"

#define PID_LIMIT (1u << 22) /* of Linux (PID_MAX_LIMIT) */
#define WORD	  64u

struct ip_process_set {
	uint64_t n; /* atomic, as the bits are */
	uint64_t bits[PID_LIMIT / WORD];
};

struct ip_process_set *ip_process_set_create(bool shared)
{
	/* pages that nobody writes take no memory */
	struct ip_process_set *set =
		mmap(NULL, sizeof(*set), PROT_READ | PROT_WRITE,
		     (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);

	if (set != MAP_FAILED)
		return set;
	ip_error("out of memory");
	return NULL;
}

void ip_process_set_destroy(struct ip_process_set *set)
{
	if (set)
		munmap(set, sizeof(*set));
}

void ip_process_set_add(struct ip_process_set *set, uint32_t pid)
{
	const uint64_t bit = 1ull << pid % WORD;

	if (pid && pid < PID_LIMIT &&
	    !(__atomic_fetch_or(&set->bits[pid / WORD], bit, __ATOMIC_RELAXED) & bit))
		ip_process_set_add_unknown(set, 1);
}

void ip_process_set_add_unknown(struct ip_process_set *set, uint64_t n)
{
	__atomic_fetch_add(&set->n, n, __ATOMIC_RELAXED);
}

bool ip_process_set_has(const struct ip_process_set *set, uint32_t pid)
{
	return pid < PID_LIMIT &&
	       (__atomic_load_n(&set->bits[pid / WORD], __ATOMIC_RELAXED) >> pid % WORD) & 1;
}

uint64_t ip_process_set_count(const struct ip_process_set *set)
{
	return __atomic_load_n(&set->n, __ATOMIC_RELAXED);
}

uint64_t ip_process_set_each(const struct ip_process_set *set,
			     void (*visit)(void *context, uint32_t pid), void *context)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < PID_LIMIT / WORD; i++)
		for (uint64_t left = __atomic_load_n(&set->bits[i], __ATOMIC_RELAXED); left;
		     left &= left - 1, n++)
			visit(context, i * WORD + __builtin_ctzll(left));
	return n;
}
