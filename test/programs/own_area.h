/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread area for clone(CLONE_SETTLS), as glibc would have made it: a copy of the caller's, with
 * its own address in it. The kernel writes the id there (CLONE_PARENT_SETTID, OWN_AREA_TID). For
 * code that uses nothing of libc.
 */
#ifndef OWN_AREA_H
#define OWN_AREA_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define OWN_AREA_SIZE	65536
#define OWN_AREA_BEHIND 2304  /* the thread pointer: struct pthread */
#define OWN_AREA_TID	0x2d0 /* from there: the thread's id */

/* The thread pointer, or NULL. */
__attribute__((no_instrument_function)) static inline char *own_area_make(void)
{
	char *area = mmap(NULL, OWN_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0),
	     *mine;
	uintptr_t before;

	__asm__ volatile("movq %%fs:0, %0" : "=r"(mine));
	if (area == MAP_FAILED)
		return NULL;
	area += OWN_AREA_SIZE / 2;
	/* variables lie in front of it, in the same page at least: those of iprobe's runtime */
	before = (uintptr_t)mine % 4096;
	memcpy(area - before, mine - before, before + OWN_AREA_BEHIND);
	memcpy(area, &area, sizeof(area));
	memcpy(area + 16, &area, sizeof(area));
	return area;
}

#endif
