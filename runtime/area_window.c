/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the area that is mapped. All of it is address space, which a process may have little
 * of (RLIMIT_AS). So a runtime that iprobe has put into a process maps a small part, and a borrowed
 * thread maps more of it when a session needs more (hotpatcher/plan/window/area_window.h).
 *
 *   1. At first the area's header, slots and descriptors are mapped, and the first sub-buffers. The
 *      tables are a hole. They are what the modes CAREFUL and PAYLOADS, and values, need.
 *   2. The last part grows where it lies, by mremap(). The kernel maps nothing over other memory
 *      then. The new memory is memory of the same file, and is withheld from children as the rest
 *      is (MADV_DONTFORK, MADV_DONTDUMP), in the same step.
 *   3. Covers are laid into the new part. No hook uses it yet.
 *   4. The bounds grow up to the end that the tracer names. It names the one that they have
 *      anyway (IP_AREA_DATA_OFFSET), since the file is not as long yet as the mapping: it makes the
 *      file longer, and raises the bounds itself, while the gate is closed. No hook uses what lies
 *      beyond them. Where another end is named, each bound is one aligned word, since hooks may be
 *      at work.
 *   5. The tables: a second mapping of the file's beginning is made in some other place, its end is
 *      moved into the hole, and the rest is unmapped. The hole is reserved first, by a mapping that
 *      can replace nothing. Then hooks get the addresses of the tables.
 *
 * A pool for stubs that is full gets another one beside it (rt_pool_add()), for modules that come
 * later.
 *
 * What hooks may have used is unmapped only when the tracer has proved that no thread is in a hook,
 * and none can begin one (hotpatcher/plan/window/late_hooks.h):
 *
 *   6. rt_area_narrow(), at the end of a session: the bounds are lowered first, and then the memory
 *      is unmapped that lies behind the first part, and the tables.
 *   7. rt_area_remove(), where the user wants nothing to stay: the area, but for the first covers,
 *      and the pools. The process then has what a forked child has whose parent is not followed
 *      (area.c, steps 1 to 4), and a later session makes a new area in the same way.
 *
 * If the thread is alone (its iprobe has died), it goes on, and what has grown is used by the next
 * session.
 *
 * A session that needs the tables has them mapped before its gate opens. But a slot's modes, by
 * which hooks know such a session, lie in the area, where a child that shares it can write. So
 * while there are no tables hooks read duties from the memory of sub-buffers, which is as little
 * to be trusted, and read no rules. Only stubs lead to payloads and programs, and none is written
 * before the tables are there.
 */
#include <stddef.h>
#include <sys/syscall.h>

#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

#define PAGE		    4096ull
#define TABLES_SIZE	    (IP_AREA_TABLES_END - IP_AREA_TABLES_OFFSET)
#define PROT_NONE	    0
#define MAP_PRIVATE	    0x02
#define MAP_ANONYMOUS	    0x20
#define MAP_NORESERVE	    0x4000
#define MAP_FIXED_NOREPLACE 0x100000
#define PROT_READ	    1
#define PROT_EXEC	    4
#define MADV_DONTFORK	    10
#define MREMAP_MAYMOVE	    1
#define MREMAP_FIXED	    2
#define ENOSPC		    28
#define EINVAL		    22
#define EEXIST		    17

#define FAILED(ret) ((unsigned long)(ret) > -4096ul)

/* Where the last part of the mapping begins, the one behind the last cover. */
static uint64_t last_part(uint64_t size)
{
	uint64_t from = IP_AREA_DATA_OFFSET;

	for (unsigned i = 1; i < IP_AREA_COVERS && ip_area_cover(i) < size; i++)
		from = ip_area_cover(i) + PAGE;
	return from;
}

/* Step 4. The values only grow, whatever the caller says. */
static void raise_bounds(uint64_t end)
{
	const uint64_t nsubbufs = (end - IP_AREA_DATA_OFFSET) / IP_SUBBUF_SIZE;

	if (end <= rt_private.end)
		return;
	__atomic_store_n(&rt_private.end, end, __ATOMIC_RELEASE);
	__atomic_store_n(&rt_private.place_last,
			 iprobe_rt_anchor.area + end - sizeof(struct ip_hist_tails),
			 __ATOMIC_RELEASE);
	__atomic_store_n(&rt_private.nsubbufs,
			 nsubbufs < IP_AREA_SUBBUFS ? (uint32_t)nsubbufs : IP_AREA_SUBBUFS,
			 __ATOMIC_RELEASE);
}

/* A mapping that ends with a cover could not grow: no size that is asked for does
 * (ip_area_plan()). */
long rt_area_widen(uint64_t size, uint64_t end)
{
	const uint64_t area = iprobe_rt_anchor.area, old = iprobe_rt_anchor.area_size,
		       from = last_part(old);
	long ret;

	if (size % PAGE || size < old || size > IP_AREA_WINDOW_MAX || end > size ||
	    end < IP_AREA_DATA_OFFSET || from >= old)
		return -EINVAL;
	if (size > old) {
		ret = cpu_syscall6(SYS_mremap, area + from, old - from, size - from, 0, 0, 0);
		if (FAILED(ret))
			return ret;
		ret = rt_area_lay_covers(area, old, size);
		if (FAILED(ret)) {
			cpu_syscall(SYS_munmap, area + old, size - old, 0, 0);
			return ret;
		}
		iprobe_rt_anchor.area_size = size;
	}
	raise_bounds(end);
	return 0;
}

