// SPDX-License-Identifier: Apache-2.0
/*
 * serve() is slow by itself, in one of ten calls. It calls check(), which always takes as long, and
 * a function of the C library through a pointer. other() is not called by it.
 */
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

static pid_t (*volatile any)(void) = getppid;
static volatile unsigned sink;

QUIET static inline void rest(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

__attribute__((noinline)) void check(void)
{
	rest(2);
	sink++;
}

__attribute__((noinline)) void other(void)
{
	sink++;
}

__attribute__((noinline)) void serve(unsigned i)
{
	check();
	if (i % 10 == 0)
		rest(20);
	sink += any();
}

QUIET int main(void)
{
	for (unsigned i = 0;; i++) {
		serve(i);
		other();
	}
}
