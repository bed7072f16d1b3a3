/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/coarse_interval.h"

#define SIXTEENTHS 16u

void ip_coarse_interval_begin(struct ip_coarse_interval *interval, long cpus)
{
	*interval = (struct ip_coarse_interval){.cpus = cpus > 0 ? cpus : 1,
						.nap_ns = IP_COARSE_CLOCK_SHORT_NS};
}

uint64_t ip_coarse_interval_nap(struct ip_coarse_interval *interval)
{
	interval->slept_ns += interval->nap_ns;
	interval->refreshes++;
	return interval->nap_ns;
}

bool ip_coarse_interval_is_time(const struct ip_coarse_interval *interval)
{
	return interval->quiet || (interval->slept_ns >= IP_COARSE_CLOCK_LOOK_NS &&
				   interval->refreshes >= IP_COARSE_CLOCK_LOOK);
}

/* Returns the sleep that keeps the clock thread within its share of a CPU. */
static uint64_t modest(const struct ip_coarse_interval *interval)
{
	bool spare = interval->load < interval->cpus * SIXTEENTHS;
	uint64_t ns = interval->cost_ns *
		      (spare ? IP_COARSE_CLOCK_SPARE_SHARE - 1 : IP_COARSE_CLOCK_SHARE);

	if (ns < IP_COARSE_CLOCK_SHORT_NS)
		return IP_COARSE_CLOCK_SHORT_NS;
	return ns < IP_COARSE_CLOCK_MODEST_NS ? ns : IP_COARSE_CLOCK_MODEST_NS;
}

void ip_coarse_interval_note(struct ip_coarse_interval *interval, bool taken, unsigned runnable,
			     uint64_t cpu_ns)
{
	uint64_t cost = interval->refreshes ? (cpu_ns - interval->cpu_ns) / interval->refreshes : 0;

	interval->cost_ns = interval->cost_ns ? (7 * interval->cost_ns + cost) / 8 : cost;
	interval->cpu_ns = cpu_ns;
	/* The number may double from one look to the next, as programs come and go. What matters is
	 * its usual value. */
	if (runnable)
		interval->load = interval->known
					 ? (interval->load + SIXTEENTHS * (runnable - 1) + 1) / 2
					 : SIXTEENTHS * (runnable - 1);
	interval->known |= runnable != 0;
	interval->slept_ns = 0;
	interval->refreshes = 0;
	interval->quiet = !taken;
	if (taken)
		interval->nap_ns = modest(interval);
	else if (interval->nap_ns < IP_COARSE_CLOCK_LONG_NS)
		interval->nap_ns = interval->nap_ns < IP_COARSE_CLOCK_LONG_NS / 2
					   ? 2 * interval->nap_ns
					   : IP_COARSE_CLOCK_LONG_NS;
}
