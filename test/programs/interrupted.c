/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function that takes the same time in each call, but for what else has its CPU.
 *
 *   interrupted CPU CALLS
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

#define KEEP	__attribute__((noinline))
#define QUIET	__attribute__((noinline, no_instrument_function))
#define STEPS	100000u
#define NO_TAIL __asm__ volatile("")

QUIET static void work(void)
{
	for (unsigned i = 0; i < STEPS; i++)
		__asm__ volatile("" : "+r"(i));
}

KEEP void parse(void)
{
	work();
	NO_TAIL;
}

KEEP void reply(void)
{
	work();
	NO_TAIL;
}

KEEP void serve(void)
{
	parse();
	reply();
	NO_TAIL;
}

int main(int argc, char **argv)
{
	cpu_set_t cpus;

	if (argc < 3)
		return 1;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) < 0)
		return 1;
	for (int i = atoi(argv[2]); i > 0; i--)
		serve();
	return 0;
}
