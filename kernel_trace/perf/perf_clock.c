/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps readings of two clocks, and finds times of one by the other.
 */
#include "kernel_trace/perf/perf_clock.h"

#include <string.h>
#include <time.h>

#include "common/arch/x86_64/tsc.h"
#include "common/error.h"

#define NS	     1000000000ull
#define TRIES	     10u
#define APART_NS     100000000ull /* between two readings that are kept */
#define BASE_NS	     20000u	  /* by which the first rate is measured */
#define IMPRECISE_NS 1000u	  /* a clock that is read by the vDSO takes 50 */

uint64_t ip_perf_clock_read(uint64_t *ret_ns, uint64_t *ret_tsc)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < TRIES; i++) {
		const uint64_t before = ip_tsc();
		struct timespec t;
		uint64_t within;

		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		within = ip_tsc() - before;
		if (within >= best)
			continue;
		best = within;
		*ret_tsc = before + within / 2;
		*ret_ns = t.tv_sec * NS + t.tv_nsec;
	}
	return best;
}

/* A reading that was interrupted would shift all times beside it: the best of a few is taken. */
static uint64_t read_well(const struct ip_perf_clock *clock, struct ip_perf_reading *ret,
			  uint64_t within)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < TRIES && best > within; i++) {
		struct ip_perf_reading r = {0};
		const uint64_t taken = clock->read(&r.ns, &r.tsc);

		if (taken >= best)
			continue;
		best = taken;
		*ret = r;
	}
	return best;
}

int ip_perf_clock_begin(struct ip_perf_clock *clock)
{
	struct ip_perf_reading next;
	uint64_t within;

	if (!clock->read)
		clock->read = ip_perf_clock_read;
	clock->n = 1;
	within = read_well(clock, &clock->readings[0], 0);
	/* a second one gives the rate, so that the first can be judged */
	do
		clock->read(&next.ns, &next.tsc);
	while (next.ns - clock->readings[0].ns < BASE_NS);
	clock->within = within;
	if (next.tsc <= clock->readings[0].tsc ||
	    (double)within * (double)(next.ns - clock->readings[0].ns) >
		    (double)IMPRECISE_NS * (double)(next.tsc - clock->readings[0].tsc))
		return ip_error("times of perf events cannot be compared with those of functions: "
				"the kernel's clock is read too slowly (clocksource)");
	return 0;
}

/* The last reading moves with the time, until it is far enough from the one before to be kept. */
static void renew(struct ip_perf_clock *clock)
{
	struct ip_perf_reading *last = &clock->readings[clock->n - 1], now;

	read_well(clock, &now, 2 * clock->within);
	if (now.ns <= last->ns || now.tsc <= last->tsc)
		return;
	if (clock->n == 1 || last->ns - last[-1].ns >= APART_NS) {
		if (clock->n == IP_PERF_READINGS)
			memmove(clock->readings, clock->readings + 1,
				--clock->n * sizeof(*clock->readings));
		last = &clock->readings[clock->n++];
	}
	*last = now;
	last[-1].rate = (double)(now.tsc - last[-1].tsc) / (double)(now.ns - last[-1].ns);
}

uint64_t ip_perf_clock_tsc(struct ip_perf_clock *clock, uint64_t ns)
{
	const struct ip_perf_reading *r;

	if (clock->n < 2 || ns > clock->readings[clock->n - 1].ns)
		renew(clock);
	if (clock->n < 2)
		return clock->readings[0].tsc;
	r = &clock->readings[clock->n - 2];
	while (r > clock->readings && ns < r->ns)
		r--;
	return r->tsc + (int64_t)((double)(int64_t)(ns - r->ns) * r->rate);
}
