/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts system calls whose time limit began anew. See renewed_calls.h.
 */
#include "hotpatcher/ptrace/renewed_calls.h"

#include <stdbool.h>

/* from being let go until the thread sleeps in its call again; on a busy machine it takes longer,
 * and the call counts as another one */
#define BACK_ASLEEP_NS 1000000ull

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void ip_renewed_calls_add(struct ip_renewed_calls *calls, pid_t tid, long number, uint64_t slept_ns,
			  uint64_t late_ns)
{
	struct ip_renewed_call *last = &calls->last[(uint32_t)tid % IP_RENEWED_SLOTS];
	const bool same = last->tid == tid && last->number == number && last->released_ns &&
			  slept_ns && slept_ns < last->released_ns + BACK_ASLEEP_NS;

	last->tid = tid;
	last->number = number;
	last->released_ns = 0;
	last->late_ns = same ? sum(last->late_ns, late_ns) : late_ns;
	if (last->late_ns > last->latest_ns)
		last->latest_ns = last->late_ns;
	calls->n += !same;
	calls->tid = tid;
	calls->number = number;
}

void ip_renewed_calls_release(struct ip_renewed_calls *calls, pid_t tid, uint64_t now_ns)
{
	struct ip_renewed_call *last = &calls->last[(uint32_t)tid % IP_RENEWED_SLOTS];

	if (last->tid == tid && !last->released_ns)
		last->released_ns = now_ns;
}

uint64_t ip_renewed_calls_latest(const struct ip_renewed_calls *calls)
{
	uint64_t latest = 0;

	for (size_t i = 0; i < IP_RENEWED_SLOTS; i++)
		if (calls->last[i].latest_ns > latest)
			latest = calls->last[i].latest_ns;
	return latest;
}
