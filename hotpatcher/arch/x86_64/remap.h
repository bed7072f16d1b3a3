/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the processor gives up the translation of a page that was unmapped while it executes there
 * (hotpatcher/patch/remap.h tells why that matters).
 */
#ifndef IP_X86_64_REMAP_H
#define IP_X86_64_REMAP_H

#include <cpuid.h>
#include <stdbool.h>
#include <string.h>

#define IP_ARCH_FETCH_LINE 64u

/* Returns whether the kernel may flush translations on another processor without interrupting it.
 * It can do so by INVLPGB (AMD, from Linux 6.15 on; CPUID 8000_0008h, EBX bit 3), or through a
 * hypervisor that may use INVLPGB on the kernel's behalf (Hyper-V's calls for that). */
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
