/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of many functions, most of which it never calls, and the others too often to be counted
 * always.
 *
 *   requests SECONDS    handle() until it has had so much CPU time; in each call of it h_NN(), once
 *                       to seven times
 *
 * Then "function NAME CALLS" for each of them. Requests differ: each third leaves half of the
 * functions out.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

static volatile unsigned sink;
static uint64_t requests;

#define WORK(n, length)                                                                            \
	{                                                                                          \
		for (unsigned i = 0; i < (length); i++)                                            \
			sink += i ^ 0x##n;                                                         \
	}
#define HOT(n)	KEEP void h_##n(void) WORK(n, 10 + 0x##n)
#define COLD(n) KEEP void never_##n(void) WORK(n, 3)
#define EACH(make, n)                                                                              \
	make(n##0) make(n##1) make(n##2) make(n##3) make(n##4) make(n##5) make(n##6) make(n##7)    \
		make(n##8) make(n##9) make(n##a) make(n##b) make(n##c) make(n##d) make(n##e)       \
			make(n##f)
#define ALL(make) EACH(make, 0) EACH(make, 1) EACH(make, 2) EACH(make, 3)
ALL(HOT)
#define COLD_ROW(n) EACH(COLD, n)
#define ROWS(make)                                                                                 \
	make(10) make(11) make(12) make(13) make(14) make(15) make(16) make(17) make(18) make(19)  \
		make(1a) make(1b) make(1c) make(1d) make(1e) make(1f) make(20) make(21) make(22)   \
			make(23) make(24) make(25) make(26) make(27) make(28) make(29) make(2a)    \
				make(2b) make(2c) make(2d) make(2e) make(2f)
ROWS(COLD_ROW)

#define NAME(n) {"h_" #n, h_##n},
static const struct {
	const char *name;
	void (*call)(void);
} functions[] = {ALL(NAME)};
#define COUNT (sizeof(functions) / sizeof(*functions))

KEEP void handle(void)
{
	size_t n = requests % 3 ? COUNT : COUNT / 2;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k <= i % 7; k++)
			functions[i].call();
	requests++;
}

QUIET static double cpu_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

QUIET int main(int argc, char **argv)
{
	double end = cpu_time() + (argc > 1 ? atof(argv[1]) : 1);

	while (cpu_time() < end)
		handle();
	printf("function handle %llu\n", (unsigned long long)requests);
	for (size_t i = 0; i < COUNT; i++) {
		uint64_t some = i < COUNT / 2 ? requests : requests - (requests + 2) / 3;

		printf("function %s %llu\n", functions[i].name,
		       (unsigned long long)(some * (i % 7 + 1)));
	}
	return 0;
}
