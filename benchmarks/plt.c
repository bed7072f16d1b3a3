/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For benchmarks/plt: times calls of a library's function by the PLT, of the same function by a
 * pointer, and of a function of the program's own, in turns. Built with -fno-builtin.
 *
 *   plt ROUNDS CALLS   prints a line for each round: nanoseconds of a call by the PLT, by the
 *                      pointer, and of the own function
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE   __attribute__((noipa))
#define UNRECORDED __attribute__((no_instrument_function))

static volatile long sink;

NOINLINE long own(long x)
{
	return x < 0 ? -x : x;
}

UNRECORDED static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long (*pointer)(long) = dlsym(RTLD_DEFAULT, "labs");
	const long rounds = argc > 2 ? atol(argv[1]) : 10, calls = argc > 2 ? atol(argv[2]) : 100;

	if (!pointer)
		return 1;
	for (long r = 0; r < rounds; r++) {
		double t[4];

		t[0] = now();
		for (long i = 0; i < calls; i++)
			sink += labs(i); /* it has no other effect */
		t[1] = now();
		for (long i = 0; i < calls; i++)
			sink += pointer(i);
		t[2] = now();
		for (long i = 0; i < calls; i++)
			sink += own(i);
		t[3] = now();
		printf("%.3f %.3f %.3f\n", (t[1] - t[0]) / calls, (t[2] - t[1]) / calls,
		       (t[3] - t[2]) / calls);
	}
	return 0;
}
