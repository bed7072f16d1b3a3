/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the clock thread of --time coarse (coarse_clock.h) sleeps between two refreshes.
 *
 *   - While the target takes stamps and a CPU is idle: as short as is useful
 *     (IP_COARSE_CLOCK_SHORT_NS). But the clock thread takes at most one part in
 *     IP_COARSE_CLOCK_SPARE_SHARE of that CPU, since the CPU may be half of the core that the
 *     target runs on.
 *   - While the target takes stamps and no CPU is idle (as many threads as there are CPUs run or
 *     wait, the clock thread not counted): so long that the clock thread takes at most one part in
 *     IP_COARSE_CLOCK_SHARE of a CPU. (A refresh takes 3 us, in a virtual machine up to 30. Nearly
 *     all of it is for the timer.)
 *   - While no thread takes stamps: twice as long each time, up to IP_COARSE_CLOCK_LONG_NS.
 *
 * A thread that takes a stamp during a long sleep gets an older one. The note about that stamp says
 * so.
 */
#ifndef IP_COARSE_INTERVAL_H
#define IP_COARSE_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#define IP_COARSE_CLOCK_SHORT_NS 10000u
#define IP_COARSE_CLOCK_LONG_NS	 1000000u
/* The sleep is never longer, whatever a refresh takes. */
#define IP_COARSE_CLOCK_MODEST_NS   10000000u
#define IP_COARSE_CLOCK_SHARE	    100u
#define IP_COARSE_CLOCK_SPARE_SHARE 4u
/* The least time and the least number of refreshes from one look at the target and the machine to
 * the next: a look costs more than a refresh. While no thread takes stamps, there is a look after
 * each refresh. */
#define IP_COARSE_CLOCK_LOOK_NS 500000u
#define IP_COARSE_CLOCK_LOOK	16u

struct ip_coarse_interval {
	unsigned cpus;
	uint64_t nap_ns;
	uint64_t slept_ns;  /* since the last look */
	unsigned refreshes; /* since the last look */
	uint64_t cpu_ns;    /* CPU time of the clock thread at the last look */
	uint64_t cost_ns;   /* average CPU time of a refresh */
	/* Average number of threads that want a CPU, the clock thread not counted. In 16ths,
	 * rounded up. */
	unsigned load;
	bool quiet; /* no thread had taken stamps at the last look */
	bool known; /* load has been measured */
};

void ip_coarse_interval_begin(struct ip_coarse_interval *interval, long cpus);

/* Returns the nanoseconds to sleep now. */
uint64_t ip_coarse_interval_nap(struct ip_coarse_interval *interval);

/* To be called after the sleep and the refresh. Returns whether it is time to look at the target
 * and the machine. If so, the result of the look goes to ip_coarse_interval_note(): whether stamps
 * were taken since the last look; how many threads run or wait for a CPU, the clock thread included
 * (0: not looked at); and the CPU time of the clock thread so far. */
bool ip_coarse_interval_is_time(const struct ip_coarse_interval *interval);
void ip_coarse_interval_note(struct ip_coarse_interval *interval, bool taken, unsigned runnable,
			     uint64_t cpu_ns);

#endif
