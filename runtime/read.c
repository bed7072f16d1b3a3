/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading memory that may be unmapped.
 */
#include <sys/syscall.h>

#include "runtime/arch/cpu.h"
#include "runtime/payload.h"
#include "runtime/rt.h"
#include "runtime/values.h"

#define PAGE 4096ull

struct vec {
	uintptr_t base, length;
};

uint64_t rt_read(uint64_t address, void *to, uint64_t size)
{
	uint64_t first = PAGE - address % PAGE;
	struct vec local = {(uintptr_t)to, size};
	struct vec remote[2] = {{address, first < size ? first : size},
				{address + first, first < size ? size - first : 0}};
	long done;

	if (!rt_may_read() || address + size < address)
		return 0;
	done = cpu_syscall6(SYS_process_vm_readv, rt_gate->pid, (long)&local, 1, (long)remote,
			    remote[1].length ? 2 : 1, 0);
	return done > 0 ? (uint64_t)done : 0;
}

uint32_t rt_read_lines(const uint64_t *addresses, void *to, uint32_t n)
{
	struct vec local, remote[RT_LINES];
	uint32_t bad = 0, at = 0;

	if (n > RT_LINES)
		return ~0u;
	for (uint32_t i = 0; i < n; i++)
		remote[i] = (struct vec){addresses[i], RT_LINE};
	while (at < n) {
		long done = -1;

		local = (struct vec){(uintptr_t)to + at * RT_LINE, (n - at) * RT_LINE};
		if (rt_may_read())
			done = cpu_syscall6(SYS_process_vm_readv, rt_gate->pid, (long)&local, 1,
					    (long)&remote[at], n - at, 0);
		/* the call ends in front of the first line that it cannot read */
		at += done > 0 ? (uint32_t)(done / RT_LINE) : 0;
		if (at < n)
			bad |= 1u << at++;
	}
	return bad;
}
