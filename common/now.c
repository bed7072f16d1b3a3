/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of waits and deadlines.
 */
#include "common/now.h"

#include <time.h>

uint64_t ip_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

uint64_t ip_thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}
