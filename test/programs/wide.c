/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function whose calls take equally long, and many whose calls do not: few samples say little.
 *
 *   wide ROUNDS     steady() once a round; each wide_NN() twice, for 1 us, or 1 ms once in 64 calls
 */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

QUIET static void spin(uint64_t ns)
{
	struct timespec now;
	uint64_t end = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		if (!end)
			end = now.tv_sec * 1000000000ull + now.tv_nsec + ns;
	} while (now.tv_sec * 1000000000ull + now.tv_nsec < end);
}

QUIET static uint64_t length(void)
{
	static uint32_t seed = 1;

	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % 64 ? 1000 : 1000000;
}

#define WIDE(n)                                                                                    \
	KEEP void wide_##n(void)                                                                   \
	{                                                                                          \
		spin(length());                                                                    \
		__asm__ volatile("");                                                              \
	}
#define ALL(w)                                                                                     \
	w(00) w(01) w(02) w(03) w(04) w(05) w(06) w(07) w(08) w(09) w(10) w(11) w(12) w(13) w(14)  \
		w(15) w(16) w(17) w(18) w(19) w(20) w(21) w(22) w(23)

ALL(WIDE)

KEEP void steady(void)
{
	spin(100000);
	__asm__ volatile("");
}

#define CALL(n) wide_##n();

int main(int argc, char **argv)
{
	for (int n = argc > 1 ? atoi(argv[1]) : 1; n > 0; n--) {
		steady();
		ALL(CALL)
		ALL(CALL)
	}
	return 0;
}
