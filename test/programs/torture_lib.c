/* SPDX-License-Identifier: Apache-2.0 */
/* What torture.c opens and closes. */
#include <stdint.h>

uint64_t from_library(uint64_t x);

__attribute__((noinline)) static uint64_t times(uint64_t x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 7;
}

uint64_t from_library(uint64_t x)
{
	return times(x) + 3;
}
