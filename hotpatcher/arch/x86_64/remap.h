/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the processor lets go of a page that was taken from under it (hotpatcher/patch/remap.h tells
 * why that matters).
 */
#ifndef IP_X86_64_REMAP_H
#define IP_X86_64_REMAP_H

#include <cpuid.h>
#include <stdbool.h>
#include <string.h>

#define IP_ARCH_FETCH_LINE 64u

/* Whether translations may be flushed on another processor without interrupting what it
 * executes: by INVLPGB (AMD, Linux 6.15 on; CPUID 8000_0008h, EBX bit 3), or by a hypervisor on
 * the kernel's behalf that may use it (Hyper-V's calls for that). */
static inline bool ip_arch_flushes_silently(void)
{
	unsigned a, b, c, d;

	if (__get_cpuid(0x80000008, &a, &b, &c, &d) && (b & (1u << 3)))
		return true;
	if (__get_cpuid(1, &a, &b, &c, &d) && (c & (1u << 31))) {
		unsigned name[3];

		__cpuid(0x40000000, a, name[0], name[1], name[2]);
		return !memcmp(name, "Microsoft Hv", sizeof(name));
	}
	return false;
}

#endif
