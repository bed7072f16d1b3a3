/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An area that takes little memory. See area_lean.h.
 */
#include "hotpatcher/shm/area_lean.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include "hotpatcher/shm/area.h"

#define BLOCKS_LEAST 32u
#define BLOCKS_EACH  4u /* for each thread */
#define SLOTS	     512u
#define SLOTS_BEGIN  (IP_AREA_SLOTS_OFFSET + SLOTS * sizeof(struct ip_slot))
#define SLOTS_SIZE   ((IP_AREA_SLOTS - SLOTS) * sizeof(struct ip_slot))

_Static_assert(SLOTS_BEGIN % 4096 == 0 && SLOTS_SIZE % 4096 == 0, "pages");

void ip_area_lean_prepare(struct ip_area *area, bool lean, uint32_t nthreads)
{
	uint32_t n = BLOCKS_LEAST;

	while (n < IP_AREA_SLOTS && n < (uint64_t)BLOCKS_EACH * nthreads)
		n *= 2;
	area->blocks.most = lean ? n : 0;
	area->blocks.alone = lean;
}

bool ip_area_lean_give_back(struct ip_area *area)
{
	/* the first session of the area: no hook is older */
	return area->header->session == 1 &&
	       __atomic_load_n(&area->header->last_session, __ATOMIC_RELAXED) == 1 &&
	       fallocate(area->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, SLOTS_BEGIN,
			 SLOTS_SIZE) == 0;
}

bool ip_area_lean_take_back(struct ip_area *area)
{
	return __atomic_load_n(&area->header->slots_used, __ATOMIC_RELAXED) > SLOTS / 2 &&
	       fallocate(area->fd, 0, SLOTS_BEGIN, SLOTS_SIZE) == 0;
}
