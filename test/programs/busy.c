/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose durations and callers are known: says "ready", works from the first line on stdin
 * on, and at its end says how often each was called.
 *
 *   outer   takes 2 ms by itself, and calls inner twice, aside once, and hidden once, through a
 *           pointer
 *   inner   takes 1 ms
 *   tiny    100 calls for each of outer
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))
#define STAY  __asm__ volatile("" : : : "memory") /* no tail call */
#define LONG                                                                                       \
	a_function_whose_name_is_longer_than_any_terminal_of_anybody_is_wide_so_that_it_has_to_be_cut_somewhere

static volatile unsigned long outers, inners, asides, hiddens, tinies, longs;

static QUIET uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static QUIET void spend(uint64_t ns)
{
	for (uint64_t end = now() + ns; now() < end;)
		;
}

KEEP void inner(void)
{
	inners++;
	spend(1000000);
	STAY;
}

KEEP void aside(void)
{
	asides++;
}

KEEP void hidden(void)
{
	hiddens++;
}

static void (*volatile pointer)(void) = hidden;

KEEP void outer(void)
{
	outers++;
	spend(2000000);
	inner();
	aside();
	pointer();
	inner();
	STAY;
}

KEEP void tiny(void)
{
	tinies++;
}

KEEP void LONG(void)
{
	longs++;
}

QUIET int main(void)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};
	char line[16];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	while (poll(&p, 1, 0) == 0) {
		outer();
		for (int i = 0; i < 100; i++)
			tiny();
		LONG();
	}
	printf("outer %lu inner %lu aside %lu hidden %lu tiny %lu long %lu\n", outers, inners,
	       asides, hiddens, tinies, longs);
	return 0;
}
