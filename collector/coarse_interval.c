/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/coarse_interval.h"

#define SIXTEENTHS 16u

void ip_coarse_interval_begin(struct ip_coarse_interval *pace, long cpus)
{
	*pace = (struct ip_coarse_interval){.cpus = cpus > 0 ? cpus : 1, .nap_ns = IP_COARSE_CLOCK_SHORT_NS};
}

uint64_t ip_coarse_interval_nap(struct ip_coarse_interval *pace)
{
	pace->slept_ns += pace->nap_ns;
	pace->refreshes++;
	return pace->nap_ns;
}

bool ip_coarse_interval_is_time(const struct ip_coarse_interval *pace)
{
	return pace->quiet || (pace->slept_ns >= IP_COARSE_CLOCK_LOOK_NS && pace->refreshes >= IP_COARSE_CLOCK_LOOK);
}

/* What keeps our share. */
static uint64_t modest(const struct ip_coarse_interval *pace)
{
	bool spare = pace->load < pace->cpus * SIXTEENTHS;
	uint64_t ns = pace->cost_ns * (spare ? IP_COARSE_CLOCK_SPARE_SHARE - 1 : IP_COARSE_CLOCK_SHARE);

	if (ns < IP_COARSE_CLOCK_SHORT_NS)
		return IP_COARSE_CLOCK_SHORT_NS;
	return ns < IP_COARSE_CLOCK_MODEST_NS ? ns : IP_COARSE_CLOCK_MODEST_NS;
}

void ip_coarse_interval_note(struct ip_coarse_interval *pace, bool taken, unsigned runnable, uint64_t cpu_ns)
{
	uint64_t cost = pace->refreshes ? (cpu_ns - pace->cpu_ns) / pace->refreshes : 0;

	pace->cost_ns = pace->cost_ns ? (7 * pace->cost_ns + cost) / 8 : cost;
	pace->cpu_ns = cpu_ns;
	/* it may double from one look to the next, as programs come and go: what counts is how it is mostly */
	if (runnable)
		pace->load = pace->known ? (pace->load + SIXTEENTHS * (runnable - 1) + 1) / 2
					 : SIXTEENTHS * (runnable - 1);
	pace->known |= runnable != 0;
	pace->slept_ns = 0;
	pace->refreshes = 0;
	pace->quiet = !taken;
	if (taken)
		pace->nap_ns = modest(pace);
	else if (pace->nap_ns < IP_COARSE_CLOCK_LONG_NS)
		pace->nap_ns = pace->nap_ns < IP_COARSE_CLOCK_LONG_NS / 2 ? 2 * pace->nap_ns : IP_COARSE_CLOCK_LONG_NS;
}
