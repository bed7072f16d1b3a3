/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing mappings of text under the threads that run it. A borrowed thread does here what only a
 * thread of the process can do: the system calls. hotpatcher/patch/remap.h describes them, their
 * order, and why they are safe. The contents of the pages are written from outside.
 *
 * Each piece's entry always says what is mapped. If an iprobe has died, the next one finds there
 * what it has left.
 */
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "common/abi/borrow.h"
#include "runtime/arch/cpu.h"
#include "runtime/fperf_pmu.h"
#include "runtime/rt.h"

#define MREMAP_MAYMOVE	   1
#define MREMAP_FIXED	   2
#define MREMAP_DONTUNMAP   4
#define MADV_POPULATE_READ 22
#define EPERM		   1
#define ENOMEM		   12
#define EINVAL		   22
#define SWITCH_TRIES	   100000

#define FAILED(ret) ((unsigned long)(ret) > -4096ul)

/* Uses the kernel's clock: the process may have made reading the processor's clock a fault
 * (PR_SET_TSC). */
static void add_since(uint32_t *sum, uint64_t began)
{
	uint64_t ns = cpu_monotonic() - began;

	*sum = ns < UINT32_MAX - *sum ? *sum + ns : UINT32_MAX;
}

/* Returns an address, or an error. */
static long move_away(struct ip_remap *remap, const struct ip_remap_piece *piece)
{
	uint64_t began = cpu_monotonic();
	long ret = cpu_syscall6(SYS_mremap, piece->at, piece->size, piece->size,
				MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0, 0);

	add_since(&remap->changing_ns, began);
	return ret;
}

/* Without this, threads that run there would fault the pages in one by one. */
static void fill(uint64_t address, uint64_t size)
{
	cpu_syscall(SYS_madvise, address, size, MADV_POPULATE_READ, 0);
}

static int32_t stage(struct ip_remap *remap, struct ip_remap_piece *piece)
{
	long ret = move_away(remap, piece);

	if (FAILED(ret))
		return -ret;
	piece->staged = ret;
	fill(piece->at, piece->size);
	return 0;
}

static int32_t drop(struct ip_remap *remap, struct ip_remap_piece *piece)
{
	uint64_t began = cpu_monotonic();
	long ret;

	rt_pmu_forget_page(piece->staged); /* if it is the page of a counter */
	ret = piece->staged ? cpu_syscall(SYS_munmap, piece->staged, piece->size, 0, 0) : 0;

	add_since(&remap->changing_ns, began);
	if (FAILED(ret))
		return -ret;
	piece->staged = 0;
	return 0;
}

/* The kernel's memory for its records of mappings may be short (the tracer has checked that it is
 * not). Then mremap fails between unmapping the old text and mapping the new text. The only remedy
 * is to try again. */
static int32_t switch_over(struct ip_remap *remap, struct ip_remap_piece *piece)
{
	uint64_t began = cpu_monotonic();
	long ret = 0;

	for (unsigned i = 0; i < SWITCH_TRIES; i++) {
		ret = cpu_syscall6(SYS_mremap, piece->staged, piece->size, piece->size,
				   MREMAP_MAYMOVE | MREMAP_FIXED, piece->at, 0);
		if (ret != -ENOMEM)
			break;
		cpu_syscall(SYS_sched_yield, 0, 0, 0, 0);
	}
	add_since(&remap->changing_ns, began);
	if (FAILED(ret))
		return -ret;
	piece->staged = 0;
	return 0;
}

/* Moves the text's pages away, twice. The second mapping has none of them. Then the first one is
 * put back. While the pages are away the text has the file's pages: nothing else is done in that
 * time. */
static int32_t copy(struct ip_remap *remap, struct ip_remap_piece *piece)
{
	uint64_t began = cpu_monotonic();
	long own = move_away(remap, piece), other;
	int32_t error;

	if (FAILED(own))
		return -own;
	piece->staged = own;
	other = move_away(remap, piece);
	error = switch_over(remap, piece);
	add_since(&remap->bare_ns, began);
	if (FAILED(other))
		return error ? error : -other;
	if (error) { /* what is staged must come back: the entry can hold nothing else */
		cpu_syscall(SYS_munmap, other, piece->size, 0, 0);
		return error;
	}
	piece->staged = other;
	fill(other, piece->size);
	return 0;
}

