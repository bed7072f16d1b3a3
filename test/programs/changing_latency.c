/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose latency changes while it runs:
 *
 *   changing_latency [-w] BEFORE AFTER
 *
 * With -w it says "ready", and begins when stdin has a line. For BEFORE rounds handle("read"),
 * handle("write") and steady() take 25 us each. Then handle("write") takes 800 us, 32 times as
 * long, for AFTER rounds; the others are as before. At the end it prints {"reads",
 * "fast_writes", "slow_writes", "steady", "profile"}: numbers of calls, and how many writes took
 * how long by its own clock, in powers of two of nanoseconds, before and after. Then it waits for
 * the end of stdin.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

#define FAST_US 25
#define SLOW_US 800

static int changed;
static uint64_t reads, writes[2], steadies;
static unsigned profile[2][65];

QUIET static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

QUIET static void spin(unsigned us)
{
	const uint64_t end = now() + us * 1000ull;

	while (now() < end)
		;
}

KEEP int handle(const char *kind)
{
	const int is_write = !strcmp(kind, "write");

	spin(is_write && changed ? SLOW_US : FAST_US);
	reads += !is_write;
	writes[changed] += is_write;
	return is_write;
}

KEEP void steady(void)
{
	spin(FAST_US);
	steadies++;
}

KEEP static void serve(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t begin;

		handle("read");
		begin = now();
		handle("write");
		profile[changed][64 - __builtin_clzll((now() - begin) | 1)]++;
		steady();
	}
}

int main(int argc, char **argv)
{
	const int waits = argc > 1 && !strcmp(argv[1], "-w");
	char line[64];

	if (argc != 3 + waits)
		return 2;
	if (waits) {
		puts("ready");
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 1;
	}
	serve((unsigned)atoi(argv[1 + waits]));
	changed = 1;
	serve((unsigned)atoi(argv[2 + waits]));
	printf("{\"reads\":%llu,\"fast_writes\":%llu,\"slow_writes\":%llu,\"steady\":%llu,"
	       "\"profile\":[",
	       (unsigned long long)reads, (unsigned long long)writes[0],
	       (unsigned long long)writes[1], (unsigned long long)steadies);
	for (unsigned i = 0; i < 2; i++)
		for (unsigned b = 0; b < 65; b++)
			printf("%s%u%s",
			       b   ? ","
			       : i ? ",["
				   : "[",
			       profile[i][b], b == 64 ? "]" : "");
	puts("]}");
	fflush(stdout);
	while (waits && fgets(line, sizeof(line), stdin))
		;
	return 0;
}
