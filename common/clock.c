/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selecting and calibrating the clock.
 */
#include "common/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/arch/x86_64/tsc.h"
#include "common/cleanup.h"

static uint64_t now(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static enum ip_clock_source selected = IP_CLOCK_TSC;

enum ip_clock_source ip_clock_select(enum ip_clock_source wanted, const char **ret_why)
{
	const char *why = NULL;

	if (wanted == IP_CLOCK_AUTO)
		wanted = ip_clock_trustworthy(&why) ? IP_CLOCK_TSC : IP_CLOCK_MONOTONIC;
	if (ret_why)
		*ret_why = why;
	return selected = wanted;
}

enum ip_clock_source ip_clock_selected(void)
{
	return selected;
}

uint64_t ip_clock_now(void)
{
	return selected == IP_CLOCK_MONOTONIC ? now(CLOCK_MONOTONIC_RAW) : ip_tsc();
}

uint64_t ip_clock_now_after(void)
{
	uint64_t tsc = ip_tsc_after();

	return selected == IP_CLOCK_MONOTONIC ? now(CLOCK_MONOTONIC_RAW) : tsc;
}

void ip_clock_read(struct ip_clock_reading *ret)
{
	uint64_t best = ~0ull;

	for (int i = 0; i < 10; i++) {
		uint64_t before = ip_tsc();
		uint64_t raw = now(CLOCK_MONOTONIC_RAW);
		uint64_t after = ip_tsc();
		uint64_t realtime = now(CLOCK_REALTIME);

		if (after - before >= best)
			continue;
		best = after - before;
		ret->tsc = selected == IP_CLOCK_MONOTONIC ? raw : before + best / 2;
		ret->raw_ns = raw;
		ret->realtime_ns = realtime;
	}
}

uint64_t ip_clock_hz(const struct ip_clock_reading *from, struct ip_clock_reading *to,
		     uint64_t min_ns)
{
	ip_clock_read(to);
	if (selected == IP_CLOCK_MONOTONIC)
		return 1000000000;
	if (to->raw_ns - from->raw_ns < min_ns) {
		uint64_t rest = min_ns - (to->raw_ns - from->raw_ns);
		const struct timespec nap = {rest / 1000000000, rest % 1000000000};

		nanosleep(&nap, NULL);
		ip_clock_read(to);
	}
	return (uint64_t)((double)(to->tsc - from->tsc) * 1e9 /
				  (double)(to->raw_ns - from->raw_ns) +
			  0.5);
}

static bool file_contains(const char *path, const char *word)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	char line[8192];

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, word))
			return true;
	return false;
}

bool ip_clock_trustworthy(const char **ret_why)
{
	const char *why = NULL;

	if (!file_contains("/proc/cpuinfo", "constant_tsc") ||
	    !file_contains("/proc/cpuinfo", "nonstop_tsc"))
		why = "the CPU does not promise a TSC of constant rate (constant_tsc, nonstop_tsc)";
	else if (!file_contains(
			 "/sys/devices/system/clocksource/clocksource0/available_clocksource",
			 "tsc"))
		why = "the kernel has given up the TSC as a clock (unstable)";
	if (ret_why)
		*ret_why = why;
	return !why;
}