/* The bounds of a mapping that ends there, whatever they were before. No hook may be in flight. */
static void lower_bounds(uint64_t end)
{
	rt_private.nsubbufs = (end - IP_AREA_DATA_OFFSET) / IP_SUBBUF_SIZE;
	rt_private.place_last = iprobe_rt_anchor.area + end - sizeof(struct ip_hist_tails);
	rt_private.nmeters = 0;
	rt_private.meters = rt_private.meters_size = 0;
	rt_private.end = end;
}

static long unmap_tables(void)
{
	long ret;

	if (!rt_has_tables)
		return 0;
	rt_has_tables = 0;
	rt_area_find_tables();
	ret = cpu_syscall(SYS_munmap, iprobe_rt_anchor.area + IP_AREA_TABLES_OFFSET, TABLES_SIZE, 0,
			  0);
	if (FAILED(ret)) {
		rt_has_tables = 1;
		rt_area_find_tables();
	}
	return FAILED(ret) ? ret : 0;
}

long rt_area_narrow(uint64_t size)
{
	const uint64_t area = iprobe_rt_anchor.area, old = iprobe_rt_anchor.area_size;
	long ret;

	/* the file must have what hooks take for the table of duties */
	if (size != IP_AREA_SMALL_SIZE || size > old)
		return -EINVAL;
	if (rt_private.end > IP_AREA_SMALL_FILE)
		lower_bounds(IP_AREA_SMALL_FILE);
	if (size < old) {
		iprobe_rt_anchor.area_size = size;
		ret = cpu_syscall(SYS_munmap, area + size, old - size, 0, 0);
		if (FAILED(ret)) {
			iprobe_rt_anchor.area_size = old;
			return ret;
		}
	}
	return unmap_tables();
}

long rt_area_remove(void)
{
	long ret = rt_area_narrow(IP_AREA_SMALL_SIZE);

	if (FAILED(ret))
		return ret;
	for (unsigned i = 0; i < IP_POOLS; i++) {
		const uint64_t size = iprobe_rt_anchor.pools[i].size;

		if (!size)
			continue;
		iprobe_rt_anchor.pools[i].size = 0;
		cpu_store_order();
		ret = cpu_syscall(SYS_munmap, iprobe_rt_anchor.pools[i].address, size, 0, 0);
		if (!FAILED(ret))
			continue;
		iprobe_rt_anchor.pools[i].size = size;
		return ret;
	}
	lower_bounds(IP_AREA_DATA_OFFSET);
	rt_area_forget();
	return 0;
}

/* Maps private memory where nothing is mapped. Returns 0, or an error. */
static long map_free(uint64_t address, uint64_t size, long prot)
{
	unsigned long at = cpu_syscall6(
		CPU_SYS_MMAP, address, size, prot,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (FAILED(at))
		return at;
	if (at == address)
		return 0;
	/* an old kernel takes NOREPLACE for a hint */
	cpu_syscall(SYS_munmap, at, size, 0, 0);
	return -EEXIST;
}

long rt_area_map_tables(void)
{
	const uint64_t area = iprobe_rt_anchor.area, hole = area + IP_AREA_TABLES_OFFSET;
	long other, ret;

	if (rt_has_tables)
		return 0;
	ret = map_free(hole, TABLES_SIZE, PROT_NONE);
	if (FAILED(ret))
		return ret;
	/* a child that is forked in between must find nothing there (area_renew.h) */
	cpu_syscall(SYS_madvise, hole, TABLES_SIZE, MADV_DONTFORK, 0);
	/* an old size of 0: what is mapped there stays mapped */
	other = cpu_syscall6(SYS_mremap, area, 0, IP_AREA_TABLES_END, MREMAP_MAYMOVE, 0, 0);
	if (FAILED(other)) {
		cpu_syscall(SYS_munmap, hole, TABLES_SIZE, 0, 0);
		return other;
	}
	ret = cpu_syscall6(SYS_mremap, other + IP_AREA_TABLES_OFFSET, TABLES_SIZE, TABLES_SIZE,
			   MREMAP_MAYMOVE | MREMAP_FIXED, hole, 0);
	cpu_syscall(SYS_munmap, other, FAILED(ret) ? IP_AREA_TABLES_END : IP_AREA_TABLES_OFFSET, 0,
		    0);
	if (FAILED(ret)) {
		cpu_syscall(SYS_munmap, hole, TABLES_SIZE, 0, 0);
		return ret;
	}
	rt_has_tables = 1;
	rt_area_find_tables();
	return 0;
}

long rt_pool_add(uint64_t address, uint64_t size)
{
	unsigned pool = IP_POOL_MORE;
	long ret;

	while (pool < IP_POOLS && iprobe_rt_anchor.pools[pool].size)
		pool++;
	if (pool == IP_POOLS)
		return -ENOSPC;
	if (!size || size % PAGE || address % PAGE || size > IP_POOL_SIZE_MAX)
		return -EINVAL;
	ret = map_free(address, size, PROT_READ | PROT_EXEC);
	if (FAILED(ret))
		return ret;
	iprobe_rt_anchor.pools[pool].address = address;
	cpu_store_order();
	iprobe_rt_anchor.pools[pool].size = size;
	return 0;
}
