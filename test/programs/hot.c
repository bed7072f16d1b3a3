/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with functions of all temperatures that counts its own calls.
 *
 *   hot [-w] SECONDS
 *
 * tiny() does nothing, small() some 20 ns, both are called in turn without end; middle() calls them
 * a hundred times, large() works for some 100 microseconds. Prints "function NAME CALLS" for each,
 * and "calls TOTAL". -w: waits for a line on stdin before, and after; one that comes meanwhile ends
 * the calls.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

enum { TINY, SMALL, MIDDLE, LARGE, NFUNCTIONS };

static const char *const names[NFUNCTIONS] = {"tiny", "small", "middle", "large"};
static unsigned long calls[NFUNCTIONS];
static volatile unsigned sink;

KEEP void tiny(void)
{
	calls[TINY]++;
}

KEEP unsigned small(unsigned x)
{
	calls[SMALL]++;
	for (int i = 0; i < 12; i++)
		__asm__ volatile("imul %0, %0" : "+r"(x));
	__asm__ volatile("lfence"); /* reading the clock does not wait for what is under way */
	return x;
}

KEEP void middle(void)
{
	calls[MIDDLE]++;
	for (unsigned i = 0; i < 100; i++) {
		tiny();
		sink = small(i);
	}
}

KEEP void large(void)
{
	calls[LARGE]++;
	for (unsigned i = 0; i < 100000; i++)
		__asm__ volatile("" : "+r"(i));
}

QUIET static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

QUIET static void wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

QUIET static bool line_is_there(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};

	return poll(&in, 1, 0) > 0;
}

QUIET int main(int argc, char **argv)
{
	int wait = argc > 2 && !strcmp(argv[1], "-w");
	double seconds = strtod(argv[argc - 1], NULL), end;
	unsigned long sum = 0;

	if (wait) {
		puts("ready");
		fflush(stdout);
		wait_for_line();
	}
	for (end = now() + seconds; now() < end && !(wait && line_is_there());) {
		for (int i = 0; i < 100; i++)
			middle();
		large();
	}
	if (wait && now() < end)
		wait_for_line();
	for (int i = 0; i < NFUNCTIONS; i++) {
		printf("function %s %lu\n", names[i], calls[i]);
		sum += calls[i];
	}
	printf("calls %lu\n", sum);
	fflush(stdout);
	if (wait)
		wait_for_line();
	return 0;
}
