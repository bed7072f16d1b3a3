/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose slow requests are slow because of what a function deep in them is given:
 *
 *   sized_reads N   serves N requests
 *
 * Each request is serve(ID): look_up(7), three calls of step() of which the second is the longest,
 * and read_block("small", 16), which returns 16. The 31st of each 40 has step(9) as the longest,
 * and read_block("large", 65536), which takes 20 ms and returns -1; it calls refill() besides.
 * The point "fetched" in read_block() comes for each half of it, with the number of bytes so far.
 */
#include <stdlib.h>
#include <time.h>

#include <iprobe/probe.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

QUIET static void nap(long us)
{
	const struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

KEEP int look_up(int key)
{
	__asm__ volatile("" : "+r"(key));
	return key;
}

KEEP void refill(int blocks)
{
	__asm__ volatile("" : "+r"(blocks));
}

KEEP void step(int number, int us)
{
	__asm__ volatile("" : "+r"(number));
	if (us)
		nap(us);
	__asm__ volatile("");
}

KEEP int read_block(const char *name, unsigned len)
{
	__asm__ volatile("" : "+r"(name));
	for (unsigned half = 1; half <= 2; half++) {
		const unsigned bytes = half * len / 2;

		IPROBE_POINT(fetched, bytes, half);
	}
	if (len <= 16)
		return (int)len;
	refill(3);
	nap(20000);
	return -1;
}

KEEP int serve(int id)
{
	const int slow = id % 40 == 30;
	int done;

	look_up(7);
	step(1, 0);
	step(slow ? 9 : 2, slow ? 8000 : 300);
	step(3, 0);
	done = slow ? read_block("large", 65536) : read_block("small", 16);
	__asm__ volatile("" : "+r"(done));
	return done;
}

QUIET int main(int argc, char **argv)
{
	const int n = argc > 1 ? atoi(argv[1]) : 100;

	for (int i = 0; i < n; i++)
		serve(i);
	return 0;
}
