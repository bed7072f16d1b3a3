/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose latency changes while it runs:
 *
 *   changing_latency [-w] BEFORE_MS AFTER_MS
 *
 * With -w it says its pid and begins when stdin has a line. For BEFORE_MS handle("read") and
 * handle("write") take 25 us each. Then handle("write") takes 800 us, 32 times as long, for
 * AFTER_MS; handle("read") and steady() are as before. At the end it prints {"reads",
 * "fast_writes", "slow_writes", "steady"}, numbers of calls, and waits for the end of stdin.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

#define FAST_US 25
#define SLOW_US 800

static int changed;
static uint64_t reads, writes[2], steadies;

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

KEEP static void serve(unsigned ms)
{
	const uint64_t end = now() + ms * 1000000ull;

	while (now() < end) {
		handle("read");
		handle("write");
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
		printf("pid %d\n", getpid());
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 1;
	}
	serve((unsigned)atoi(argv[1 + waits]));
	changed = 1;
	serve((unsigned)atoi(argv[2 + waits]));
	printf("{\"reads\":%llu,\"fast_writes\":%llu,\"slow_writes\":%llu,\"steady\":%llu}\n",
	       (unsigned long long)reads, (unsigned long long)writes[0],
	       (unsigned long long)writes[1], (unsigned long long)steadies);
	fflush(stdout);
	while (waits && fgets(line, sizeof(line), stdin))
		;
	return 0;
}