/* If the descriptor belongs to another file, the ioctl fails. */
static int32_t close_counter(const struct ip_remap_piece *piece)
{
	uint64_t id = 0;

	if (cpu_syscall(SYS_ioctl, piece->at, PERF_EVENT_IOC_ID, &id, 0) == 0 && id == piece->size)
		cpu_syscall(SYS_close, piece->at, 0, 0, 0);
	return 0;
}

/* The area and nothing else, whatever the entry says. */
static int32_t inherit(const struct ip_remap_piece *piece, uint32_t is)
{
	long ret;

	if (piece->at != iprobe_rt_anchor.area || piece->size != iprobe_rt_anchor.area_size)
		return EINVAL;
	ret = rt_area_keep(is);
	return FAILED(ret) ? -ret : 0;
}

/* In a child: replaces the area in one step, so that a late hook finds memory. */
static int32_t disown(const struct ip_remap_piece *piece)
{
	long ret;

	if (piece->at != iprobe_rt_anchor.area || piece->size != iprobe_rt_anchor.area_size)
		return EINVAL;
	ret = rt_area_disown();
	return FAILED(ret) ? -ret : 0;
}

/* In a child: gives it an area of its own. */
static int32_t renew(const struct ip_remap_piece *piece, int replace)
{
	long ret;

	if (piece->at != iprobe_rt_anchor.area || piece->size != iprobe_rt_anchor.area_size)
		return EINVAL;
	ret = rt_area_renew(replace);
	return FAILED(ret) ? -ret : 0;
}

/* Changes how much of the area is mapped. */
static int32_t window(const struct ip_remap_piece *piece)
{
	long ret;

	if (piece->what == IP_REMAP_POOL) {
		ret = rt_pool_add(piece->at, piece->size);
		return FAILED(ret) ? -ret : 0;
	}
	if (piece->at != iprobe_rt_anchor.area)
		return EINVAL;
	switch (piece->what) {
	case IP_REMAP_WIDEN:
		ret = rt_area_widen(piece->size, piece->staged);
		break;
	case IP_REMAP_NARROW:
		ret = rt_area_narrow(piece->size);
		break;
	case IP_REMAP_REMOVE:
		ret = rt_area_remove();
		break;
	default:
		ret = rt_area_map_tables();
	}
	return FAILED(ret) ? -ret : 0;
}

/* Stops at the first failure. iprobe, or the next one, handles the rest. */
static void remap_all(struct ip_remap *remap)
{
	for (uint32_t i = 0; i < remap->npieces && i < IP_REMAP_PIECES; i++) {
		struct ip_remap_piece *piece = &remap->pieces[i];

		switch (piece->what) {
		case IP_REMAP_STAGE:
			piece->error = stage(remap, piece);
			break;
		case IP_REMAP_SWITCH:
			piece->error = switch_over(remap, piece);
			break;
		case IP_REMAP_COPY:
			piece->error = copy(remap, piece);
			break;
		case IP_REMAP_DROP:
			piece->error = drop(remap, piece);
			break;
		case IP_REMAP_CLOSE:
			piece->error = close_counter(piece);
			break;
		case IP_REMAP_INHERIT:
			piece->error = inherit(piece, 1);
			break;
		case IP_REMAP_WITHHOLD:
			piece->error = inherit(piece, 0);
			break;
		case IP_REMAP_DISOWN:
			piece->error = disown(piece);
			break;
		case IP_REMAP_RENEW:
			piece->error = renew(piece, 0);
			break;
		case IP_REMAP_REPLACE:
			piece->error = renew(piece, 1);
			break;
		case IP_REMAP_WIDEN:
		case IP_REMAP_TABLES:
		case IP_REMAP_POOL:
		case IP_REMAP_NARROW:
		case IP_REMAP_REMOVE:
			piece->error = window(piece);
			break;
		case IP_REMAP_CLOCK:
			piece->error = rt_clock_is_forbidden() ? EPERM : 0;
			break;
		case IP_REMAP_REVERT:
			piece->error = stage(remap, piece);
			if (!piece->error)
				piece->error = drop(remap, piece);
			break;
		}
		piece->what = IP_REMAP_NOTHING;
		if (piece->error)
			return;
	}
}

/* Called by rt_remap. */
void rt_remap_run(void)
{
	struct ip_remap *remap = (struct ip_remap *)rt_remap_block;
	const int32_t priority = 0;

	remap->changing_ns = remap->bare_ns = 0;
	remap_all(remap);
	/* lowering the priority needs no privilege */
	if (remap->policy)
		cpu_syscall(SYS_sched_setscheduler, 0, remap->policy - 1, &priority, 0);
	remap->policy = 0;
}
