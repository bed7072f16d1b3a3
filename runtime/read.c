/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading memory that may be unmapped.
 */
#include <sys/syscall.h>

#include "runtime/arch/cpu.h"
#include "runtime/payload.h"
#include "runtime/rt.h"

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
