/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the clock of --time coarse (coarse_clock.h) sleeps between two refreshes.
 *
 *   - While the target takes stamps and a CPU is to spare: as short as is of use
 *     (IP_COARSE_CLOCK_SHORT_NS), but not more than one part in IP_COARSE_CLOCK_SPARE_SHARE of that
 *     CPU: it may be half of the core that the target runs on.
 *   - While it takes stamps and no CPU is to spare (as many threads as there are CPUs are running
 *     or waiting, without us): so long that our own time (a refresh takes 3 us, in a virtual
 *     machine up to 30, nearly all of it for the timer) is not more of a CPU's than one part in
 *     IP_COARSE_CLOCK_SHARE.
 *   - While nobody takes stamps: twice as long each time, up to IP_COARSE_CLOCK_LONG_NS.
 *
 * Whoever takes a stamp in such a time gets an older one, and what is noted of it says so.
 */
#ifndef IP_COARSE_INTERVAL_H
#define IP_COARSE_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#define IP_COARSE_CLOCK_SHORT_NS    10000u
#define IP_COARSE_CLOCK_LONG_NS	    1000000u
#define IP_COARSE_CLOCK_MODEST_NS   10000000u /* never longer, whatever a refresh takes */
#define IP_COARSE_CLOCK_SHARE	    100u
#define IP_COARSE_CLOCK_SPARE_SHARE 4u
/* From one look at the target and the machine to the next: so long and so many refreshes at
 * least, since a look costs more than a refresh. While nobody takes stamps each refresh looks. */
#define IP_COARSE_CLOCK_LOOK_NS 500000u
#define IP_COARSE_CLOCK_LOOK	16u

struct ip_coarse_interval {
	unsigned cpus;
	uint64_t nap_ns;
	uint64_t slept_ns;  /* since the last look */
	unsigned refreshes; /* the same */
	uint64_t cpu_ns;    /* of ours, at the last look */
	uint64_t cost_ns;   /* of a refresh, on average */
	unsigned load; /* threads that want a CPU beside us, in 16ths, on average; rounded up */
	bool quiet;    /* nobody took stamps, at the last look */
	bool known;    /* what the load is */
};

void ip_coarse_interval_begin(struct ip_coarse_interval *interval, long cpus);

/* Nanoseconds to sleep now. */
uint64_t ip_coarse_interval_nap(struct ip_coarse_interval *interval);

/* Behind it: whether to look at the target and the machine. If so: whether stamps were taken
 * since the last look, threads that are running or waiting, us included (0: not looked at), and
 * our CPU time so far. */
bool ip_coarse_interval_is_time(const struct ip_coarse_interval *interval);
void ip_coarse_interval_note(struct ip_coarse_interval *interval, bool taken, unsigned runnable,
			     uint64_t cpu_ns);

#endif
