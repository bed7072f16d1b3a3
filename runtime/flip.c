/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing mappings of text under the threads that run it. A borrowed thread does here what only a thread of the process can do: the
 * system calls. What, in which order, and why it is safe tells hotpatcher/flip.h; the pages' contents are written from
 * outside.
 *
 * Each piece's entry always says what is mapped: whoever comes after an iprobe that died finds there what it has left.
 */
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

#define MREMAP_MAYMOVE	   1
#define MREMAP_FIXED	   2
#define MREMAP_DONTUNMAP   4
#define MADV_POPULATE_READ 22
#define ENOMEM		   12
#define SWITCH_TRIES	   100000

#define FAILED(ret) ((unsigned long)(ret) > -4096ul)

static int32_t stage(struct ip_flip_piece *piece)
{
	long ret = cpu_syscall6(SYS_mremap, piece->at, piece->size, piece->size,
				MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0, 0);

	if (FAILED(ret))
		return -ret;
	piece->staged = ret;
	/* the threads that run here would have to fault them in, page by page */
	cpu_syscall(SYS_madvise, piece->at, piece->size, MADV_POPULATE_READ, 0);
	return 0;
}

static int32_t drop(struct ip_flip_piece *piece)
{
	long ret = piece->staged ? cpu_syscall(SYS_munmap, piece->staged, piece->size, 0, 0) : 0;

	if (FAILED(ret))
		return -ret;
	piece->staged = 0;
	return 0;
}

/* If memory for the kernel's own records of mappings is short (it was looked that it is not), then between unmapping the old text and
 * mapping the new: the one thing to do is to try again. */
static int32_t switch_over(struct ip_flip_piece *piece)
{
	long ret = 0;

	for (unsigned i = 0; i < SWITCH_TRIES; i++) {
		ret = cpu_syscall6(SYS_mremap, piece->staged, piece->size, piece->size,
				   MREMAP_MAYMOVE | MREMAP_FIXED, piece->at, 0);
		if (ret != -ENOMEM)
			break;
		cpu_syscall(SYS_sched_yield, 0, 0, 0, 0);
	}
	if (FAILED(ret))
		return -ret;
	piece->staged = 0;
	return 0;
}

/* Another file's answer is an error. */
static int32_t close_counter(const struct ip_flip_piece *piece)
{
	uint64_t id = 0;

	if (cpu_syscall(SYS_ioctl, piece->at, PERF_EVENT_IOC_ID, &id, 0) == 0 && id == piece->size)
		cpu_syscall(SYS_close, piece->at, 0, 0, 0);
	return 0;
}

/* The first failure ends it: iprobe, or the next one, sees to the rest. */
static void flip_all(struct ip_flip *flip)
{
	for (uint32_t i = 0; i < flip->npieces && i < IP_FLIP_PIECES; i++) {
		struct ip_flip_piece *piece = &flip->pieces[i];

		switch (piece->what) {
		case IP_FLIP_STAGE:
			piece->error = stage(piece);
			break;
		case IP_FLIP_SWITCH:
			piece->error = switch_over(piece);
			break;
		case IP_FLIP_DROP:
			piece->error = drop(piece);
			break;
		case IP_FLIP_CLOSE:
			piece->error = close_counter(piece);
			break;
		case IP_FLIP_REVERT:
			piece->error = stage(piece);
			if (!piece->error)
				piece->error = drop(piece);
			break;
		}
		piece->what = IP_FLIP_NOTHING;
		if (piece->error)
			return;
	}
}

/* Called by rt_flip. */
void rt_flip_run(void)
{
	struct ip_flip *flip = (struct ip_flip *)rt_flip_block;
	const int32_t priority = 0;

	flip_all(flip);
	/* no privilege is needed for going down */
	if (flip->policy)
		cpu_syscall(SYS_sched_setscheduler, 0, flip->policy - 1, &priority, 0);
	flip->policy = 0;
}
