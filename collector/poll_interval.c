/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the length of the sleep.
 */
#include "collector/poll_interval.h"

#include <unistd.h>

#include "common/abi/ring.h"

/* The most that a thread can write which does nothing but record: 10 ns an event. */
#define BYTES_PER_US 800u
#define IDLE_TURNS   16u /* polls without a taken sub-buffer */
#define BATCH	     16u /* sub-buffers to be filled during a sleep */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t ip_poll_interval_nap(struct ip_poll_interval *p, uint64_t now_ns, unsigned taken,
			      unsigned free, unsigned total, unsigned writers, uint64_t max_ns)
{
	uint64_t elapsed = now_ns - p->turned_ns, nap, least_nap,
		 bytes = (uint64_t)free * IP_SUBBUF_SIZE / 2;

	if (!p->cpus) {
		long n = sysconf(_SC_NPROCESSORS_ONLN);

		p->cpus = n > 0 ? n : 1;
	}
	p->turned_ns = now_ns;
	/* Threads that have not recorded so far may begin to. */
	writers = least(p->cpus, 2ull * writers + 2);
	if (taken)
		nap = BATCH * elapsed / taken;
	else
		nap = 2 * p->nap_ns;
	nap = least(nap, bytes * 1000 / BYTES_PER_US / writers);
	nap = least(nap, least(max_ns, IP_POLL_INTERVAL_MAX_NS));
	/* A pool that stays empty is no reason to look all the time: no thread can fill
	 * anything. */
	p->idle = taken ? 0 : p->idle + 1;
	least_nap = p->idle > IDLE_TURNS ? IP_POLL_INTERVAL_IDLE_NS : IP_POLL_INTERVAL_MIN_NS;
	p->nap_ns = nap < least_nap ? least_nap : nap;
	return taken && free < total / 4 ? 0 : p->nap_ns;
}

void ip_poll_interval_hurry(struct ip_poll_interval *p)
{
	p->nap_ns = 0;
	p->idle = 0;
}
