/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading memory that may be unmapped.
 */
#include <sys/syscall.h>

#include "runtime/arch/cpu.h"
#include "runtime/payload.h"
#include "runtime/rt.h"

#define PAGE 4096ull

uint64_t rt_read(uint64_t address, void *to, uint64_t size)
{
	uint64_t first = PAGE - address % PAGE;
	struct rt_piece local = {(uintptr_t)to, size};
	struct rt_piece remote[2] = {{address, first < size ? first : size},
				     {address + first, first < size ? size - first : 0}};
	long done;

	if (!rt_may_read() || address + size < address)
		return 0;
	done = cpu_syscall6(SYS_process_vm_readv, rt_gate->pid, (long)&local, 1, (long)remote,
			    remote[1].size ? 2 : 1, 0);
	return done > 0 ? (uint64_t)done : 0;
}

/* The call writes from this process to itself. So the kernel copies from the n pieces as it does
 * from a buffer of write(2), and has to look up the pages of one destination only, those at `to`.
 * To read n pieces by process_vm_readv takes ten times as long for each of them.
 *
 * A hook that begins in a forked child finds the gate cleared, and no process has the number 0. But
 * a signal handler may fork between the load of the number and the system call. Then the child,
 * once it returns here, writes to its parent. To ask for the number again would only make the
 * window smaller: docs/limits.md tells of it. */
uint64_t rt_gather(const struct rt_piece *from, uint32_t n, void *to, uint64_t size)
{
	const struct rt_piece remote = {(uintptr_t)to, size};
	long done;

	if (!rt_may_read() || !n)
		return 0;
	done = cpu_syscall6(SYS_process_vm_writev, rt_gate->pid, (long)from, n, (long)&remote, 1,
			    0);
	return done > 0 ? (uint64_t)done : 0;
}
