/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor's time stamp counter.
 */
#ifndef IP_X86_64_TSC_H
#define IP_X86_64_TSC_H

#include <stdint.h>
#include <x86intrin.h>

static inline uint64_t ip_tsc(void)
{
	return __rdtsc();
}

/* Reads the counter after all processors see every earlier store. */
static inline uint64_t ip_tsc_after(void)
{
	__asm__ volatile("mfence; lfence" : : : "memory");
	return __rdtsc();
}

#endif
